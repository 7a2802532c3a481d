"""Two kinds of noise: what rows of lagged values share, by dense Gaussians and Kalman filters."""

import numpy as np
import pandas as pd
import pytest
from statsmodels.tsa.statespace.sarimax import SARIMAX

from forecast_unc import Forecaster, GPRegressor, RVMRegressor, backtest, datasets, load_model
from forecast_unc.forecasting.differencing import Differencing
from forecast_unc.forecasting.model import _noisy_rows
from forecast_unc.forecasting.recursion import Past
from forecast_unc.regression.errors_in_variables import ErrorsInVariablesGP
from forecast_unc.regression.evidence import GaussianProcessEvidence
from forecast_unc.regression.shared_errors import SharedErrors
from tests import oracles

GP = GPRegressor(tol=1e-6)


def noisy_mackey_glass(n, noise_var, seed=0):
    """Standardized values, without and with an error."""
    clean = datasets.make_mackey_glass(n)
    clean = (clean - clean.mean()) / clean.std(ddof=0)
    return clean, clean + np.sqrt(noise_var) * np.random.default_rng(seed).standard_normal(n)


@pytest.fixture(scope="module")
def series():
    return noisy_mackey_glass(140, 0.01)[1]


@pytest.fixture(scope="module")
def fitted(series):
    return Forecaster(GP, lags=6, noise="both").fit(series)


def dense(gp, X, B, known_var):
    """K_tot by its definition at inputs measured from their means, and B V B' in it."""
    K = oracles.gp_kernel(X, X, gp.lengthscales_, gp.amplitude_, gp.linear_scale_, gp._bias_scale)
    errors = B @ np.diag(gp.observation_std_**2 + known_var) @ B.T
    return K + gp.noise_std_**2 * np.eye(len(X)) + errors


# The errors of the rows


@pytest.mark.parametrize("prior_mean", ["zero", "last"])
@pytest.mark.parametrize("differences", [0, 1, (1, 12)], ids=str)
def test_a_linear_function_leaves_what_the_matrix_says_of_the_errors(differences, prior_mean, rng):
    levels, error = rng.normal(size=(2, 60))
    error *= 0.1
    levels[[20, 41]] = np.nan
    exog = rng.normal(size=(60, 1))
    spec = Forecaster(GP, lags=(1, 3), differences=differences, prior_mean=prior_mean)
    frame = pd.DataFrame({"x": exog[:, 0]})
    spec = spec.fit(pd.Series(levels), frame).models_[0].specification
    differencing = Differencing(spec.differences, 0.3, 2.0)
    slopes = np.array([0.7, -0.4, 1.5])
    stds = np.zeros(60)
    residual = {}
    for name, y in (("true", levels), ("seen", levels + error)):
        rows = _noisy_rows(spec, differencing, Past(y, stds, exog))
        residual[name] = rows.y - rows.X @ slopes
    B = rows.errors.in_rows(np.tile(slopes, (len(rows.y), 1))).toarray()
    times = np.flatnonzero(~np.isnan(levels))
    touched = times[np.isin(times, np.unique(used_times(rows.errors, spec, levels)))]
    np.testing.assert_allclose(
        B @ error[touched] / 2.0, residual["seen"] - residual["true"], rtol=1e-10, atol=1e-12
    )


def used_times(errors, spec, levels):
    """Times of all values that rows without a gap are made of."""
    depth = [1.0]
    for lag in spec.differences:
        depth = np.convolve(depth, np.eye(lag + 1)[0] - np.eye(lag + 1)[lag])
    back = np.flatnonzero(depth)
    reach = np.unique(np.concatenate([back, *(lag + back for lag in spec.lags)]))
    first = max(spec.lags) + back[-1]
    times = np.arange(first, len(levels))
    rows = times[~np.isnan(levels[times[:, None] - reach]).any(axis=1)]
    assert len(rows) == len(errors.targets)
    return rows[:, None] - reach


# The evidence


@pytest.mark.parametrize("groups", [(0, 0, 0), (0, 1, -1)], ids=str)
def test_evidence_and_gradient_with_correlated_errors(groups, rng):
    n, d = 40, 3
    X, y = rng.normal(size=(n, d)), rng.normal(size=n)
    lags = np.arange(1, d + 1)
    times = np.arange(n)[:, None] + d
    errors = SharedErrors(times, np.ones(1), times - lags, np.eye(d), rng.uniform(size=n + d))
    slopes = rng.normal(size=(n, d))
    B = np.zeros((n, n + d))
    for t in range(n):
        B[t, t + d] = 1.0
        B[t, t + d - lags] -= slopes[t]
    np.testing.assert_allclose(errors.in_rows(slopes).toarray(), B, atol=1e-14)
    groups = np.array(groups)
    tau = np.array([0.4, 0.9])[: groups.max() + 1]

    def definition(log_theta):
        l, a, tau, s, s_e = np.split(np.exp(log_theta), [d, d + 1, -2, -1])
        scales = np.array([0.0 if g < 0 else tau[g] for g in groups])
        K = oracles.gp_kernel(X, X, l, a, scales, 0.6) + s**2 * np.eye(n)
        return -oracles.gp_log_evidence(y, K + B @ np.diag(s_e**2 + errors.known_var / 4.0) @ B.T)

    evidence = GaussianProcessEvidence(X, y, True, groups, 0.6, errors.covariance(slopes, 2.0))
    at = np.log(np.concatenate([[0.8, 1.7, 5.0, 1.3], tau, [0.2, 0.3]]))
    value, gradient = evidence(np.exp(at[:d]), 1.3, tau, 0.2, 0.3)
    np.testing.assert_allclose(value, definition(at), rtol=1e-11)
    np.testing.assert_allclose(
        gradient, oracles.finite_difference(definition, at), rtol=1e-6, atol=1e-5
    )


@pytest.mark.parametrize("kind", ["both", "observation"])
def test_what_was_learned_is_a_gaussian_process_with_dense_covariance(kind, series):
    model = Forecaster(GP, lags=6, noise=kind).fit(series).models_[0]
    gp, (_, X, y) = model.regressor, model.training_rows()
    rows = _noisy_rows(model.specification, model.differencing, model.past)
    B = rows.errors.in_rows(gp._slopes_of.gradient(X)).toarray()
    mean, inputs = y.mean(), X - X.mean(axis=0)
    K = dense(gp, inputs, B, np.zeros(B.shape[1]))
    assert gp.log_evidence_ == pytest.approx(oracles.gp_log_evidence(y - mean, K), abs=1e-6)
    at = inputs[::9] + 0.2
    cross = oracles.gp_kernel(
        at, inputs, gp.lengthscales_, gp.amplitude_, gp.linear_scale_, gp._bias_scale
    )
    prior = oracles.gp_kernel(
        at, at, gp.lengthscales_, gp.amplitude_, gp.linear_scale_, gp._bias_scale
    )
    found, var = gp.posterior_.predict(at + X.mean(axis=0))
    np.testing.assert_allclose(found, mean + cross @ np.linalg.solve(K, y - mean), rtol=1e-7)
    latent = np.diagonal(prior - cross @ np.linalg.solve(K, cross.T))
    np.testing.assert_allclose(var, latent + gp.noise_std_**2 + gp.observation_std_**2, rtol=1e-7)
    share = gp.noise_std_ / gp.observation_std_
    assert share == pytest.approx(0.1, rel=1e-3) if kind == "observation" else share != 0.1


def test_the_search_ends_where_the_evidence_is_stationary(fitted):
    """Moving a noise, with the rest as it is, loses evidence and prior."""
    model = fitted.models_[0]
    gp, (_, X, y) = model.regressor, model.training_rows()
    rows = _noisy_rows(model.specification, model.differencing, model.past)
    B = rows.errors.in_rows(gp._slopes_of.gradient(X)).toarray()
    inputs, y = X - X.mean(axis=0), y - y.mean()

    def loss(log_stds):
        noise, error = np.exp(log_stds)
        K = oracles.gp_kernel(
            inputs, inputs, gp.lengthscales_, gp.amplitude_, gp.linear_scale_, gp._bias_scale
        )
        return -oracles.gp_log_evidence(y, K + noise**2 * np.eye(len(y)) + error**2 * B @ B.T)

    gradient = oracles.finite_difference(loss, np.log([gp.noise_std_, gp.observation_std_]))
    # what the weak prior of std 1.5 pulls with, at most 3 of its stds away
    assert np.abs(gradient).max() < 3.0 / 1.5
    assert gp.converged_


# Against the Kalman filter


def test_an_autoregression_with_noise_is_that_of_maximum_likelihood(rng):
    n, phi = 500, 0.9
    latent = oracles.autoregression([phi], n, rng)
    y = pd.Series(latent + 1.5 * rng.standard_normal(n))
    other = SARIMAX(y.to_numpy(), order=(1, 0, 0), measurement_error=True)
    theirs = dict(zip(other.param_names, other.fit(disp=False).params, strict=True))
    given = GPRegressor(lengthscales=1e3, tol=1e-8)  # linear, but for a bend that is not there
    model = Forecaster(given, lags=1, noise="both").fit(y)
    one = model.models_[0]
    gp, scale = one.regressor, one.differencing.scale
    slope = gp.posterior_.gradient(np.zeros((1, 1))).item()
    # standard errors of the estimates at n = 500: .03, .2 and .12
    assert slope == pytest.approx(theirs["ar.L1"], abs=0.03)
    assert scale * gp.noise_std_ == pytest.approx(np.sqrt(theirs["sigma2"]), abs=0.2)
    error_std = np.sqrt(theirs["var.measurement_error"])
    assert scale * gp.observation_std_ == pytest.approx(error_std, abs=0.12)
    plain = Forecaster(given, lags=1).fit(y).models_[0].regressor.posterior_
    assert plain.gradient(np.zeros((1, 1))).item() < slope - 0.1  # attenuated
    # the forecast is the filter's with these parameters, but for the function's uncertainty
    params = [slope, (scale * gp.observation_std_) ** 2, (scale * gp.noise_std_) ** 2]
    ahead = model.forecast(8)
    filtered = SARIMAX((y - y.mean()).to_numpy(), order=(1, 0, 0), measurement_error=True).filter(
        params
    )
    found = filtered.get_forecast(8)
    np.testing.assert_allclose(
        (ahead.mean - y.mean() - found.predicted_mean) / ahead.std, 0.0, atol=0.05
    )
    parts = ahead.decompose()
    noise = parts[["noise", "noise_observation", "inputs_propagated", "inputs_missing"]]
    np.testing.assert_allclose(parts["noise_observation"], params[1], rtol=1e-10)
    # with the function known nothing else is left
    left = parts.drop(columns=noise.columns).sum(axis=1)
    assert (left.abs() < 0.1 * ahead.var).all()
    np.testing.assert_allclose(noise.sum(axis=1), found.var_pred_mean, rtol=0.05)


def test_the_state_is_that_of_the_errors_given_all_rows(rng):
    """E[e] = s_e^2 B' K_tot^-1 y and Cov[e], their last entries, where the function is known."""
    n = 300
    y = pd.Series(oracles.autoregression([0.5, 0.3], n, rng) + rng.standard_normal(n))
    gp = GPRegressor(lengthscales=1e3, tol=1e-6)
    one = Forecaster(gp, lags=2, noise="both").fit(y).models_[0]
    gp, (_, X, target) = one.regressor, one.training_rows()
    rows = _noisy_rows(one.specification, one.differencing, one.past)
    B = rows.errors.in_rows(gp._slopes_of.gradient(X)).toarray()
    K = dense(gp, X - X.mean(axis=0), B, np.zeros(n))
    var = gp.observation_std_**2
    error = var * B.T @ np.linalg.solve(K, target - target.mean())
    cov = var * np.eye(n) - var**2 * B.T @ np.linalg.solve(K, B)
    scale = one.differencing.scale
    ahead = Forecaster(GPRegressor(lengthscales=1e3, tol=1e-6), lags=2, noise="both").fit(y)
    start = ahead.forecast(1).decompose()["inputs_missing"].item() / scale**2
    slope = gp.posterior_.gradient(X[-1:])[0]
    expected = slope @ cov[-1:-3:-1, -1:-3:-1] @ slope
    assert start == pytest.approx(expected, rel=0.05)
    last = (y.to_numpy()[-1:-3:-1] - one.differencing.shift) / scale - error[-1:-3:-1]
    mean = (ahead.forecast(1).mean.item() - one.differencing.shift) / scale
    assert mean == pytest.approx(gp.posterior_.mean(last[None]).item(), abs=0.05 * np.sqrt(var))


# What a forecaster makes of it


def test_less_density_is_lost_over_many_steps():
    y = noisy_mackey_glass(900, 0.01)[1]
    train, steps = y[:216], 60
    losses = {}
    for noise in ("process", "observation", "both"):
        model = Forecaster(GP, lags=16, noise=noise).fit(train)
        losses[noise] = np.mean(
            [
                model.apply(y[origin - 140 : origin])
                .forecast(steps)
                .score(y[origin : origin + steps])["nlpd"]
                for origin in (400, 600, 800)
            ]
        )
        if noise != "process":
            one = model.models_[0]
            std = one.differencing.scale * one.regressor.observation_std_
            assert std == pytest.approx(0.1, rel=0.25)
    assert losses["observation"] < losses["process"] - 0.3
    assert losses["both"] < losses["process"] - 0.3


CASES = {
    "gap": {"missing": [100, 136]},
    "differences": {"differences": 1},
    "log": {"transform": "log"},
    "anchor": {"prior_mean": "last"},
    "regressor": {"exog": True},
    "stds": {"y_std": True},
    "rows": {"max_train": 70},
}


@pytest.mark.parametrize("case", CASES)
def test_it_works_with(case, series, tmp_path):
    options = dict(CASES[case])
    y = 10.0 + series
    y.iloc[options.pop("missing", [])] = np.nan
    index = y.index
    frame = pd.DataFrame({"x": np.cos(np.arange(150.0))})
    exog = frame.loc[index] if options.pop("exog", False) else None
    ahead_exog = None if exog is None else frame.iloc[140:144]
    stds = pd.Series(0.05, index) if options.pop("y_std", False) else None

    def cut(values, part):
        return None if values is None else values.iloc[part]

    first, rest = slice(0, 130), slice(130, 140)
    model = Forecaster(GP, lags=4, noise="both", **options)
    model.fit(y[first], cut(exog, first), cut(stds, first))
    model.save(tmp_path / "model")
    twice = load_model(tmp_path / "model")
    model.update(y[rest], cut(exog, rest), cut(stds, rest))
    for part in (slice(130, 133), slice(133, 140)):
        twice.update(y[part], cut(exog, part), cut(stds, part))
    ahead, again = (one.forecast(4, ahead_exog) for one in (model, twice))
    np.testing.assert_allclose(ahead.cov, again.cov, rtol=1e-9)
    parts = ahead.decompose()
    np.testing.assert_allclose(parts.sum(axis=1), ahead.var, rtol=1e-10)
    assert (parts["noise_observation"] > 0).all()
    assert (parts["inputs_missing"] > 0).all()
    paths = model.forecast(4, ahead_exog, propagation="monte_carlo", random_state=0)
    error = np.abs(paths.median - ahead.median) / (ahead.std / np.sqrt(1000))
    assert error.max() < 6.0
    assert "observation noise std" in model.summary()


def test_units_change_nothing(series, fitted):
    other = Forecaster(GP, lags=6, noise="both").fit(1000.0 - 7.0 * series).forecast(5)
    ahead = fitted.forecast(5)
    # the searches end within their tolerance of 1e-6 in the objective of each other
    away = (other.mean - 1000.0 + 7.0 * ahead.mean) / other.std
    np.testing.assert_allclose(away, 0.0, atol=0.02)
    np.testing.assert_allclose(other.std, 7.0 * ahead.std, rtol=0.02)


def test_known_errors_are_not_learned_once_more(rng):
    n = 400
    latent = oracles.autoregression([0.9], n, rng)
    y, std = pd.Series(latent + 1.5 * rng.standard_normal(n)), pd.Series(1.5, range(n))
    gp = GPRegressor(lengthscales=1e3, tol=1e-6)
    known = Forecaster(gp, lags=1, noise="both").fit(y, y_std=std).models_[0]
    scale, regressor = known.differencing.scale, known.regressor
    assert scale * regressor.observation_std_ < 0.75
    assert regressor.posterior_.gradient(np.zeros((1, 1))).item() == pytest.approx(0.9, abs=0.1)


def test_auto_takes_what_the_evidence_shows(rng):
    plain = pd.Series(oracles.autoregression([0.6, 0.2], 150, rng))
    model = Forecaster(GP, lags=2, noise="auto").fit(plain)
    assert model.models_[0].noise.kind == "process"
    assert "noise process: log evidence process" in model.choices_[-1]
    same = Forecaster(GP, lags=2).fit(plain)
    np.testing.assert_array_equal(model.forecast(3).cov, same.forecast(3).cov)
    _, noisy = noisy_mackey_glass(216, 0.001)
    model = Forecaster(GP, lags=16, noise="auto").fit(noisy)
    assert model.models_[0].noise.kind in ("observation", "both")
    assert any(line.startswith("noise ") for line in model.summary().splitlines())


def test_the_automatic_choice_and_backtests_take_it(series):
    model = Forecaster(noise="observation", seasonal_period=None).fit(series[:60])
    assert all(isinstance(one.regressor, ErrorsInVariablesGP) for one in model.models_)
    assert len(model.forecast(3)) == 3
    found = backtest(
        Forecaster(GP, lags=3, noise="both"), series, steps=3, n_origins=3, refit=False
    )
    assert np.isfinite(found.frame["std"]).all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"noise": "white"}, "noise must be one of 'process', 'observation', 'both', 'auto'; got"),
        (
            {"noise": "both", "regressor": RVMRegressor()},
            "noise must be 'process' for RVMRegressor; got 'both'. Only GPRegressor",
        ),
        (
            {"noise": "both", "regressor": GPRegressor(noise_std=0.1)},
            r"noise must be 'process' for GPRegressor\(noise_std=0.1\), .*; got 'both'. Give known",
        ),
        (
            {"noise": "auto", "calibrate": True},
            "noise must be 'process' for calibrate=True, .*; got 'auto'. Use calibrate=False",
        ),
    ],
)
def test_messages(arguments, message, series):
    with pytest.raises(ValueError, match=message):
        Forecaster(lags=2, **arguments).fit(series)


def test_rows_alone_do_not_condition(fitted):
    with pytest.raises(TypeError, match="condition must be given the errors of the rows"):
        fitted.models_[0].regressor.condition(np.zeros((4, 6)), np.zeros(4))
