"""Each part of the variance against nested Monte Carlo, and all of them against the whole."""

import pickle
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import oracles
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from recursions import IDENTITY, past_of, step_inputs

from forecast_unc import Combination, Forecast, Forecaster, GPRegressor
from forecast_unc.forecasting.horizon.decomposition import LinearRecursion
from forecast_unc.forecasting.horizon.differencing import Differencing, LevelMap
from forecast_unc.forecasting.horizon.gaussian import propagate, propagate_from
from forecast_unc.forecasting.horizon.origin import State, state_at_origin
from forecast_unc.forecasting.horizon.types import Future, Method, OneStepModel, Scales
from forecast_unc.regression.kernel_posterior import KernelPosterior

BATCHES = 20
STEPS = 5


def posterior_of(ar, linear_var, *, bumps=(), columns=0, noise_var=0.3):
    """y = ar . lags + exog / 2 + bumps + d . [x; 1] + noise, d ~ N(0, diag(linear_var))."""
    d = len(ar) + columns
    centers = np.array([np.full(d, at) for at, _ in bumps]).reshape(len(bumps), d)
    return KernelPosterior(
        centers=centers,
        lengthscales=np.full(d, 2.0),
        weights=np.concatenate([[w for _, w in bumps], ar, np.full(columns, 0.5), [0.2]]),
        factors=(),
        linear_var=np.asarray(linear_var, dtype=float),
        kernel_var=0.0,
        noise_var=noise_var,
        input_offset=np.zeros(d),
    )


class Draws(NamedTuple):
    """What is random: N of each, with the batches one after the other."""

    start: np.ndarray  # (N, p)
    exog: np.ndarray  # (N, h, k)
    noise: np.ndarray  # (N, h)
    error: object  # error of the function at inputs (N, d), as a function

    def of(self, **others):
        return self._replace(**others)


def simulate(model, draws):
    """Levels (N, h), their linear predictors (N, h): what the inputs bring, by the definitions."""
    shift, scale = model.differencing.shift, model.differencing.scale
    back, coefficients = [0, *model.maps.own], [1.0, *model.maps.carried]
    levels = np.hstack([draws.start, np.zeros_like(draws.noise)])
    brought = np.zeros_like(draws.noise)
    p = draws.start.shape[1]
    for t in range(draws.noise.shape[1]):
        lagged = [
            sum(c * levels[:, p + t - lag - b] for b, c in zip(back, coefficients, strict=True))
            for lag in model.lags
        ]
        x = np.column_stack([(np.array(lagged).T - shift) / scale, draws.exog[:, t]])
        carried = sum(
            c * levels[:, p + t - b] for b, c in zip(back[1:], coefficients[1:], strict=True)
        )
        brought[:, t] = scale * model.posterior.mean(x) + shift - carried
        levels[:, p + t] = brought[:, t] + scale * (draws.error(x) + draws.noise[:, t])
    return levels[:, p:], brought


def covariances(a, b):
    """Estimates of Cov(a_t, b_t) and their standard errors, from the batches."""
    values = np.array(
        [
            [np.cov(u, v)[0, 1] for u, v in zip(x.T, y.T, strict=True)]
            for x, y in zip(np.split(a, BATCHES), np.split(b, BATCHES), strict=True)
        ]
    )
    return values.mean(axis=0), values.std(axis=0, ddof=1) / np.sqrt(BATCHES)


def assert_near(part, estimate, closure):
    """Within 5 standard errors, and the share of the variance that the closure may be off by."""
    value, error = estimate
    np.testing.assert_array_less(np.abs(part - value), 5.0 * error + closure + 1e-12)


def normal(rng, mean, cov, n):
    return rng.multivariate_normal(mean, cov, size=n, method="eigh")


def diagonals(joint):
    """Variances of the parts of a joint, the rest included."""
    known = {name: np.diagonal(part) for name, part in joint.parts().items()}
    return known | {"inputs_nonlinear": np.diagonal(joint.cov) - sum(known.values())}


def check_parts(model, joint, draw, at_means, closure):
    """Assert each part against draws that share nothing, or one source, or all but the rest."""
    parts, var = diagonals(joint), np.diagonal(joint.cov)
    closure, first, second = closure * var, draw(), draw()
    y, brought = simulate(model, first)
    scale = model.differencing.scale
    error = scale * np.column_stack([first.error(np.tile(x, (len(y), 1))) for x in at_means])
    assert_near(parts["noise"], covariances(scale * first.noise, scale * first.noise), 0.0)
    assert_near(parts["function_own"], covariances(error, error), closure)
    value, se = covariances(brought, error)
    assert_near(parts["function_shared"], (2 * value, 2 * se), closure)
    late, early = np.tril_indices(STEPS, -1)
    between = np.sqrt(closure[late] * closure[early])
    shared = joint.parts()["function_shared"]
    np.testing.assert_array_equal(shared, shared.T)
    shared = shared[late, early]
    assert_near(shared, covariances(error[:, late], y[:, early]), between)
    for name, source in (("inputs_missing", "start"), ("inputs_regressors", "exog")):
        # Var E[y | source]: the covariance of two values that share the source and nothing else
        again, _ = simulate(model, second.of(**{source: getattr(first, source)}))
        assert_near(parts.get(name, np.zeros(STEPS)), covariances(y, again), closure)
        part = joint.parts().get(name, np.zeros((STEPS, STEPS)))[late, early]
        assert_near(part, covariances(y[:, late], again[:, early]), between)
    known = second.of(start=first.start, exog=first.exog)
    _, again = simulate(model, known)
    # E Var[what the inputs bring | start, regressors]
    value, se = covariances(brought, brought - again)
    assert_near(parts["inputs_propagated"], (value, se), closure)
    assert_near(var, covariances(y, y), closure)


def linear_error(rng, posterior, n):
    """Errors d . [x; 1] of n functions."""
    d = rng.normal(size=(n, len(posterior.linear_var))) * np.sqrt(posterior.linear_var)
    return lambda x: (np.column_stack([x, np.ones(len(x))]) * d).sum(axis=1)


@pytest.mark.parametrize("differences", [(), (1,)])
def test_parts_of_a_linear_model_are_those_of_nested_draws(differences, rng):
    """An unknown intercept, noisy last values, uncertain regressors: nothing is approximate."""
    posterior = posterior_of([0.6, -0.3], [0.0, 0.0, 0.0, 0.1], columns=1)
    model = OneStepModel(posterior, (1, 2), Differencing(differences, 0.1, 1.5))
    p, n = model.maps.depth, 2000 * BATCHES
    root, exog_root = rng.normal(size=(p, p)), 0.5 * rng.normal(size=(STEPS, STEPS))
    start_cov, exog_cov = root @ root.T, exog_root @ exog_root.T
    start, exog = rng.normal(size=p), rng.normal(size=STEPS)
    fresh = state_at_origin(model, past_of(start, exog=np.zeros((p, 1))), Method(), STEPS)
    state = State(start, start_cov / 1.5**2, fresh.function, fresh.limit)
    joint = propagate_from(model, state, Future(exog[:, None], exog_cov), Method())

    def draw():
        return Draws(
            normal(rng, start, start_cov, n),
            normal(rng, exog, exog_cov, n)[:, :, None],
            np.sqrt(posterior.noise_var) * rng.normal(size=(n, STEPS)),
            linear_error(rng, posterior, n),
        )

    means = step_inputs((1, 2), start, joint.mean, exog[:, None], model.differencing)
    check_parts(model, joint, draw, means, closure=0.0)
    np.testing.assert_allclose(diagonals(joint)["inputs_nonlinear"], 0.0, atol=1e-10)


def test_parts_of_a_curved_model_are_those_of_nested_draws(rng):
    """Slopes known to .05, and bumps: the closure and the first order in the error take part."""
    posterior = posterior_of(
        [0.5], [0.003, 0.003, 0.05], bumps=[(0.5, 0.8), (-1.0, -0.5)], columns=1, noise_var=0.1
    )
    model = OneStepModel(posterior, (1,), IDENTITY)
    n = 2000 * BATCHES
    start, start_cov = np.array([0.4]), np.array([[0.1]])
    exog, exog_cov = (
        rng.normal(size=STEPS),
        0.1
        * oracles.squared_exponential(
            np.arange(STEPS)[:, None], np.arange(STEPS)[:, None], np.array([2.0])
        ),
    )
    fresh = state_at_origin(model, past_of(start, exog=np.zeros((1, 1))), Method(), STEPS)
    state = State(start, start_cov, fresh.function, 1e6)
    joint = propagate_from(model, state, Future(exog[:, None], exog_cov), Method())

    def draw():
        return Draws(
            normal(rng, start, start_cov, n),
            normal(rng, exog, exog_cov, n)[:, :, None],
            np.sqrt(posterior.noise_var) * rng.normal(size=(n, STEPS)),
            linear_error(rng, posterior, n),
        )

    means = step_inputs((1,), start, joint.mean, exog[:, None])
    check_parts(model, joint, draw, means, closure=0.02)


def test_parts_of_a_process_with_few_rows_are_those_of_nested_draws(rng):
    """An AR(1)-like GP of 25 rows after a noisy value; its functions are drawn on a grid."""
    y = oracles.autoregression(np.array([0.8]), 26, rng)
    y = (y - y.mean()) / y.std()
    gp = GPRegressor(lengthscales=3.0, noise_std=0.4).fit(y[:-1, None], y[1:])
    posterior = gp.posterior_
    model = OneStepModel(posterior, (1,), IDENTITY)
    y[-1] = 0.2  # far from the rows the first order in the error is not enough
    stds = np.append(np.zeros(25), 0.5)
    past = past_of(y, stds)
    state = state_at_origin(model, past, Method())
    joint = propagate(model, past, Future(np.empty((STEPS, 0))), Method())
    grid = np.linspace(-12.0, 12.0, 241)
    root = np.linalg.cholesky(posterior.covariance(grid[:, None]) + 1e-9 * np.eye(len(grid)))
    functions, each = 100 * BATCHES, 10
    n = functions * each
    own = np.repeat(np.arange(functions), each)

    def draw():
        errors = rng.normal(size=(functions, len(grid))) @ root.T

        def error(x):
            place = (x[:, 0] - grid[0]) / (grid[1] - grid[0])
            left = place.astype(int)
            share = place - left
            return (1 - share) * errors[own, left] + share * errors[own, left + 1]

        return Draws(
            normal(rng, state.mean, state.cov, n),
            np.empty((n, STEPS, 0)),
            np.sqrt(posterior.noise_var) * rng.normal(size=(n, STEPS)),
            error,
        )

    means = step_inputs((1,), state.mean, joint.mean, np.empty((STEPS, 0)))
    check_parts(model, joint, draw, means, closure=0.03)


def test_a_gap_leaves_its_own_part_and_what_it_tells_of_the_function(rng):
    """AR(2) with an unknown intercept, two values missing and one observed after them.

    Draws through the gap, given what was observed: corrected by their own regression on it.
    """
    posterior = posterior_of([0.6, -0.3], [0.0, 0.0, 0.2])
    model = OneStepModel(posterior, (1, 2), IDENTITY)
    y = np.append(rng.normal(size=30), [0.7, np.nan, np.nan, 1.5])
    joint = propagate(model, past_of(y), Future(np.empty((STEPS, 0))), Method())
    way, n = 3, 4000 * BATCHES
    draws = Draws(
        np.tile(y[29:31], (n, 1)),
        np.empty((n, way + STEPS, 0)),
        np.sqrt(posterior.noise_var) * rng.normal(size=(n, way + STEPS)),
        linear_error(rng, posterior, n),
    )
    levels, brought = simulate(model, draws)
    error = levels - brought - draws.noise
    observed = levels[:, way - 1 : way]

    def given(values):
        slope = np.linalg.lstsq(observed - observed.mean(), values - values.mean(axis=0), None)[0]
        return values + (y[-1] - observed) * slope

    levels, brought, error = given(levels), given(brought)[:, way:], given(error)[:, way:]
    # What the last two levels bring: they run on with nothing added, and their intercept apart.
    ones = Draws(levels[:, way - 2 : way], np.empty((n, STEPS, 0)), np.zeros((n, STEPS)), None)
    response, _ = simulate(model, ones.of(error=lambda x: np.zeros(len(x))))
    parts = diagonals(joint)
    assert_near(parts["function_own"], covariances(error, error), 0.0)
    value, se = covariances(brought, error)
    assert_near(parts["function_shared"], (2 * value, 2 * se), 0.0)
    assert_near(parts["inputs_missing"], covariances(response, response), 0.0)
    gap, _ = covariances(response, response)
    value, se = covariances(brought, brought)
    assert_near(parts["inputs_propagated"], (value - gap, se), 0.0)
    assert (np.abs(parts["function_shared"][:3]) > 1e-3).all()
    np.testing.assert_allclose(parts["inputs_nonlinear"], 0.0, atol=1e-10)


@pytest.mark.parametrize("path_consistent", [True, False])
def test_what_is_not_linear_at_a_step_is_what_quadrature_finds(path_consistent):
    posterior = posterior_of([0.5], [0.2, 0.3], bumps=[(0.5, 2.0), (-1.0, -1.5)])
    model = OneStepModel(posterior, (1,), IDENTITY)
    start, start_cov, method = np.array([0.3]), np.array([[0.8]]), Method("exact", path_consistent)
    fresh = state_at_origin(model, past_of(start), method, 1)
    state = State(start, start_cov, fresh.function, 1e6)
    joint = propagate_from(model, state, Future(np.empty((1, 0))), method)

    def predict(x):
        mean, var = posterior.predict(x)
        return mean, np.sqrt(var)

    _, total, cross = oracles.quadrature_moments(predict, start, start_cov)
    linear = cross.item() ** 2 / start_cov.item()
    plain = posterior.predict(start[None])[1].item()
    parts = diagonals(joint)
    np.testing.assert_allclose(parts["inputs_missing"], linear, rtol=1e-8)
    np.testing.assert_allclose(parts["inputs_nonlinear"], total - plain - linear, rtol=1e-7)
    np.testing.assert_allclose(parts["inputs_propagated"], 0.0, atol=1e-14)


def test_parts_of_paths_agree_with_those_of_the_closed_form(rng):
    posterior = posterior_of([0.5, 0.2], [0.002, 0.002, 0.05], bumps=[(0.5, 0.8), (-1.0, -0.5)])
    model = OneStepModel(posterior, (1, 2), Differencing((1,), 0.1, 1.2))
    y = np.cumsum(rng.normal(size=40))
    y[-2] = np.nan
    future = Future(np.empty((8, 0)))
    exact = diagonals(propagate(model, past_of(y), future, Method()))
    method = Method("monte_carlo", n_samples=4000, random_state=0)
    paths = diagonals(propagate(model, past_of(y), future, method))
    var = sum(exact.values())
    for name, part in exact.items():
        np.testing.assert_allclose(paths[name] / var, part / var, atol=0.05, err_msg=name)


def test_paths_of_a_function_that_bends_have_no_more_parts_than_variance(rng):
    """Gradients of the logistic map multiply to 1e6; the weights are shortened."""
    y = np.zeros(80)
    y[0] = 0.3
    for t in range(1, 80):
        y[t] = np.clip(3.8 * y[t - 1] * (1 - y[t - 1]) + 0.01 * rng.normal(), 0.01, 0.99)
    model = Forecaster(GPRegressor(), lags=1, differences=0, random_state=0).fit(pd.Series(y))
    ahead = model.forecast(40, propagation="monte_carlo", n_samples=400, random_state=0)
    parts = ahead.decompose()
    assert (parts.abs().max(axis=1) < 3 * ahead.var).all()
    np.testing.assert_allclose(parts.sum(axis=1), ahead.var, rtol=1e-10)


def test_with_an_observation_error_too_paths_have_no_more_parts_than_variance():
    y = np.full(60, 0.3)
    for t in range(1, 60):
        y[t] = 3.8 * y[t - 1] * (1.0 - y[t - 1])
    y = (y - y.mean()) / y.std()
    gp = GPRegressor(lengthscales=1.0, noise_std=0.01).fit(y[:-1, None], y[1:])
    posterior = replace(gp.posterior_, observation_var=0.01)
    method = Method("monte_carlo", n_samples=200, random_state=0)
    model, future = OneStepModel(posterior, (1,), IDENTITY), Future(np.empty((20, 0)))
    joint = propagate(model, past_of(y), future, method)
    assert (diagonals(joint)["inputs_nonlinear"] > -1e-9).all()


@settings(max_examples=4)
@given(
    seed=st.integers(0, 50),
    differences=st.sampled_from([0, 1]),
    transform=st.sampled_from([None, "log", "boxcox"]),
    propagation=st.sampled_from(["exact", "taylor", "naive", "monte_carlo"]),
    path_consistent=st.booleans(),
    gap=st.booleans(),
    noisy=st.booleans(),
    uncertain=st.booleans(),
)
def test_parts_add_up(
    seed, differences, transform, propagation, path_consistent, gap, noisy, uncertain
):
    rng = np.random.default_rng(seed)
    index = pd.date_range("2001-01-01", periods=48, freq="MS")
    x = pd.DataFrame({"x": rng.normal(size=48)}, index=index)
    y = pd.Series(10 + np.sin(np.arange(42) / 2) + 0.3 * rng.normal(size=42), index[:42])
    y += 0.5 * x["x"].iloc[:42]
    if gap:
        y.iloc[[-4, -2]] = np.nan
    y_std = pd.Series(np.where(np.arange(42) > 38, 0.2, 0.0), index[:42]) if noisy else None
    gp = GPRegressor(lengthscales=2.0, noise_std=0.5)
    models = [
        Forecaster(gp, lags=lags, differences=differences, transform=transform)
        for lags in (2, (1, 3))
    ]
    options = {"propagation": propagation, "path_consistent": path_consistent}
    if propagation == "monte_carlo":
        options |= {"n_samples": 50, "random_state": 0}
    if uncertain:
        options["exog_std"] = pd.DataFrame({"x": np.full(6, 0.5)}, index[42:])
    both = Combination(models).fit(y, x.iloc[:42], y_std=y_std)
    alone = models[0].fit(y, x.iloc[:42], y_std=y_std)
    for ahead in (
        both.forecast(6, x.iloc[42:], **options),
        alone.forecast(6, x.iloc[42:], **options),
    ):
        for forecast in (
            ahead,
            ahead.aggregate("sum", "QS", partial="keep"),
            ahead.aggregate("mean"),
            ahead.aggregate([1, -1, 0, 2, 0, -1]),
        ):
            parts = forecast.decompose()
            assert np.isfinite(parts).all(axis=None)
            np.testing.assert_allclose(parts.sum(axis=1), forecast.var, rtol=1e-10)
            with pytest.raises(ValueError, match="by_kind must be True or False; got 'yes'"):
                forecast.decompose(by_kind="yes")
            kinds = forecast.decompose(by_kind=True)
            np.testing.assert_allclose(kinds.sum(axis=1), forecast.var, rtol=1e-10)
        if propagation != "naive":
            parts = ahead.decompose()
            for name, there in (("inputs_missing", gap or noisy), ("inputs_regressors", uncertain)):
                found = parts[name] > 0
                assert found.any() == there
                # of 50 paths one step's estimate may be 0
                assert propagation == "monte_carlo" or found.all() == there


def test_parts_are_copied_with_a_forecast():
    y = pd.Series(np.sin(np.arange(40.0)))
    ahead = Forecaster(GPRegressor(lengthscales=2.0, noise_std=0.2), lags=2).fit(y).forecast(4)
    again = pickle.loads(pickle.dumps(Forecast.average([ahead, ahead.aggregate(np.ones(4))][:1])))
    pd.testing.assert_frame_equal(again.decompose(), ahead.decompose())


@pytest.mark.parametrize("steps", [1, 4])
@pytest.mark.parametrize("observation_var", [0.0, 0.3])
def test_a_linear_recursion_has_the_covariance_of_its_equations(steps, observation_var, rng):
    """Two levels and two regressors at the start; levels that are fed back; a shared function."""
    maps, scales = LevelMap((1, 2), IDENTITY), Scales(1.7, 0.2, observation_var)
    rows = np.zeros((steps, 4 + steps))
    rows[:, :4] = rng.normal(size=(steps, 4))
    rows[:, 4:] = np.tril(rng.normal(size=(steps, steps)), -1)
    root = rng.normal(size=(4 + steps, 4 + steps))
    S, K = (root @ root.T)[:4, :4], (root @ root.T)[4:, 4:]
    S[:2, 2:] = S[2:, :2] = 0.0
    A0, M = rows[:, :4], np.linalg.inv(np.eye(steps) - rows[:, 4:])

    def check(recursion, C0):
        known = M @ (0.2 * np.eye(steps) + K + A0 @ C0.T + C0 @ A0.T) @ M.T
        known += observation_var * np.eye(steps)
        np.testing.assert_allclose(recursion.covariance(), 1.7**2 * known, rtol=1e-12)
        parts = {name: part / 1.7**2 for name, part in recursion.parts().items()}
        levels, regressors = M @ A0[:, :2], M @ A0[:, 2:]
        expected = {
            "noise": 0.2 * np.eye(steps),
            "function_own": np.diag(np.diag(K)),
            "inputs_missing": levels @ S[:2, :2] @ levels.T,
            "inputs_regressors": regressors @ S[2:, 2:] @ regressors.T,
        }
        if observation_var:
            expected["noise_observation"] = observation_var * np.eye(steps)
        if recursion.shared.any():
            # what is shared with the step's own inputs, and with the levels before
            with_levels = np.tril((C0 @ A0.T + K) @ M.T, -1)
            expected["function_shared"] = with_levels + with_levels.T
            own = 2.0 * (np.sum(A0 * C0, axis=1) + np.sum(rows[:, 4:] * with_levels, axis=1))
            np.fill_diagonal(expected["function_shared"], own)
        rest = known - sum(expected[one] for one in expected if not one.startswith("inputs"))
        expected["inputs_propagated"] = rest
        assert parts.keys() == expected.keys()
        for name, part in expected.items():
            np.testing.assert_allclose(parts[name], part, atol=1e-12 * np.abs(known).max())

    alone = LinearRecursion.along(rows, maps, scales, K, S)
    check(alone, np.zeros((steps, 4)))
    assert not np.triu(alone.shared[:, 4:]).any()
    C0 = rng.normal(size=(steps, 4))
    C0[:, 2:] = 0.0
    with_levels = np.tril((C0 @ A0.T + K) @ M.T, -1)
    shared = np.hstack([C0, with_levels])
    check(LinearRecursion(rows, shared, np.diag(K), scales, S, 2), C0)
    if steps == 1:
        assert not alone.shared.any()
