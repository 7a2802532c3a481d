"""The joint distribution of the horizon: one-step predictions iterated, with their uncertainty."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple, Self

import numpy as np
from scipy.linalg import block_diag

from forecast_unc._checks import generator
from forecast_unc._typing import Array
from forecast_unc.distributions.joint import Diverged
from forecast_unc.distributions.normal_mixture import NormalMixture
from forecast_unc.distributions.variance_parts import Deferred, mixed_parts
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
    parts: Mapping[str, Array] | None
    """(h, h) each, see `LinearRecursion.parts`; what they do not add up to is not linear in the
    inputs. None if the noise is not told from the function."""
    paths: Array | None = None  # (h, n), whose moments these are, if they were sampled
    mixture: NormalMixture | None = None  # whose moments these are, of several posteriors

    @classmethod
    def of_paths(cls, paths: Array, parts: Mapping[str, Array] | None, ddof: int = 1) -> Self:
        """The moments of sample paths (h, n)."""
        return cls(paths.mean(axis=1), np.atleast_2d(np.cov(paths, ddof=ddof)), parts, paths)

    def shifted(self, by: Array) -> Self:
        """The joint of the levels plus a known number for each step, (h,)."""
        paths, mixture = self.paths, self.mixture
        return self._replace(
            mean=self.mean + by,
            paths=None if paths is None else paths + by[:, None],
            mixture=None if mixture is None else replace(mixture, means=mixture.means + by),
        )

    def widened(self, cov: Array) -> Self:
        """The joint of the levels plus independent errors, of a covariance (h, h)."""
        parts = None
        if self.parts is not None:
            before = self.parts.get("inputs_regressors", 0.0)
            parts = {**self.parts, "inputs_regressors": before + cov}
        return self._replace(cov=self.cov + cov, parts=parts)


_Alternative = tuple[float, OneStepModel, Method]
"""The probability that a model is the right one, the model, and the method for it."""


def propagate(model: OneStepModel, past: Past, future: Future, method: Method) -> LevelJoint:
    """Joint of the next h values, after the n >= p levels up to the origin; `method` is not "auto".

    Without `path_consistent`, or if the posterior is not `joint`, the errors of the function at the
    steps are independent (Girard et al. 2003), and so is which of several posteriors is right.
    """
    found = _alternatives(model, method)
    if len(found) == 1:
        return _of_one(found[0], past, future)
    return _mixed([p for p, _, _ in found], _through_each(found, past, future))


def _alternatives(model: OneStepModel, method: Method) -> list[_Alternative]:
    """Each model of which one is right, with its share of the paths; or the whole, by moments."""
    found = model.alternatives
    if not method.path_consistent:
        return [(1.0, model, method)]
    if len(found) == 1 or method.propagation != "monte_carlo":
        return [(p, one, method) for p, one in found]
    n, likeliest = method.n_samples, max(p for p, _ in found)
    # two paths at least, and one that rounding may take away
    kept = [(p, one) for p, one in found if p == likeliest or p * n >= 3]
    shares = np.array([p for p, _ in kept])
    counts = np.diff(np.rint(n * np.cumsum([0.0, *shares / shares.sum()])).astype(np.intp))
    seeds = generator(method.random_state).integers(2**63, size=len(kept))
    return [
        (count / n, one, method._replace(n_samples=int(count), random_state=int(seed)))
        for (_, one), count, seed in zip(kept, counts, seeds, strict=True)
    ]


def _through_each(found: Sequence[_Alternative], past: Past, future: Future) -> list[LevelJoint]:
    """The joint of each alternative; where some diverge, later steps are those of the others.

    So the first steps do not depend on the horizon; with more than a tenth of p it is an error.
    """
    reached = [_as_far_as_it_goes(one, past, future) for one in found]
    joints, errors = [joint for joint, _ in reached], [error for _, error in reached]
    reach, lost = [len(joint.mean) for joint in joints], 0.0
    shortest_first = sorted(range(len(found)), key=reach.__getitem__)
    for i in shortest_first:
        if (error := errors[i]) is not None:
            lost += found[i][0]
            if lost > 0.1:  # the likeliest of ten nodes has as much
                raise error
    for i in reversed(shortest_first):
        if errors[i] is not None:
            further = [j for j in range(len(found)) if reach[j] > reach[i]]
            rest = _mixed([found[j][0] for j in further], [joints[j] for j in further])
            joints[i] = _continued(joints[i], rest)
    return joints


def _as_far_as_it_goes(
    one: _Alternative, past: Past, future: Future
) -> tuple[LevelJoint, Diverged | None]:
    """Joint of the steps before a model diverges, and the error if it does."""
    reach, error = len(future.exog), None
    while reach > 0:
        try:
            joint = _of_one(one, past, future.first(reach))
            if one[2].propagation == "mixture":  # pieces of several do not count alike
                joint = joint._replace(paths=None)
            return joint, error
        except Diverged as diverged:
            # a shorter one may fail at an earlier step, for another reason
            error, reach = diverged, min(reach, diverged.step) - 1
    paths = np.empty((0, one[2].n_samples))
    return LevelJoint(np.empty(0), np.empty((0, 0)), {}, paths), error


def _continued(own: LevelJoint, rest: LevelJoint) -> LevelJoint:
    """A joint whose later steps are those of another, of all steps, by its moments."""
    end, parts, paths = len(own.mean), None, None
    if own.paths is not None and rest.paths is not None:
        # evenly taken, as numbers are in proportion to the probabilities
        n, of = own.paths.shape[1], rest.paths.shape[1]
        paths = np.vstack([own.paths, rest.paths[end:, (np.arange(n) * of) // n]])
    if own.parts is not None and rest.parts is not None:
        parts = Deferred(partial(_block_parts, own.parts, rest.parts, end))
    mean, cov = np.append(own.mean, rest.mean[end:]), block_diag(own.cov, rest.cov[end:, end:])
    return LevelJoint(mean, cov, parts, paths)


def _mixed(shares: Sequence[float], joints: Sequence[LevelJoint]) -> LevelJoint:
    """The joint of several posteriors of which one is right, by the rule of total covariance."""
    p, merged = np.array(shares) / np.sum(shares), None
    means, covs = np.array([one.mean for one in joints]), np.array([one.cov for one in joints])
    mixture = NormalMixture(p, means, covs)
    parts = [joint.parts for joint in joints if joint.parts is not None]
    if len(parts) == len(joints):
        merged = Deferred(partial(mixed_parts, parts, p, mixture.between))
    sampled = [joint.paths for joint in joints if joint.paths is not None]
    if sampled:
        return LevelJoint.of_paths(np.hstack(sampled), merged)
    return LevelJoint(mixture.mean, mixture.cov, merged, None, mixture)


def _block_parts(
    first: Mapping[str, Array], rest: Mapping[str, Array], end: int
) -> dict[str, Array]:
    """Parts of steps that are independent of the first ones; the rest's are of all steps."""
    blocks = {name: np.zeros_like(next(iter(rest.values()))) for name in {**first, **rest}}
    for name, block in blocks.items():
        block[:end, :end] = first.get(name, 0.0)
        block[end:, end:] = rest[name][end:, end:] if name in rest else 0.0
    return blocks


def _of_one(one: _Alternative, past: Past, future: Future) -> LevelJoint:
    """The joint of a single posterior."""
    _, model, method = one
    if method.propagation not in ("mixture", "monte_carlo"):
        state = state_at_origin(model, past, method, len(future.exog))
        return propagate_from(model, state, future, method)
    paths, parts = sample_paths_from(model, run_in(model, past), future, method), None
    if model.posterior.joint:
        parts = Deferred(partial(_parts_of_paths, model, past, future, method, paths))
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
        parts = Deferred(partial(parts_of_matching, maps, scales, steps, own, start_cov))
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
    parts = Deferred(linear.parts) if posterior.joint else None
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
