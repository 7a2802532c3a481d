"""The state at the origin: against Kalman filters, brute-force conditioning and bridges."""

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from statsmodels.tsa.statespace.sarimax import SARIMAX

from forecast_unc import Forecaster, GPRegressor, RVMRegressor
from forecast_unc.distributions.joint import Diverged
from forecast_unc.forecasting.horizon import origin as state_module
from forecast_unc.forecasting.horizon.differencing import Differencing
from forecast_unc.forecasting.horizon.gaussian import propagate as propagate_model
from forecast_unc.forecasting.horizon.types import Future, Method, OneStepModel
from forecast_unc.series.rows import lag_embedding
from tests import oracles
from tests.members import rows_of
from tests.recursions import IDENTITY, past_of, propagate, sample_paths, state_at_origin
from tests.recursions import paths_of as particles
from tests.test_propagation import (
    AR,
    NOISE_VAR,
    fitted,
    linear_posterior,
    next_levels,
    no_exog,
    predict_of,
)

PARAMETERS = [*AR, NOISE_VAR]


def state_of(posterior, lags, y, y_std=None, transform=IDENTITY, exog=None, **options):
    exog = no_exog(len(y)) if exog is None else exog
    return state_at_origin(posterior, lags, y, exog, y_std=y_std, transform=transform, **options)


def simulated(n, missing=(), seed=0):
    y = oracles.autoregression(AR, n, np.random.default_rng(seed), np.sqrt(NOISE_VAR))
    y[list(missing)] = np.nan
    return y


def forecast_from(state, posterior, lags, steps, exog=None, **options):
    return propagate(
        posterior,
        lags,
        state.mean,
        no_exog(steps) if exog is None else exog,
        state=state,
        **options,
    )


# Linear models: the Kalman filter


@pytest.mark.parametrize(
    "missing",
    [[39], [38], [30, 31, 32, 33], [10, 36, 38], range(20, 40), [20, 22, 24, 26, 28, 30, 32, 34]],
    ids=str,
)
def test_gaps_of_an_autoregression_are_those_of_a_kalman_filter(missing):
    y, posterior = simulated(40, missing), linear_posterior(AR)
    state = state_of(posterior, (1, 2), y)
    result = SARIMAX(y, order=(2, 0, 0)).filter(PARAMETERS)
    # companion form: [y_t, ar_2 y_(t-1)]
    unit = np.array([1.0, AR[1]])
    expected = result.filtered_state[:, -1] / unit
    np.testing.assert_allclose(state.mean[::-1], expected, rtol=1e-9)
    cov = result.filtered_state_cov[:, :, -1] / np.outer(unit, unit)
    np.testing.assert_allclose(state.cov[::-1, ::-1], cov, rtol=1e-9, atol=1e-12)
    ahead = result.get_forecast(6)
    joint = forecast_from(state, posterior, (1, 2), 6, path_consistent=False)
    np.testing.assert_allclose(joint.mean, ahead.predicted_mean, rtol=1e-9)
    np.testing.assert_allclose(np.diagonal(joint.cov), ahead.var_pred_mean, rtol=1e-9)


@pytest.mark.parametrize("missing", [[], [80, 81, 199], range(190, 200)], ids=str)
def test_measurement_errors_are_those_of_a_kalman_filter(missing):
    """Noisy throughout: from a wide prior, which is forgotten, against the stationary one."""
    y, posterior, std = simulated(200, missing), linear_posterior(AR), 0.8
    result = SARIMAX(y, order=(2, 0, 0), measurement_error=True).filter([*AR, std**2, NOISE_VAR])
    state = state_of(posterior, (1, 2), y, np.full(200, std))
    unit = np.array([1.0, AR[1]])
    np.testing.assert_allclose(
        state.mean[::-1], result.filtered_state[:, -1] / unit, rtol=1e-7, atol=1e-9
    )
    cov = result.filtered_state_cov[:, :, -1] / np.outer(unit, unit)
    np.testing.assert_allclose(state.cov[::-1, ::-1], cov, rtol=1e-7)
    ahead = result.get_forecast(5)
    for method in ("exact", "taylor"):
        joint = forecast_from(state, posterior, (1, 2), 5, propagation=method)
        np.testing.assert_allclose(joint.mean, ahead.predicted_mean, rtol=1e-6)
        latent = ahead.var_pred_mean - std**2  # theirs is of an observation with its error
        np.testing.assert_allclose(np.diagonal(joint.cov), latent, rtol=1e-7)


CASES = [
    ((1, 3), (), 0),
    ((2, 1), (1,), 1),
    ((1, 4), (3,), 2),
    ((1, 2), (1, 4), 0),
    ((3, 1), (1, 1), 1),
]


@pytest.mark.parametrize("bias_var", [0.0, 0.6])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_linear_models_against_brute_force_conditioning(case, bias_var):
    """Levels are linear in shocks; their joint is conditioned on all observations at once.

    An unknown bias is a shock to all steps but those whose rows were learned from.
    """
    lags, differences, k = case
    rng = np.random.default_rng([*lags, k])
    p, n, h = max(lags) + sum(differences), 14, 5
    ar, by_exog = np.array([0.5, -0.3]), np.array([0.7, -1.1])[:k]
    transform, exog = Differencing(differences, 0.3, 1.7), rng.normal(size=(p + n + h, k))
    start, intercept = rng.normal(size=p), 0.1

    def path(shocks):
        after = next_levels(ar, by_exog, lags, transform, start, exog[p:], shocks)
        return np.append(start, after)

    center = path(np.full(n + h, intercept))
    moved = np.array([path(intercept + e) - center for e in np.eye(n + h)]).T
    y = path(intercept + np.sqrt(NOISE_VAR) * rng.standard_normal(n + h))[: p + n]
    y_std = np.where(rng.random(p + n) < 0.5, 0.4, 0.0)
    y_std[:p] = 0.0
    y_std[-2] = 0.7
    y += y_std * rng.standard_normal(p + n)
    y[p + rng.permutation(n)[:5]] = np.nan
    y[-3] = np.nan
    changes = transform.forward(y)
    rows = np.array([changes[t - np.array((0, *lags))] for t in range(max(lags), len(changes))])
    new = np.append(np.isnan(rows).any(axis=1), np.ones(h, dtype=bool))
    known = ~np.isnan(y) & (y_std == 0)
    whole = [t for t in range(p, p + n) if known[t - p : t].all()]
    new[: whole[-1] - p] = False  # before the last complete window nothing is read
    shocks = NOISE_VAR * np.eye(n + h) + bias_var * np.where(np.outer(new, new), 1.0, np.eye(n + h))
    prior = moved @ shocks @ moved.T
    seen = np.flatnonzero(~np.isnan(y) & (np.arange(p + n) >= p))
    gain = np.linalg.solve(prior[np.ix_(seen, seen)] + np.diag(y_std[seen] ** 2), prior[seen]).T
    mean, cov = center + gain @ (y - center[: p + n])[seen], prior - gain @ prior[seen]

    posterior = linear_posterior(np.append(ar, by_exog), bias_var, intercept)
    kept = y.copy(), y_std.copy(), exog.copy()
    for propagation in ("exact", "taylor", "naive", "monte_carlo"):
        state = state_of(posterior, lags, y, y_std, transform, exog, propagation=propagation)
        np.testing.assert_allclose(state.mean, mean[n : n + p], rtol=1e-8, atol=1e-9)
        np.testing.assert_allclose(
            transform.scale**2 * state.cov, cov[n : n + p, n : n + p], atol=1e-9
        )
    joint = forecast_from(state, posterior, lags, h, exog[-h:], transform=transform)
    np.testing.assert_allclose(joint.mean, mean[p + n :], rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(joint.cov, cov[p + n :, p + n :], rtol=1e-8, atol=1e-9)
    for before, after in zip(kept, (y, y_std, exog), strict=True):
        np.testing.assert_array_equal(before, after)


def test_a_random_walk_with_a_gap_is_a_brownian_bridge():
    scale, gap = 1.7, 4
    known, end = np.array([0.3, -0.2, 0.4, 1.0, 0.1, 2.0]), 5.0
    y = np.concatenate([known, np.full(gap, np.nan), [end]])
    lags = (1, 5)  # of no weight: the window is six levels
    state = state_of(
        linear_posterior([0.0, 0.0]), lags, y, transform=Differencing((1,), 0.0, scale)
    )
    i, m = np.arange(gap + 2), gap + 1
    np.testing.assert_allclose(state.mean, known[-1] + (end - known[-1]) * i / m, rtol=1e-12)
    bridge = np.minimum.outer(i, i) - np.multiply.outer(i, i) / m
    np.testing.assert_allclose(state.cov, NOISE_VAR * bridge, rtol=1e-10, atol=1e-12)


# Nonlinear models


def test_one_missing_value_is_conditioned_on_the_next_by_quadrature():
    gp, y, _, _ = fitted((1, 3))
    y = y.copy()
    mean, cov = oracles.quadrature_recursion(predict_of(gp), (1, 3), y[:-2], 2)
    y[-2] = np.nan
    state = state_of(gp.posterior_, (1, 3), y, path_consistent=False)
    gain = cov[0, 1] / cov[1, 1]
    np.testing.assert_allclose(state.mean, [y[-3], mean[0] + gain * (y[-1] - mean[1]), y[-1]])
    expected = np.zeros((3, 3))
    expected[1, 1] = cov[0, 0] - gain * cov[0, 1]
    np.testing.assert_allclose(state.cov, expected, rtol=1e-8)


def test_particles_weigh_a_missing_value_by_the_density_of_the_next():
    """Against a grid over the missing value, where the variance of the next depends on it."""
    rng = np.random.default_rng(3)
    X = rng.uniform(-0.6, 0.6, size=(12, 2))
    gp = GPRegressor(linear=False, lengthscales=0.5, noise_std=0.1)
    gp.fit(X, np.sin(3 * X[:, 0]) + X[:, 1])
    y, z = np.array([0.8, -0.4, np.nan, 0.1]), np.linspace(-7, 7, 4001)
    (center,), (width,) = gp.predict([[y[1], y[0]]], return_std=True)
    missing = center + width * z
    mean, std = gp.predict(np.column_stack([missing, np.full(4001, y[1])]), return_std=True)
    density = np.exp(-0.5 * z**2 - 0.5 * ((y[3] - mean) / std) ** 2) / std
    density /= density.sum()
    mean, std = gp.predict(np.column_stack([np.full(4001, y[3]), missing]), return_std=True)
    n, expected = 40_000, density @ mean
    spread = np.sqrt(density @ (std**2 + (mean - expected) ** 2))
    model = OneStepModel(gp.posterior_, (1, 2), IDENTITY)
    method = Method("monte_carlo", False, n, 0)
    paths = particles(model, past_of(y), Future(no_exog(1)), method)
    effective = n / 10
    assert abs(paths.mean() - expected) < 5 * spread / np.sqrt(effective)
    assert abs(paths.std() / spread - 1) < 5 / np.sqrt(2 * effective)


def test_a_noisy_lag_is_an_uncertain_input():
    """By importance sampling: all levels drawn from the start, weighted by the observations."""
    rng = np.random.default_rng(3)
    X = rng.uniform(-2, 2, size=(60, 1))
    gp = GPRegressor(linear=False, lengthscales=3.0, noise_std=0.3)
    gp.fit(X, np.sin(0.8 * X[:, 0]) + 0.3 * rng.standard_normal(60))
    y, y_std = np.array([0.7, np.nan, 0.4, 0.9]), np.array([0.0, 0.0, 0.3, 0.2])
    state = state_of(gp.posterior_, (1,), y, y_std, path_consistent=False)
    levels, weights = np.full(40_000, y[0]), np.ones(40_000)
    for value, std in zip(y[1:], y_std[1:], strict=True):
        mu, sd = gp.predict(levels[:, None], return_std=True)
        levels = mu + sd * rng.standard_normal(len(levels))
        if std > 0:
            weights *= np.exp(-0.5 * ((value - levels) / std) ** 2)
    weights /= weights.sum()
    mean = weights @ levels
    std = np.sqrt(weights @ (levels - mean) ** 2)
    assert state.mean[0] == pytest.approx(mean, abs=0.03 * std)
    assert np.sqrt(state.cov[0, 0]) == pytest.approx(std, rel=0.03)
    joint = forecast_from(state, gp.posterior_, (1,), 1)
    mu, sd = gp.predict(levels[:, None], return_std=True)
    ahead = weights @ mu
    assert joint.mean[0] == pytest.approx(ahead, abs=0.01)
    var = weights @ (sd**2 + (mu - ahead) ** 2)
    assert joint.cov[0, 0] == pytest.approx(var, rel=0.02)


@pytest.mark.parametrize("path_consistent", [True, False])
def test_a_gap_just_before_the_origin_is_a_forecast_through_it(path_consistent):
    gp, y, _, _ = fitted((1, 2))
    options = {"path_consistent": path_consistent}
    state = state_of(gp.posterior_, (1, 2), np.append(y, np.full(3, np.nan)), **options)
    through = propagate(gp.posterior_, (1, 2), y, no_exog(7), **options)
    np.testing.assert_allclose(state.mean, through.mean[1:3], rtol=1e-10)
    np.testing.assert_allclose(state.cov, through.cov[1:3, 1:3], rtol=1e-10)
    joint = forecast_from(state, gp.posterior_, (1, 2), 4, **options)
    np.testing.assert_allclose(joint.mean, through.mean[3:], rtol=1e-9)
    np.testing.assert_allclose(joint.cov, through.cov[3:, 3:], rtol=1e-9)


def test_what_a_gap_tells_of_the_function_by_importance_sampling():
    """Paths, each of one function, through the gap; weighted by the observations after it."""
    rng = np.random.default_rng(8)
    X = rng.uniform(-1, 1, size=(12, 1))
    gp = GPRegressor(linear=False, lengthscales=4.0, noise_std=0.3)
    gp.fit(X, 0.8 * X[:, 0] + 0.3 * rng.standard_normal(12))
    y, y_std = np.array([2.5, np.nan, np.nan, 3.2, 3.0]), np.array([0, 0, 0, 0.5, 0.5])
    paths = sample_paths(gp.posterior_, (1,), y[:1], no_exog(7), 8_000, True, 0)
    weights = np.exp(-0.5 * (((paths[:, 2:4] - y[3:]) / y_std[3:]) ** 2).sum(axis=1))
    weights /= weights.sum()
    assert 1 / (weights**2).sum() > 400
    mean = weights @ paths
    cov = (paths - mean).T @ ((paths - mean) * weights[:, None])
    std = np.sqrt(np.diagonal(cov))

    def difference(path_consistent):
        options = {"path_consistent": path_consistent}
        state = state_of(gp.posterior_, (1,), y, y_std, **options)
        joint = forecast_from(state, gp.posterior_, (1,), 3, **options)
        return np.abs(joint.mean - mean[4:]) / std[4:], np.sqrt(np.diagonal(joint.cov)) / std[4:]

    of_mean, of_std = difference(path_consistent=True)
    assert (of_mean < 0.15).all()
    np.testing.assert_allclose(of_std, 1.0, atol=0.2)
    assert (difference(path_consistent=False)[0] > 1.5).all()  # one and a half std beside
    # Paths are weighted and resampled on the way, so that theirs is the reference itself; here
    # no row was learned from.
    model = OneStepModel(gp.posterior_, (1,), IDENTITY)
    method = Method("monte_carlo", True, 4_000, 1)
    past = past_of(y, y_std)._replace(learned=np.zeros(len(y), dtype=bool))
    sampled = particles(model, past, Future(no_exog(3)), method)
    error = std[4:] * np.sqrt(1 / 800 + 1 / 800)  # of effectively so many independent paths
    np.testing.assert_array_less(np.abs(sampled.mean(axis=0) - mean[4:]), 5 * error)
    np.testing.assert_allclose(sampled.std(axis=0) / std[4:], 1.0, atol=0.12)


@pytest.mark.parametrize("propagation", ["exact", "monte_carlo"])
def test_known_rows_that_were_not_learned_from_tell_of_the_function(propagation):
    """After a missing value; by dense conditioning on the rows that are complete."""
    rng = np.random.default_rng(0)
    lags, levels = (1, 12), np.zeros(120)
    for t in range(12, 120):
        levels[t] = np.sin(2.0 * levels[t - 1]) + 0.3 * levels[t - 12]
        levels[t] += 0.4 * rng.standard_normal()
    regressor = GPRegressor(linear=False, lengthscales=2.0, noise_std=0.2)
    model = Forecaster(regressor, lags=lags).fit(pd.Series(levels[:45]))
    y = levels[50:110] + 2.0  # where few rows were
    y[-11] = np.nan
    moved = model.apply(pd.Series(y, np.arange(50, 110)))
    one = moved.models_[0]
    gp = one.regressor
    z = (one.past.levels - one.differencing.shift) / one.differencing.scale
    _, X, target = rows_of(model.models_[0])
    at = np.arange(len(z) - 10, len(z))
    at = at[~np.isnan(z[at - 1]) & ~np.isnan(z[at - 12])]
    assert len(at) == 9
    rows = np.vstack([X, np.column_stack([z[at - 1], z[at - 12]])])
    conditioned = gp.condition(rows, np.append(target, z[at]))
    mean, std = conditioned.predict([[z[-1], z[-12]]], return_std=True)
    options = {"n_samples": 20_000, "random_state": 0} if propagation == "monte_carlo" else {}
    ahead = moved.forecast(1, propagation=propagation, **options)
    scale = one.differencing.scale
    found = (ahead.mean.iloc[0] - one.differencing.shift) / scale, ahead.std.iloc[0] / scale
    alone, spread = gp.predict([[z[-1], z[-12]]], return_std=True)
    assert std[0] < 0.8 * spread[0]  # what they tell
    assert abs(mean[0] - alone[0]) > 0.3 * std[0]
    # the row of the missing value tells a little, too
    atol = 0.1 * std[0]
    np.testing.assert_allclose(found[0], mean[0], atol=atol)
    np.testing.assert_allclose(found[1], std[0], atol=atol)
    tiny = pd.Series(np.where(np.arange(60) > 49, 1e-9, 0.0), np.arange(50, 110))
    as_noisy = model.apply(pd.Series(y, tiny.index), y_std=tiny).forecast(1)
    np.testing.assert_allclose(moved.forecast(1).std, as_noisy.std, rtol=1e-4)


# What is read, and from where it starts


def test_complete_windows_are_their_values():
    gp, y, _, _ = fitted((1, 3))
    y = y.copy()
    y[5:20] = np.nan
    noisy = np.zeros(len(y))
    noisy[25] = 0.5
    for y_std in (None, noisy):
        state = state_of(gp.posterior_, (1, 3), y, y_std)
        np.testing.assert_array_equal(state.mean, y[-3:])
        assert not state.cov.any()


def test_nothing_before_the_last_complete_window_is_read():
    gp, y, _, _ = fitted((1, 3))
    y = y.copy()
    y[-3] = np.nan
    state = state_of(gp.posterior_, (1, 3), y)
    other = y.copy()
    other[: len(y) - 6] = np.nan
    same = state_of(gp.posterior_, (1, 3), other)
    np.testing.assert_array_equal(same.mean, state.mean)
    np.testing.assert_array_equal(same.cov, state.cov)


def test_far_from_a_complete_window_the_start_is_forgotten(monkeypatch):
    rng = np.random.default_rng(5)
    y = simulated(400)
    y[20:][rng.random(380) < 0.4] = np.nan
    lags, posterior = (1, 2, 5), linear_posterior([0.5, 0.2, 0.2])
    known = state_of(posterior, lags, y)
    difference = []
    for values in (1, 100):
        monkeypatch.setattr(state_module, "_FARTHEST", 5)
        monkeypatch.setattr(state_module, "_RUN_IN_VALUES", values)
        state = state_of(posterior, lags, y)
        difference.append(abs(state.mean - known.mean).max() + abs(state.cov - known.cov).max())
    assert difference[0] > 1e-5
    assert difference[1] < 1e-9


def test_short_and_empty_windows_start_from_the_series():
    y = np.array([1.0, np.nan, 3.0, np.nan])
    state = state_of(linear_posterior(AR), (1, 4), y)
    np.testing.assert_allclose(state.mean, [1.0, 2.0, 3.0, 2.0])
    np.testing.assert_allclose(state.cov, np.diag([0.0, 1.0, 0.0, 1.0]))
    scaled = state_of(linear_posterior(AR), (1, 4), y, transform=Differencing((), 0.0, 0.5))
    np.testing.assert_allclose(
        0.25 * scaled.cov, state.cov
    )  # the series' variance, in its own units
    noisy = state_of(linear_posterior(AR), (1, 4), y, np.array([0.5, 0.0, 0.0, 0.0]))
    assert noisy.mean[0] == pytest.approx((4 * 1.0 + 2.0) / 5)
    assert noisy.cov[0, 0] == pytest.approx(1 / 5)


@pytest.mark.parametrize("differences", [(), (1,), (1, 12)], ids=str)
def test_states_of_a_nearly_noiseless_model_are_covariances(differences):
    y = np.sin(np.arange(80) / 3) + 0.1 * np.arange(80)
    transform = Differencing.fit(y, differences)
    z = transform.forward(y)
    gp = GPRegressor(lengthscales=3.0, noise_std=1e-3).fit(
        *lag_embedding(z, (1, 2, 3), np.empty((len(z), 0)))
    )
    truth = y.copy()
    y[[60, 66, 70, 71, 72, 76, 78]] = np.nan
    state = state_of(gp.posterior_, (1, 2, 3), y, transform=transform)
    p = len(state.mean)
    assert np.linalg.eigvalsh(state.cov)[0] > -1e-12
    missing = np.isnan(y[-p:])
    assert (np.diagonal(state.cov)[~missing] == 0).all()
    assert (np.diagonal(state.cov)[missing] > 0).all()
    np.testing.assert_allclose(state.mean, truth[-p:], atol=0.02)
    joint = propagate(
        gp.posterior_,
        (1, 2, 3),
        state.mean,
        no_exog(10),
        transform=transform,
        history_cov=transform.scale**2 * state.cov,
    )
    std = np.sqrt(np.diagonal(joint.cov))
    assert np.linalg.eigvalsh(joint.cov / np.outer(std, std))[0] > -1e-9


@pytest.mark.parametrize("propagation", ["taylor", "naive", "monte_carlo"])
def test_models_without_closed_form_pass_gaps_by_expansion(propagation):
    y = simulated(25)
    rvm = RVMRegressor(lengthscales=2.0, variance="augmented")
    rvm.fit(*lag_embedding(y, (1, 2), no_exog(25)))
    holed = np.append(y, [np.nan, 0.5])
    state = state_of(rvm.posterior_, (1, 2), holed, propagation=propagation)
    taylor = state_of(rvm.posterior_, (1, 2), holed, propagation="taylor")
    np.testing.assert_allclose(state.mean, taylor.mean, rtol=1e-12)
    with pytest.raises(ValueError, match="must be 'taylor' or 'monte_carlo' .* got 'exact'"):
        state_of(rvm.posterior_, (1, 2), holed)


def test_a_gap_that_the_model_runs_away_in_says_so():
    def state_after(gap):
        y = np.append(1.0 + 0.1 * np.arange(5.0), np.full(gap, np.nan))
        return state_of(linear_posterior([2.0]), (1,), y)

    words = "diverges on its way to the origin, {} steps before the first forecast"
    with pytest.raises(Diverged, match=words.format(r"\d+")) as error:
        state_after(60)
    assert error.value.step == 0  # before the first of the forecast
    left = int(re.findall(r"(\d+) steps before", str(error.value))[0])
    assert np.isfinite(state_after(60 - left).mean).all()
    with pytest.raises(Diverged, match=words.format(1)):
        state_after(61 - left)


@pytest.mark.parametrize("back", [10, 600, 999])
def test_the_filter_starts_at_the_last_values_that_are_known(back):
    """Each second value is missing after them; farther away than 1000 steps it starts nearer."""
    y = simulated(1200, range(1200 - back, 1200, 2))
    model = OneStepModel(linear_posterior(AR), (1, 2), IDENTITY)
    start = state_module.run_in(model, past_of(y))
    assert start.now == 1200 - back
    np.testing.assert_array_equal(start.mean, y[1198 - back : 1200 - back])
    assert not start.cov.any()
    far = state_module.run_in(model, past_of(np.append(y, np.full(1000, np.nan))))
    assert far.now != 1200 - back


@pytest.mark.parametrize("path_consistent", [True, False])
def test_sampled_states_of_a_linear_model_are_those_of_the_filter(path_consistent):
    """Missing and noisy values: particles against the closed form, which is exact here."""
    y, posterior = simulated(60, [57, 58]), linear_posterior(AR)
    y_std = np.where(np.arange(60) > 50, 0.6, 0.0)
    model = OneStepModel(posterior, (1, 2), IDENTITY)
    past, future = past_of(y, y_std), Future(no_exog(4))
    exact = propagate_model(model, past, future, Method("exact", path_consistent))
    paths = particles(model, past, future, Method("monte_carlo", path_consistent, 20_000, 0))
    std = np.sqrt(np.diagonal(exact.cov))
    np.testing.assert_array_less(np.abs(paths.mean(axis=0) - exact.mean) / std, 0.05)
    np.testing.assert_allclose(
        np.cov(paths.T) / np.outer(std, std), exact.cov / np.outer(std, std), atol=0.05
    )


def test_a_last_value_that_no_path_explains_leaves_the_paths_of_the_filter():
    y, y_std = simulated(40), np.zeros(40)
    y[-1], y_std[-1] = 100.0, 0.6
    model = OneStepModel(linear_posterior(AR), (1, 2), IDENTITY)
    past, future = past_of(y, y_std), Future(no_exog(3))
    exact = propagate_model(model, past, future, Method())
    paths = particles(model, past, future, Method("monte_carlo", True, 4000, 0))
    np.testing.assert_allclose(np.cov(paths.T), exact.cov, atol=0.04 * exact.cov.max())


def test_an_observation_error_is_added_once_and_never_fed_back():
    """AR(2) seen with an error of its own, against the Kalman filter of a state space model."""
    y, error_var = simulated(300), 0.4
    y = y + np.sqrt(error_var) * np.random.default_rng(3).standard_normal(300)
    posterior = replace(linear_posterior(AR), observation_var=error_var)
    model = OneStepModel(posterior, (1, 2), IDENTITY)
    past, future = past_of(y), Future(no_exog(6))
    kalman = SARIMAX(y, order=(2, 0, 0), measurement_error=True)
    theirs = kalman.filter([*AR, error_var, NOISE_VAR]).get_forecast(6)
    exact = propagate_model(model, past, future, Method())
    np.testing.assert_allclose(exact.mean, theirs.predicted_mean, rtol=1e-6)
    np.testing.assert_allclose(np.diagonal(exact.cov), theirs.var_pred_mean, rtol=1e-6)
    np.testing.assert_allclose(exact.parts()["noise"], NOISE_VAR * np.eye(6))
    np.testing.assert_allclose(exact.parts()["noise_observation"], error_var * np.eye(6))
    paths = particles(model, past, future, Method("monte_carlo", True, 20_000, 0))
    std = np.sqrt(np.diagonal(exact.cov))
    np.testing.assert_array_less(np.abs(paths.mean(axis=0) - exact.mean) / std, 0.05)
    np.testing.assert_allclose(paths.std(axis=0) / std, 1.0, atol=0.04)
