"""The joint distribution of the horizon: one-step predictions iterated, with their uncertainty."""

from functools import partial

import numpy as np

from forecast_unc._typing import Array
from forecast_unc.forecasting.horizon.decomposition import (
    LinearRecursion,
    function_covariance,
    parts_of_matching,
    parts_of_paths,
    passed_on,
    start_covariance,
)
from forecast_unc.forecasting.horizon.origin import State, run_in, state_at_origin
from forecast_unc.forecasting.horizon.paths import sample_paths_from
from forecast_unc.forecasting.horizon.step import (
    MomentMatching,
    Trajectory,
    at_step,
    check_stable,
)
from forecast_unc.forecasting.horizon.types import (
    Future,
    Given,
    LevelJoint,
    Matched,
    Method,
    OneStepModel,
    Past,
    Step,
)
from forecast_unc.regression.posterior import check_positive_variance


def propagate(model: OneStepModel, past: Past, future: Future, method: Method) -> LevelJoint:
    """Joint of the next h values, after the n >= p levels up to the origin; `method` is not "auto".

    Without `path_consistent`, or if the posterior is not `joint`, the errors of the function at the
    steps are independent (Girard et al. 2003).
    """
    if method.propagation not in ("mixture", "monte_carlo"):
        state = state_at_origin(model, past, method, len(future.exog))
        return propagate_from(model, state, future, method)
    paths, parts = sample_paths_from(model, run_in(model, past), future, method), None
    if model.posterior.joint:
        parts = partial(parts_of_paths, model, past, future, method, paths)
    return LevelJoint.of_paths(paths.T, parts, ddof=int(method.propagation == "monte_carlo"))


def propagate_from(model: OneStepModel, state: State, future: Future, method: Method) -> LevelJoint:
    """Joint of the next values from the distribution of the last levels, by moment matching.

    z = (last levels, uncertain regressors, y_1, y_2, ...) is kept jointly Gaussian.
    """
    if method.propagation == "naive":
        return _naive(model, state, future, method)
    steps_before = 0 if state.function is None else state.function.step
    matched = matched_from(model, state, future, method)
    scales, function, parts = model.scales(future), state.function, None
    h = len(matched.steps)
    if model.posterior.joint:
        if function is None:
            function_cov = function_covariance(model, method, matched.inputs)
        else:
            function_cov = function.covariance[steps_before:, steps_before:]
        own = np.diagonal(function_cov)[:h].copy()
        start_cov = start_covariance(state, future)
        parts = partial(parts_of_matching, model.maps, scales, matched.steps, own, start_cov)
    of_levels = scales.scale**2 * matched.cov
    of_levels[np.diag_indices(h)] += scales.scale**2 * scales.observation_var
    return LevelJoint(matched.levels, of_levels, parts)


def matched_from(model: OneStepModel, state: State, future: Future, method: Method) -> Matched:
    """The steps of moment matching from the distribution of the last levels."""
    maps, scales = model.maps, model.scales(future)
    h, u = len(future.exog), future.uncertain
    p, y_1 = maps.depth, maps.depth + h * u  # the number of last levels; where y_1 is in z
    # coordinates in z of the levels, last and next, and of each step's regressors
    levels = np.concatenate([np.arange(p), y_1 + np.arange(h)])
    regressors = p + np.arange(h * u).reshape(h, u)
    cov = np.zeros((y_1 + h, y_1 + h))
    cov[:y_1, :y_1] = start_covariance(state, future)
    matching = MomentMatching(model, method, state.limit, state.function, u)
    trajectory = Trajectory(model, state.mean, h)
    inputs, steps = list[Array](), list[Step]()
    for t in range(h):
        x = trajectory.inputs(future.exog[t])
        at = np.concatenate([levels[p + t - maps.lagged], regressors[t]])
        with at_step(t + 1):
            given = Given(x, at, float(scales.noise_var[t]))
            step = matching.step(cov, y_1 + t, given, levels[: p + t])
            trajectory.append(step.mean)
        inputs.append(x)
        steps.append(step)
    return Matched(trajectory.levels[p:].copy(), cov[y_1:, y_1:], np.array(inputs), steps)


def _naive(model: OneStepModel, state: State, future: Future, method: Method) -> LevelJoint:
    """Plug each mean in as if it had been observed."""
    maps = model.maps
    posterior = model.posterior
    h = len(future.exog)
    scales = model.scales(future)
    trajectory, inputs = Trajectory(model, state.mean, h), []
    for step in range(h):
        x = trajectory.inputs(future.exog[step])
        with at_step(step + 1):
            change = float(posterior.mean(x[None])[0])
            check_stable(change, 0.0, state.limit)
            trajectory.append(change)
        inputs.append(x)
    if posterior.joint:
        function_cov = function_covariance(model, method, np.array(inputs))
    else:
        var = posterior.predict(np.array(inputs))[1]
        function_cov = np.diag(var - scales.observation_var - posterior.noise_var)
    total = np.diagonal(function_cov) + scales.noise_var
    step = int((~(total > 0)).argmax())
    with at_step(step + 1):
        check_positive_variance(total[step : step + 1], posterior)
    _, carried = passed_on(maps, np.zeros((h, len(maps.lagged))))
    known = np.zeros((maps.depth, maps.depth))
    linear = LinearRecursion.along(carried, maps, scales, function_cov, known)
    parts = linear.parts if posterior.joint else None
    return LevelJoint(trajectory.levels[maps.depth :].copy(), linear.covariance(), parts)
