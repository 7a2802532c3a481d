"""The joint distribution of the horizon: one-step predictions iterated, with their uncertainty.

The input of each step is made of lagged values, observed or forecast, and of regressors.
What is uncertain of them is a coordinate of one joint Gaussian: noisy or missing history,
future regressors, earlier forecasts. The methods differ in what they keep of it; all return the
joint mean and covariance of the next h observations. Where one of several posteriors is right, the
recursion goes through each by itself, as the same one is right at all steps, and the horizon is a
mixture of theirs.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.linalg import block_diag

from forecast_unc._typing import Array
from forecast_unc.distributions.normal_mixture import NormalMixture
from forecast_unc.distributions.parts import Deferred, mixed_parts
from forecast_unc.forecasting.alternatives import (
    Alternative,
    by_alternative,
    go_on_as_others,
    through_each,
)
from forecast_unc.forecasting.filtering import State, moment_method, run_in, state_at_origin
from forecast_unc.forecasting.linear_recursion import (
    Scales,
    along_means,
    parts_of_matching,
    parts_of_paths,
)
from forecast_unc.forecasting.mixture import pieces
from forecast_unc.forecasting.recursion import (
    Found,
    Future,
    Method,
    MomentMatching,
    OneStepModel,
    Past,
    Step,
    Trajectory,
    at_step,
    check_stable,
)
from forecast_unc.forecasting.sampling import sample_paths_from
from forecast_unc.regression.posterior import check_positive_variance

# Paths that the mean slopes of "monte_carlo" are taken from, for its parts: so few cost little.
_SLOPE_PATHS = 64


class Joint(NamedTuple):
    """Mean and covariance of the next h observations, and what the covariance is made of."""

    mean: Array  # (h,)
    cov: Array  # (h, h)
    parts: Mapping[str, Array] | None
    """(h, h) each, see `LinearRecursion.parts`; what they do not add up to is not linear in the
    inputs. None if the noise is not told from the function."""
    paths: Array | None = None  # (h, n), whose moments these are, if they were sampled
    mixture: NormalMixture | None = None  # whose moments these are, of several posteriors


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
        Girard et al. 2003; so it is with a posterior that says nothing of two inputs together. Then
        which of several posteriors is right is drawn afresh, too.

    Returns
    -------
    Joint

    Raises
    ------
    Diverged
        If a step has a variance that is not positive, or the forecast runs away; with the step.
    """
    found = by_alternative(model, method)

    def ask(one: Alternative, future: Future) -> Joint:
        return _propagate(one.model, past, future, one.method)

    joints = through_each(found, future, ask, _go_on)
    return joints[0] if len(found) == 1 else _mixed([one.p for one in found], joints)


def _propagate(model: OneStepModel, past: Past, future: Future, method: Method) -> Joint:
    """The joint of a single posterior."""
    if method.propagation not in ("mixture", "monte_carlo"):
        state = state_at_origin(model, past, method)
        return propagate_from(model, state, future, method)
    if method.propagation == "mixture":
        paths, ddof = pieces(model, past, future, method), 0
    else:
        start = run_in(model, past)
        paths, ddof = sample_paths_from(model, start, past, future, method), 1
    mean, cov = paths.mean(axis=0), np.atleast_2d(np.cov(paths, rowvar=False, ddof=ddof))
    kept = paths.T if method.propagation == "monte_carlo" else None
    if not model.posterior.joint:
        return Joint(mean, cov, None, kept)
    state = state_at_origin(model, past, method._replace(path_consistent=False))
    return Joint(mean, cov, _parts_of_paths(model, state, future, method, paths), kept)


def _mixed(shares: Sequence[float], joints: Sequence[Joint]) -> Joint:
    """The joint of several posteriors of which one is right, by the rule of total covariance."""
    p = np.array(shares)
    mixture = NormalMixture(
        p, np.array([j.mean for j in joints]), np.array([j.cov for j in joints])
    )
    parts = [joint.parts for joint in joints if joint.parts is not None]
    merged = None
    if len(parts) == len(joints):
        merged = Deferred(partial(mixed_parts, parts, p, mixture.between))
    sampled = [joint.paths for joint in joints if joint.paths is not None]
    if sampled:
        paths = np.hstack(sampled)
        return Joint(paths.mean(axis=1), np.atleast_2d(np.cov(paths)), merged, paths)
    return Joint(mixture.mean, mixture.cov, merged, None, mixture)


def _go_on(one: Alternative, own: Joint | None, others: Sequence[tuple[float, Joint]]) -> Joint:
    """A joint whose later steps are those of the mixture of others, by its moments."""
    total = sum(p for p, _ in others)
    rest = _mixed([p / total for p, _ in others], [joint for _, joint in others])
    paths = None
    if rest.paths is not None:
        sampled = [(p, joint.paths) for p, joint in others if joint.paths is not None]
        known = None if own is None else own.paths
        paths = go_on_as_others(known, sampled, one.method.n_samples)
    if own is None:
        return rest._replace(paths=paths)
    end, parts = len(own.mean), None
    if own.parts is not None and rest.parts is not None:
        parts = Deferred(partial(_block_parts, own.parts, rest.parts))
    mean = np.append(own.mean, rest.mean[end:])
    return Joint(mean, block_diag(own.cov, rest.cov[end:, end:]), parts, paths)


def _block_parts(first: Mapping[str, Array], rest: Mapping[str, Array]) -> dict[str, Array]:
    """Parts of steps that are independent of the first ones; the rest's are of all steps."""
    end = len(next(iter(first.values())))
    blocks = {name: np.zeros_like(next(iter(rest.values()))) for name in {*first, *rest}}
    for name, block in blocks.items():
        block[:end, :end] = first.get(name, 0.0)
        block[end:, end:] = rest[name][end:, end:] if name in rest else 0.0
    return blocks


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
    """Moment matching from one origin."""
    run = _Matching(model, state, future, method)
    for step in range(len(future.exog)):
        x, input_cov = run.inputs()
        with at_step(step + 1):
            run.enter(run.matching.found(x, input_cov))
    return run.joint()


class _Matching:
    """Moment matching: z = (last levels, regressors, y_1, y_2, ...) is kept jointly Gaussian.

    Regressors that are known are no coordinates.
    """

    def __init__(self, model: OneStepModel, state: State, future: Future, method: Method) -> None:
        maps, h, scale = model.maps, len(future.exog), model.differencing.scale
        p, uncertain = maps.depth, 0 if future.exog_cov is None else len(future.exog_cov) // h
        self.model, self.future = model, future
        self._regressors = p + np.arange(h * uncertain).reshape(h, uncertain)  # their coordinates
        self._first = first = p + self._regressors.size  # coordinate of y_1
        self._coordinate = np.concatenate([np.arange(p), first + np.arange(h)])  # of each level
        self._cov = np.zeros((first + h, first + h))
        if state.cov is not None:
            self._cov[:p, :p] = state.cov / scale**2
        if future.exog_cov is not None:
            self._cov[p:first, p:first] = future.exog_cov
        self._function = None if state.function is None else state.function.with_room(h)
        self._before = 0 if self._function is None else self._function.step
        kind = moment_method(model, method)
        self.matching = MomentMatching(model, kind, state.limit, self._function, uncertain)
        self._trajectory = Trajectory(model, state.mean, h)
        self._inputs: list[Array] = []
        self._steps: list[Step] = []

    def inputs(self) -> tuple[Array, Array]:
        """Mean (d,) and covariance (d, d) of the input of the next step."""
        step, maps = len(self._steps), self.model.maps
        x, n = self._trajectory.inputs(self.future.exog[step]), self._first + step
        lagged = self._coordinate[maps.depth + step - maps.lagged]
        self._at = np.concatenate([lagged, self._regressors[step]])
        self._inputs.append(x)
        return x, self.matching.input_cov(len(x), self._at, self._cov[:n, :n])

    def enter(self, found: Found) -> None:
        """Take the next step, with what the posterior says of it."""
        step = len(self._steps)
        levels = self._coordinate[: self.model.depth + step]
        self._steps.append(
            self.matching.enter(self._cov, self._first + step, found, self._at, levels)
        )
        self._trajectory.append(self._steps[-1].mean)

    def joint(self) -> Joint:
        """The joint of all steps."""
        model, first, function = self.model, self._first, self._function
        maps, h, scale = model.maps, len(self.future.exog), model.differencing.scale
        parts = None
        if model.posterior.joint:
            if function is None:
                function_cov = model.posterior.covariance(np.array(self._inputs))
            else:
                function_cov = function.covariance[self._before :, self._before :]
            own, start = np.diagonal(function_cov).copy(), self._cov[:first, :first].copy()
            made = partial(parts_of_matching, maps, Scales.of(model), self._steps, own, start)
            parts = Deferred(made)
        mean = self._trajectory.levels[maps.depth :].copy()
        cov = scale**2 * self._cov[first:, first:]
        cov[np.diag_indices(h)] += scale**2 * model.posterior.observation_var
        return Joint(mean, cov, parts)


def _naive(model: OneStepModel, state: State, future: Future, method: Method) -> Joint:
    """Plug each mean in as if it had been observed."""
    maps, posterior, h, scales = model.maps, model.posterior, len(future.exog), Scales.of(model)
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
    else:  # with the noise, from which it is not told
        var = posterior.predict(np.array(inputs))[1] - scales.observation_var
        function_cov, scales = np.diag(var), scales._replace(noise_var=0.0)
    total = np.diagonal(function_cov) + scales.noise_var
    step = int((~(total > 0)).argmax())
    with at_step(step + 1):
        check_positive_variance(total[step : step + 1], posterior)
    weights, known = np.zeros((h, len(maps.lagged))), np.zeros((maps.depth, maps.depth))
    recursion = along_means(maps, scales, function_cov, known, weights)
    parts = Deferred(recursion.parts) if posterior.joint else None
    return Joint(trajectory.levels[maps.depth :].copy(), recursion.covariance(), parts)


def _parts_of_paths(
    model: OneStepModel, state: State, future: Future, method: Method, paths: Array
) -> Deferred:
    """Parts of the covariance of sample paths: of a linear recursion with their mean slopes."""
    maps, scales, h = model.maps, Scales.of(model), len(future.exog)
    mean_inputs = _inputs(model, state.mean, future.exog, paths.mean(axis=0)[None])[0]
    some = _inputs(model, state.mean, future.exog, paths[:_SLOPE_PATHS])
    slopes = np.array([model.posterior.gradient(some[:, t]).mean(axis=0) for t in range(h)])
    uncertain = 0 if future.exog_cov is None else len(future.exog_cov) // h
    combine = block_diag(maps.combine, np.eye(uncertain))
    levels = np.zeros((maps.depth, maps.depth))
    if state.cov is not None:
        levels = state.cov / scales.scale**2
    make = partial(
        parts_of_paths,
        maps,
        scales,
        _function_cov(model, method, mean_inputs),
        levels if future.exog_cov is None else block_diag(levels, future.exog_cov),
        slopes[:, : len(combine)] @ combine,
        paths.var(axis=0, ddof=1),
    )
    return Deferred(make)


def _inputs(model: OneStepModel, start: Array, exog: Array, paths: Array) -> Array:
    """Inputs of the steps of each path, (n, h, d), after known levels."""
    n, h = paths.shape
    changes = model.differencing.forward(np.hstack([np.tile(start, (n, 1)), paths]))
    times = changes.shape[1] - h + np.arange(h)
    lagged = changes[:, times[:, None] - np.array(model.lags)]
    return np.concatenate([lagged, np.broadcast_to(exog, (n, *exog.shape))], axis=2)


def _function_cov(model: OneStepModel, method: Method, inputs: Array) -> Array:
    """Covariance of the function at the mean inputs, (h, h); diagonal if it is drawn afresh."""
    function_cov = model.posterior.covariance(inputs)
    return function_cov if method.path_consistent else np.diag(np.diagonal(function_cov))
