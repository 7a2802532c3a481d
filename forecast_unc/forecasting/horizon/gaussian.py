"""The joint distribution of the horizon: one-step predictions iterated, with their uncertainty."""

from functools import partial
from typing import NamedTuple, Self

import numpy as np
from scipy.linalg import block_diag

from forecast_unc._typing import Array
from forecast_unc.distributions.variance_parts import MakeParts, with_more
from forecast_unc.forecasting.horizon.function_error import (
    LinearRecursion,
    Step,
    parts_of_matching,
    passed_on,
)
from forecast_unc.forecasting.horizon.origin import State, run_in, state_at_origin
from forecast_unc.forecasting.horizon.paths import sample_paths_from
from forecast_unc.forecasting.horizon.step import (
    Future,
    Method,
    MomentMatching,
    OneStepModel,
    Past,
    Trajectory,
    at_step,
    check_stable,
)
from forecast_unc.regression.posterior import check_positive_variance


class LevelJoint(NamedTuple):
    """Mean and covariance of the next h levels as observed, and what the covariance is made of."""

    mean: Array  # (h,)
    cov: Array  # (h, h)
    parts: MakeParts | None
    """(h, h) each, see `LinearRecursion.parts`; what they do not add up to is not linear in the
    inputs. None if the noise is not told from the function."""
    paths: Array | None = None  # (h, n), whose moments these are, if they were sampled

    @classmethod
    def of_paths(cls, paths: Array, parts: MakeParts | None, ddof: int = 1) -> Self:
        """The moments of sample paths (h, n)."""
        return cls(paths.mean(axis=1), np.atleast_2d(np.cov(paths, ddof=ddof)), parts, paths)

    def shifted(self, by: Array) -> Self:
        """The joint of the levels plus a known number for each step, (h,)."""
        paths = None if self.paths is None else self.paths + by[:, None]
        return self._replace(mean=self.mean + by, paths=paths)

    def widened(self, cov: Array) -> Self:
        """The joint of the levels plus independent errors, of a covariance (h, h)."""
        parts = None
        if self.parts is not None:
            parts = partial(with_more, self.parts, "inputs_regressors", cov)
        return self._replace(cov=self.cov + cov, parts=parts)


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
        parts = partial(_parts_of_paths, model, past, future, method, paths)
    return LevelJoint.of_paths(paths.T, parts, ddof=int(method.propagation == "monte_carlo"))


def propagate_from(model: OneStepModel, state: State, future: Future, method: Method) -> LevelJoint:
    """Joint of the next values from the distribution of the last levels, by moment matching.

    z = (last levels, uncertain regressors, y_1, y_2, ...) is kept jointly Gaussian.
    """
    if method.propagation == "naive":
        return _naive(model, state, future, method)
    maps, scales, h, u = model.maps, model.scales, len(future.exog), future.uncertain
    p, first = maps.depth, maps.depth + h * u  # coordinate of y_1
    regressors = p + np.arange(h * u).reshape(h, u)  # their coordinates
    coordinate = np.concatenate([np.arange(p), first + np.arange(h)])  # of each level
    start_cov, function = _start_cov(state, future), state.function
    cov = np.zeros((first + h, first + h))
    cov[:first, :first] = start_cov
    before = 0 if function is None else function.step
    matching = MomentMatching(model, method, state.limit, function, u)
    trajectory = Trajectory(model, state.mean, h)
    inputs, steps = list[Array](), list[Step]()
    for t in range(h):
        x, levels = trajectory.inputs(future.exog[t]), coordinate[: p + t]
        at = np.concatenate([coordinate[p + t - maps.lagged], regressors[t]])
        with at_step(t + 1):
            step = matching.step(cov, first + t, x, at, levels)
            trajectory.append(step.mean)
        inputs.append(x)
        steps.append(step)
    parts = None
    if model.posterior.joint:
        if function is None:
            function_cov = _function_cov(model, method, np.array(inputs))
        else:
            function_cov = function.covariance[before:, before:]
        own = np.diagonal(function_cov)[:h].copy()
        parts = partial(parts_of_matching, maps, scales, steps, own, start_cov)
    of_levels = scales.scale**2 * cov[first:, first:]
    of_levels[np.diag_indices(h)] += scales.scale**2 * scales.observation_var
    return LevelJoint(trajectory.levels[p:].copy(), of_levels, parts)


def _naive(model: OneStepModel, state: State, future: Future, method: Method) -> LevelJoint:
    """Plug each mean in as if it had been observed."""
    maps, posterior, h, scales = model.maps, model.posterior, len(future.exog), model.scales
    trajectory, inputs = Trajectory(model, state.mean, h), []
    for step in range(h):
        x = trajectory.inputs(future.exog[step])
        with at_step(step + 1):
            change = float(posterior.mean(x[None])[0])
            check_stable(change, 0.0, state.limit)
            trajectory.append(change)
        inputs.append(x)
    if posterior.joint:
        function_cov = _function_cov(model, method, np.array(inputs))
    else:
        var = posterior.predict(np.array(inputs))[1]
        function_cov = np.diag(var - scales.observation_var - scales.noise_var)
    total = np.diagonal(function_cov) + scales.noise_var
    step = int((~(total > 0)).argmax())
    with at_step(step + 1):
        check_positive_variance(total[step : step + 1], posterior)
    _, carried = passed_on(maps, np.zeros((h, len(maps.lagged))))
    known = np.zeros((maps.depth, maps.depth))
    linear = LinearRecursion.along(carried, maps, scales, function_cov, known)
    parts = linear.parts if posterior.joint else None
    return LevelJoint(trajectory.levels[maps.depth :].copy(), linear.covariance(), parts)


def _parts_of_paths(
    model: OneStepModel, past: Past, future: Future, method: Method, paths: Array
) -> dict[str, Array]:
    """Parts of the covariance of sample paths: of the recursion with the mean slopes along them.

    Their products can grow: weights are shortened to give no more than the variance of the paths.
    """
    state = state_at_origin(model, past, method._replace(path_consistent=False))
    maps, scales, h = model.maps, model.scales, len(future.exog)
    some = np.vstack([paths.mean(axis=0), paths[:64]])  # so few cost little
    trajectory, inputs = Trajectory(model, np.tile(state.mean, (len(some), 1)), h), []
    for t in range(h):
        inputs.append(trajectory.inputs(np.tile(future.exog[t], (len(some), 1))))
        trajectory.append(0.0)
        trajectory.revise(some[:, t : t + 1])
    slopes = np.array([model.posterior.gradient(X[1:]).mean(axis=0) for X in inputs])
    mean_inputs = np.array([X[0] for X in inputs])
    combine = block_diag(maps.combine, np.eye(future.uncertain))
    function_cov, start_cov = _function_cov(model, method, mean_inputs), _start_cov(state, future)
    through, carried = passed_on(maps, slopes[:, : len(combine)] @ combine)
    largest = paths.var(axis=0, ddof=1) / scales.scale**2 - scales.observation_var
    b = len(start_cov)
    rows, joint, response = np.zeros((h, b + h)), np.zeros((b + h, b + h)), np.eye(h)
    joint[:b, :b] = start_cov
    for t in range(h):
        n, error = b + t, np.zeros(b + t)
        before, x, y = joint[:n, :n], through[t, :n], carried[t, :n]
        error[b:] = response[:t, :t] @ function_cov[:t, t]
        # Var y_t = square f^2 + 2 double f + rest, f the factor of the weights on the inputs
        square, double = x @ before @ x, x @ (before @ y + error)
        rest = y @ before @ y + 2.0 * (y @ error) + function_cov[t, t] + scales.noise_var
        factor = 1.0
        if square + 2.0 * double + rest > largest[t] and square > 0.0:
            root = max(double**2 + square * (largest[t] - rest), 0.0)
            factor = float(np.clip((np.sqrt(root) - double) / square, 0.0, 1.0))
        row = rows[t, :n] = factor * x + y
        joint[n, :n] = joint[:n, n] = row @ before + error
        joint[n, n] = factor**2 * square + 2.0 * factor * double + rest
        response[t, :t] = row[b:] @ response[:t, :t]
    return LinearRecursion.along(rows, maps, scales, function_cov, start_cov).parts()


def _start_cov(state: State, future: Future) -> Array:
    """Covariance of the last levels, over scale^2, and of the regressors, (p + h u, p + h u)."""
    return state.cov if future.exog_cov is None else block_diag(state.cov, future.exog_cov)


def _function_cov(model: OneStepModel, method: Method, inputs: Array) -> Array:
    """Covariance of the function at the mean inputs, (h, h); diagonal if errors are independent."""
    function_cov = model.posterior.covariance(inputs)
    return function_cov if method.path_consistent else np.diag(np.diagonal(function_cov))
