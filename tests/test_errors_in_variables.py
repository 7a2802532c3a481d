"""Two kinds of noise: what rows of lagged values share, by dense Gaussians and Kalman filters."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from statsmodels.tsa.statespace.sarimax import SARIMAX

from forecast_unc import Forecaster, GPRegressor, RVMRegressor, backtest, datasets, load_model
from forecast_unc.distributions.forecast import prediction_of
from forecast_unc.forecasting.horizon.differencing import Differencing
from forecast_unc.forecasting.horizon.types import Past
from forecast_unc.forecasting.models.lagged import _noisy_rows
from forecast_unc.forecasting.pool.backcast import Rolling, rolling_forecasts
from forecast_unc.forecasting.pool.calibration import calibration, rolling_errors
from forecast_unc.regression.errors_in_variables import ErrorsInVariablesGP, SharedErrors
from forecast_unc.regression.gp_evidence import GaussianProcessEvidence
from forecast_unc.series.rows import complete_rows, interpolated
from tests import oracles
from tests.members import noisy_rows, rows_of


def lagged_rows(spec, differencing, past):
    times = complete_rows(past.levels, spec.lags, spec.differences)
    return _noisy_rows(spec, differencing, past, times)


GP = GPRegressor()


def bias_std(gp):
    return gp._process.linear_std[-1]


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
    K = oracles.gp_kernel(X, X, gp.lengthscales_, gp.amplitude_, gp.linear_scale_, bias_std(gp))
    errors = B @ np.diag(gp.observation_std_**2 + known_var) @ B.T
    return K + gp.noise_std_**2 * np.eye(len(X)) + errors


# The errors of the rows


@pytest.mark.parametrize(
    ("differences", "prior_mean"), [(0, "last"), (1, "zero"), ((1, 12), "last")], ids=str
)
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
        rows = lagged_rows(spec, differencing, Past(y, stds, exog, np.ones(len(y), bool)))
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


class Dense:
    """The posterior of some rows by its definition, with the hyper-parameters of a fitted one.

    Smoothed as often as that: inputs less the errors' means, and slopes by differences.
    """

    def __init__(self, gp, X, y, errors):
        self.gp, n = gp, len(y)
        self.offset, self.center = gp._process.output_offset, gp._process.input_offset
        var = gp.observation_std_**2 + errors.known_var
        lagged = np.zeros((X.shape[1], n, len(var)))  # of the errors in each input
        for j, weights in enumerate(errors.input_weights):
            for at, weight in zip(errors.inputs.T, weights, strict=True):
                lagged[j, np.arange(n), at] += weight
        self.X, self.y, slopes = X, y, gp._slopes_of.gradient(X)
        for left in range(gp.n_smoothings_, -1, -1):
            B = errors.in_rows(slopes).toarray()
            K = dense(gp, self.X - self.center, B, errors.known_var)
            self.K, self.log_evidence = K, oracles.gp_log_evidence(self.y - self.offset, K)
            self.weights = np.linalg.solve(K, self.y - self.offset)
            self.errors = var * (B.T @ self.weights)
            if left:
                in_inputs = (lagged @ self.errors).T
                inputs = X - in_inputs
                slopes = np.array([oracles.finite_difference(self.mean_at, x) for x in inputs])
                self.X, self.y = inputs, y - (slopes * in_inputs).sum(axis=1)

    def kernel(self, A, B):
        gp = self.gp
        scales = gp.lengthscales_, gp.amplitude_, gp.linear_scale_, bias_std(gp)
        return oracles.gp_kernel(A - self.center, B - self.center, *scales)

    def mean_at(self, x):
        return self.offset + (self.kernel(np.atleast_2d(x), self.X) @ self.weights)[0]

    def predict(self, X):
        cross = self.kernel(X, self.X)
        latent = np.diagonal(self.kernel(X, X) - cross @ np.linalg.solve(self.K, cross.T))
        noise = self.gp.noise_std_**2 + self.gp.observation_std_**2
        return self.offset + cross @ self.weights, latent + noise


@pytest.mark.parametrize("kind", ["both", "observation"])
def test_what_was_learned_is_a_gaussian_process_with_dense_covariance(kind, series):
    model = Forecaster(GP, lags=6, noise=kind).fit(series).models_[0]
    gp, rows = model.regressor, noisy_rows(model)
    by_hand = Dense(gp, rows.X, rows.y, rows.errors)
    at = rows.X[::9] + 0.2
    # slopes by differences are good for eight digits
    for found, expected in zip(gp.posterior_.predict(at), by_hand.predict(at), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-6)
    share = gp.noise_std_ / gp.observation_std_
    if kind == "observation":
        assert gp.n_smoothings_ == 2
        assert share == pytest.approx(0.03, rel=0.01)
    else:
        assert gp.log_evidence_ == pytest.approx(by_hand.log_evidence, abs=1e-6)
        assert share != 0.03


def test_without_a_linear_part_there_is_none(series):
    gp = GPRegressor(linear=False)
    model = Forecaster(gp, lags=2, noise="both").fit(series[:30]).models_[0]
    gp, rows = model.regressor, noisy_rows(model)
    assert not gp.linear_scale_.any()
    by_hand = Dense(gp, rows.X, rows.y, rows.errors)
    assert gp.log_evidence_ == pytest.approx(by_hand.log_evidence, abs=1e-6)


def test_variances_of_both_noises_are_those_of_a_t_process(series):
    model = Forecaster(GPRegressor(prior="shrunk"), lags=2, noise="both").fit(series[:30])
    gp, n = model.models_[0].regressor, model.models_[0].n_rows
    wider = (n - 1) / (n - 3)
    assert gp.posterior_.noise_var == pytest.approx(wider * gp.noise_std_**2, rel=1e-12)
    assert gp.posterior_.observation_var == pytest.approx(wider * gp.observation_std_**2, rel=1e-12)


def test_smoothed_inputs_are_nearer_to_the_true_ones():
    clean, y = noisy_mackey_glass(216, 0.01)
    found = {}
    for kind in ("observation", "both"):
        model = Forecaster(GP, lags=16, noise=kind).fit(y).models_[0]
        gp, scale = model.regressor, model.differencing.scale
        error = scale * gp._error_means  # of all 216 values
        assert np.mean((y - error - clean) ** 2) < 0.5 * 0.01
        # and the function is nearer to the true one, there and on values not seen
        later = datasets.make_mackey_glass(1000)
        later = ((later - later.mean()) / later.std(ddof=0)).to_numpy()[300:]
        windows = np.lib.stride_tricks.sliding_window_view(later, 17)
        mean = gp.posterior_.mean((windows[:, -2::-1] - model.differencing.shift) / scale)
        left = scale * mean + model.differencing.shift - windows[:, -1]
        found[kind] = np.mean(left**2)
    assert found["observation"] < 0.7 * found["both"]


def test_the_search_ends_where_the_evidence_is_stationary(fitted):
    """Moving a noise, with the rest as it is, loses evidence and prior."""
    model = fitted.models_[0]
    gp, (_, X, y) = model.regressor, rows_of(model)
    rows = lagged_rows(model.specification, model.differencing, model.past)
    B = rows.errors.in_rows(gp._slopes_of.gradient(X)).toarray()
    inputs, y = X - X.mean(axis=0), y - y.mean()

    def loss(log_stds):
        noise, error = np.exp(log_stds)
        K = oracles.gp_kernel(
            inputs, inputs, gp.lengthscales_, gp.amplitude_, gp.linear_scale_, bias_std(gp)
        )
        return -oracles.gp_log_evidence(y, K + noise**2 * np.eye(len(y)) + error**2 * B @ B.T)

    gradient = oracles.finite_difference(loss, np.log([gp.noise_std_, gp.observation_std_]))
    # what the weak prior of std 1.5 pulls with, at most 3 of its stds away
    assert np.abs(gradient).max() < 3.0 / 1.5
    assert gp.converged_


# Against the Kalman filter


def test_an_autoregression_with_noise_is_that_of_maximum_likelihood(rng):
    n, phi = 300, 0.9
    latent = oracles.autoregression([phi], n, rng)
    y = pd.Series(latent + 1.5 * rng.standard_normal(n))
    other = SARIMAX(y.to_numpy(), order=(1, 0, 0), measurement_error=True)
    theirs = dict(zip(other.param_names, other.fit(disp=False).params, strict=True))
    given = GPRegressor(lengthscales=1e3, tol=1e-8)  # linear, but for a bend that is not there
    model = Forecaster(given, lags=1, noise="both").fit(y)
    one = model.models_[0]
    gp, scale = one.regressor, one.differencing.scale
    slope = gp.posterior_.gradient(np.zeros((1, 1))).item()
    # standard errors of the estimates at n = 300: .04, .26 and .15
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
    n = 150
    y = pd.Series(oracles.autoregression([0.5, 0.3], n, rng) + rng.standard_normal(n))
    gp = GPRegressor(lengthscales=1e3)
    ahead = Forecaster(gp, lags=2, noise="both").fit(y)
    one = ahead.models_[0]
    gp, (_, X, target) = one.regressor, rows_of(one)
    rows = lagged_rows(one.specification, one.differencing, one.past)
    B = rows.errors.in_rows(gp._slopes_of.gradient(X)).toarray()
    K = dense(gp, X - X.mean(axis=0), B, np.zeros(n))
    var = gp.observation_std_**2
    error = var * B.T @ np.linalg.solve(K, target - target.mean())
    cov = var * np.eye(n) - var**2 * B.T @ np.linalg.solve(K, B)
    scale = one.differencing.scale
    start = ahead.forecast(1).decompose()["inputs_missing"].item() / scale**2
    slope = gp.posterior_.gradient(X[-1:])[0]
    expected = slope @ cov[-1:-3:-1, -1:-3:-1] @ slope
    assert start == pytest.approx(expected, rel=0.05)
    last = (y.to_numpy()[-1:-3:-1] - one.differencing.shift) / scale - error[-1:-3:-1]
    mean = (ahead.forecast(1).mean.item() - one.differencing.shift) / scale
    assert mean == pytest.approx(gp.posterior_.mean(last[None]).item(), abs=0.05 * np.sqrt(var))


# Origins inside the training part


def two_noise_model(kind, **options):
    y = 10.0 + noisy_mackey_glass(90, 0.01)[1]
    y.iloc[options.pop("missing", [])] = np.nan
    stds = pd.Series(np.linspace(0.0, options.pop("y_std", 0.0), 90), y.index)
    return Forecaster(GP, lags=4, noise=kind, **options).fit(y, y_std=stds).models_[0]


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("both", {"differences": 1, "missing": [30, 59]}),
        ("both", {"prior_mean": "last"}),
        ("observation", {"y_std": 0.2}),
    ],
    ids=str,
)
def test_rolling_forecasts_are_of_the_levels_given_the_rows_before(kind, options):
    """Each origin by a dense posterior of its own rows, iterated level by level."""
    model = two_noise_model(kind, **options)
    rows, scale, differencing = noisy_rows(model), model.differencing.scale, model.differencing
    origins = np.array([45, 62, 84])
    found = rolling_forecasts(model, origins, 5).value
    for value, origin in zip(found, origins, strict=True):
        m = int((rows.times < origin).sum())
        by_hand = Dense(model.regressor, rows.X[:m], rows.y[:m], rows.errors.first(m))
        levels = model.past.levels.copy()
        levels[rows._touched] -= scale * by_hand.errors
        levels = list(interpolated(levels)[:origin])
        for _ in range(5):
            z = differencing.forward(np.array(levels))
            x = np.array([z[-lag] for lag in model.specification.lags])
            change = by_hand.mean_at(x)
            if model.specification.anchor is not None:
                change += x[model.specification.anchor]
            low, high = (differencing.forward(np.array([*levels, v]))[-1] for v in (0.0, 1.0))
            levels.append((change - low) / (high - low))
        np.testing.assert_allclose(value, levels[origin:], rtol=1e-6)


@pytest.mark.parametrize("kind", ["both", "observation"])
def test_values_after_an_origin_change_nothing_but_hyperparameters(kind):
    model = two_noise_model(kind)
    spoiled = model.past.levels.copy()
    spoiled[70:] += np.random.default_rng(3).normal(size=20)
    past = model.past._replace(levels=spoiled)
    rows = lagged_rows(model.specification, model.differencing, past)
    other = replace(model, past=past, regressor=rows.condition(model.regressor))
    one, two = (rolling_forecasts(one, np.array([55, 70]), 4).value for one in (model, other))
    np.testing.assert_allclose(one, two, rtol=1e-9)


def test_bands_are_calibrated_on_request():
    y = noisy_mackey_glass(60, 0.01)[1]
    plain, wider, conformal = (
        Forecaster(GP, lags=4, noise="both", **options).fit(y)
        for options in ({}, {"calibrate": True}, {"calibrate": "conformal"})
    )
    shares = np.ones((1, 6))
    made = plain.forecast(6)
    joint = made._joint
    errors = rolling_errors(Rolling(plain.models_), [None], [prediction_of(made)], shares)
    expected = calibration(errors, joint, 6).factor
    widths = [np.diff(one.forecast(6).interval(0.8)) for one in (wider, plain)]
    np.testing.assert_allclose(widths[0][:, 0], expected * widths[1][:, 0], rtol=1e-6)
    assert "bands: calibrated" in wider.summary()
    assert "bands: conformal" in conformal.summary()
    assert (conformal.forecast(6).std > 0.0).all()
    assert not plain.ensemble_.rules.calibrate


def test_at_smoothed_inputs_the_length_scales_alone_are_learned_anew(monkeypatch):
    y = noisy_mackey_glass(120, 0.02)[1]
    smoothed = Forecaster(GP, lags=4, noise="observation").fit(y).models_[0].regressor
    monkeypatch.setattr(ErrorsInVariablesGP, "_smoothed", lambda self, *rows: self)
    before = Forecaster(GP, lags=4, noise="observation").fit(y).models_[0].regressor
    for name in ("amplitude_", "noise_std_", "observation_std_", "log_evidence_"):
        assert getattr(smoothed, name) == pytest.approx(getattr(before, name), rel=1e-6)
    np.testing.assert_allclose(smoothed.linear_scale_, before.linear_scale_, rtol=0.02)
    assert not np.allclose(smoothed.lengthscales_, before.lengthscales_, rtol=0.01)


# The rows on the way to an origin


def test_searches_start_from_the_linear_scales_of_their_groups(monkeypatch, series):
    seen, kind = [], ErrorsInVariablesGP
    real = kind._error_space

    def noted(self, evidence, units, errors):
        space, starts = real(self, evidence, units, errors)
        scales, first = self.linear_scale_ * units.inputs / units.output, len(units.inputs) + 1
        seen.extend((start[first : first + 2], np.log(scales)) for start in starts)
        return space, starts

    monkeypatch.setattr(kind, "_error_space", noted)
    Forecaster(GPRegressor(groups=[0, 1]), lags=2, noise="observation").fit(series)
    assert seen
    for found, expected in seen:
        np.testing.assert_allclose(found, expected)


def test_what_was_learned_is_known_by_time_and_value():
    y = noisy_mackey_glass(240, 0.01)[1]
    model = Forecaster(GP, lags=6, noise="both").fit(y[:140])
    ahead = model.forecast(8)
    again = model.apply(y[:140]).forecast(8)
    np.testing.assert_allclose(again.cov, ahead.cov, rtol=1e-9)
    later = model.apply(y[100:200])
    np.testing.assert_array_equal(later.models_[0].past.learned, np.arange(100, 200) < 140)
    same_times = model.apply(y[:140] + 0.01)
    assert not same_times.models_[0].past.learned.any()
    once_more = later.apply(y[120:240])
    np.testing.assert_array_equal(once_more.models_[0].past.learned, np.arange(120, 240) < 140)


# What a forecaster makes of it


@pytest.mark.slow
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
    "gap, log": {"missing": [30, 46], "transform": "log"},
    "differences, stds": {"differences": 1, "y_std": True},
    "anchor, regressor, rows": {"prior_mean": "last", "exog": True, "max_train": 35},
}


@pytest.mark.parametrize("case", CASES)
def test_it_works_with(case, series, tmp_path):
    options = dict(CASES[case])
    y = 10.0 + series[90:]
    y.iloc[options.pop("missing", [])] = np.nan
    index = y.index
    frame = pd.DataFrame({"x": np.cos(np.arange(150.0))})
    exog = frame.loc[index] if options.pop("exog", False) else None
    ahead_exog = None if exog is None else frame.iloc[140:144]
    stds = pd.Series(0.05, index) if options.pop("y_std", False) else None

    def cut(values, part):
        return None if values is None else values.iloc[part]

    first, rest = slice(0, 40), slice(40, 50)
    model = Forecaster(GP, lags=4, noise="both", **options)
    model.fit(y[first], cut(exog, first), cut(stds, first))
    model.save(tmp_path / "model")
    twice = load_model(tmp_path / "model")
    model.update(y[rest], cut(exog, rest), cut(stds, rest))
    for part in (slice(40, 43), slice(43, 50)):
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
    assert "noise of the observation: standard deviation" in model.summary()


def test_units_change_nothing(series, fitted):
    other = Forecaster(GP, lags=6, noise="both").fit(1000.0 - 7.0 * series).forecast(5)
    ahead = fitted.forecast(5)
    # the searches end within their tolerance of 1e-6 in the objective of each other
    away = (other.mean - 1000.0 + 7.0 * ahead.mean) / other.std
    np.testing.assert_allclose(away, 0.0, atol=0.02)
    np.testing.assert_allclose(other.std, 7.0 * ahead.std, rtol=0.02)


def test_known_errors_are_not_learned_once_more(rng):
    n = 200
    latent = oracles.autoregression([0.9], n, rng)
    y, std = pd.Series(latent + 1.5 * rng.standard_normal(n)), pd.Series(1.5, range(n))
    gp = GPRegressor(lengthscales=1e3)
    known = Forecaster(gp, lags=1, noise="both").fit(y, y_std=std).models_[0]
    scale, regressor = known.differencing.scale, known.regressor
    assert scale * regressor.observation_std_ < 0.75
    assert regressor.posterior_.gradient(np.zeros((1, 1))).item() == pytest.approx(0.9, abs=0.1)


def test_auto_takes_what_the_evidence_shows(rng):
    plain = pd.Series(oracles.autoregression([0.6, 0.2], 80, rng))
    model = Forecaster(GP, lags=2, noise="auto").fit(plain)
    assert model.models_[0].noise.kind == "process"
    assert "noise: process, by log evidence (nats): process" in model.choices_[-1]
    same = Forecaster(GP, lags=2).fit(plain)
    np.testing.assert_array_equal(model.forecast(3).cov, same.forecast(3).cov)
    _, noisy = noisy_mackey_glass(216, 0.001)
    model = Forecaster(GP, lags=16, noise="auto").fit(noisy)
    assert model.models_[0].noise.kind in ("observation", "both")
    assert any(line.startswith("noise: ") for line in model.summary().splitlines())


def test_the_automatic_choice_and_backtests_take_it(series):
    model = Forecaster(noise="observation", seasonal_period=None).fit(series[:30])
    assert all(isinstance(one.regressor, ErrorsInVariablesGP) for one in model.models_)
    assert len(model.forecast(3)) == 3
    found = backtest(
        Forecaster(GP, lags=3, noise="both"), series[:60], steps=3, n_origins=3, refit=False
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
    ],
)
def test_messages(arguments, message, series):
    with pytest.raises(ValueError, match=message):
        Forecaster(lags=2, **arguments).fit(series)


def test_rows_alone_do_not_condition(fitted):
    with pytest.raises(TypeError, match="condition must be given the errors of the rows"):
        fitted.models_[0].regressor.condition(np.zeros((4, 6)), np.zeros(4))
