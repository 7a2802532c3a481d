"""The joint distribution of the horizon: one-step predictions iterated, with their uncertainty.

The input of each step is made of lagged values, observed or forecast, and of regressors.
What is uncertain of them is a coordinate of one joint Gaussian: noisy or missing history,
future regressors, earlier forecasts. The methods differ in what they keep of it; all return the
joint mean and covariance of the next h observations.
"""

from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular, toeplitz

from forecast_unc._typing import Array
from forecast_unc.forecasting.filtering import State, moment_method, state_at_origin
from forecast_unc.forecasting.mixture import mixture_moments
from forecast_unc.forecasting.recursion import (
    Future,
    Method,
    MomentMatching,
    OneStepModel,
    Past,
    Trajectory,
    at_step,
    check_stable,
)
from forecast_unc.forecasting.sampling import sample_paths
from forecast_unc.regression.posterior import check_positive_variance


class Joint(NamedTuple):
    """Mean and covariance of the next h observations, and what of it enters at each step anew."""

    mean: Array  # (h,)
    cov: Array  # (h, h)
    noise_cov: Array | None  # (h, h), of the noise; None if it is not told from the function
    function_cov: Array | None  # (h, h), of the function at the mean inputs


def propagate(model: OneStepModel, past: Past, future: Future, method: Method) -> Joint:
    """Joint mean and covariance of the next values of a series.

    Parameters
    ----------
    model : OneStepModel
        One-step model of the standardized change.
    past : Past
        The n >= p levels up to the origin, with NaN where missing; p is the depth of the model.
    future : Future
        Regressors of the h future steps.
    method : Method
        How the uncertainty is propagated; not "auto". "naive" knows no uncertain inputs. Without
        `path_consistent` the function's error is drawn afresh at each step, as in the recursion of
        Girard et al. 2003; so it is with a posterior that says nothing of two inputs together.

    Returns
    -------
    Joint

    Raises
    ------
    Diverged
        If a step has a variance that is not positive, or the forecast runs away; with the step.
    """
    if method.propagation not in ("mixture", "monte_carlo"):
        state = state_at_origin(model, past, method)
        return propagate_from(model, state, future, method)
    start = state_at_origin(model, past, method._replace(path_consistent=False)).mean
    if method.propagation == "mixture":
        mean, cov = mixture_moments(model, past, future, method)
        return _with_parts(model, start, future, method, mean, cov)
    paths = sample_paths(model, past, future, method)
    mean, cov = paths.mean(axis=0), np.atleast_2d(np.cov(paths, rowvar=False))
    return _with_parts(model, start, future, method, mean, cov)


def propagate_from(model: OneStepModel, state: State, future: Future, method: Method) -> Joint:
    """Joint mean and covariance of the next values, from the distribution of the last levels.

    Parameters
    ----------
    model : OneStepModel
        One-step model of the standardized change.
    state : State
        Of `state_at_origin`.
    future : Future
        Regressors of the h future steps.
    method : Method
        With "exact", "taylor" or "naive".

    Returns
    -------
    Joint
    """
    if method.propagation == "naive":
        return _naive(model, state, future, method)
    return _gaussian(model, state, future, method)


def _gaussian(model: OneStepModel, state: State, future: Future, method: Method) -> Joint:
    """Moment matching: z = (last levels, regressors, y_1, y_2, ...) is kept jointly Gaussian.

    Regressors that are known are no coordinates.
    """
    maps, h, scale = model.maps, len(future.exog), model.differencing.scale
    p, uncertain = maps.depth, 0 if future.exog_cov is None else len(future.exog_cov) // h
    regressors = p + np.arange(h * uncertain).reshape(h, uncertain)  # their coordinates
    first = p + regressors.size  # coordinate of y_1
    coordinate = np.concatenate([np.arange(p), first + np.arange(h)])  # of each level
    cov = np.zeros((first + h, first + h))
    if state.cov is not None:
        cov[:p, :p] = state.cov / scale**2
    if future.exog_cov is not None:
        cov[p:first, p:first] = future.exog_cov
    function = None if state.function is None else state.function.with_room(h)
    before = 0 if function is None else function.step
    matching = MomentMatching(model, moment_method(model, method), state.limit, function, uncertain)
    trajectory = Trajectory(model, state.mean, h)
    for step in range(h):
        t, x = p + step, trajectory.inputs(future.exog[step])
        at = np.concatenate([coordinate[t - maps.lagged], regressors[step]])
        with at_step(step + 1):
            trajectory.append(matching.step(cov, first + step, x, at, coordinate[:t]))
    mean, cov = trajectory.levels[p:].copy(), scale**2 * cov[first:, first:]
    cov[np.diag_indices(h)] += scale**2 * model.posterior.observation_var
    if function is None:
        return _with_parts(model, state.mean, future, method, mean, cov)
    lower = np.tril(function.covariance[before : before + h, before : before + h])
    return Joint(mean, cov, _noise(model, h), scale**2 * (lower + np.tril(lower, -1).T))


def _naive(model: OneStepModel, state: State, future: Future, method: Method) -> Joint:
    """Plug each mean in as if it had been observed."""
    maps, h, scale = model.maps, len(future.exog), model.differencing.scale
    posterior = model.posterior
    trajectory = Trajectory(model, state.mean, h)
    for step in range(h):
        x = trajectory.inputs(future.exog[step])
        with at_step(step + 1):
            change = float(posterior.mean(x[None])[0])
            check_stable(change, 0.0, state.limit)
            trajectory.append(change)
    joint = _with_parts(model, state.mean, future, method, trajectory.levels[maps.depth :])
    # T y = changes + constants, T the Toeplitz matrix of the difference polynomial
    column = np.zeros(h + maps.depth)
    column[0] = 1.0
    column[maps.own] = maps.carried
    root = solve_triangular(
        toeplitz(column[:h], np.zeros(h)), np.eye(h), lower=True, unit_diagonal=True
    )
    cov = root @ joint.cov @ root.T
    cov[np.diag_indices(h)] += scale**2 * posterior.observation_var
    return joint._replace(cov=cov)


def _with_parts(
    model: OneStepModel,
    start: Array,
    future: Future,
    method: Method,
    mean: Array,
    cov: Array | None = None,
) -> Joint:
    """The joint with its parts at the mean inputs; without `cov`, of their sum."""
    h, scale, posterior = len(mean), model.differencing.scale, model.posterior
    levels = np.concatenate([start, mean])
    changes = model.differencing.forward(levels)
    times = len(changes) - h + np.arange(h)
    inputs = np.column_stack([changes[times[:, None] - np.array(model.lags)], future.exog])
    noise_cov = function_part = None
    if not posterior.joint:
        own = np.diag(posterior.predict(inputs)[1] - posterior.observation_var)
    else:
        function_cov = posterior.covariance(inputs)
        if not method.path_consistent:
            function_cov = np.diag(np.diagonal(function_cov))
        own = function_cov + posterior.noise_var * np.eye(h)
        noise_cov, function_part = _noise(model, h), scale**2 * function_cov
    if cov is None:
        var = np.diagonal(own)
        step = int((~(var > 0)).argmax())
        with at_step(step + 1):
            check_positive_variance(var[step : step + 1], posterior)
        cov = scale**2 * own
    return Joint(mean, cov, noise_cov, function_part)


def _noise(model: OneStepModel, h: int) -> Array:
    """Covariance of what noise enters at each step, (h, h)."""
    var = model.posterior.noise_var + model.posterior.observation_var
    return model.differencing.scale**2 * var * np.eye(h)
