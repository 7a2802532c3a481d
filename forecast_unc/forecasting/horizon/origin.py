"""The state at the origin: what is known of the last levels where some are missing or noisy."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import groupby
from typing import NamedTuple

import numpy as np

from forecast_unc._typing import Array, Flags, Positions
from forecast_unc.forecasting.horizon.function_error import FunctionError
from forecast_unc.forecasting.horizon.step import MomentMatching, Trajectory, at_step
from forecast_unc.forecasting.horizon.types import Given, Method, OneStepModel, Past
from forecast_unc.regression.kernels import symmetric

# A complete window is looked for so many steps back; each step costs the moments of one.
_FARTHEST = 1000
# Without one: two windows, and so many observed values, before the origin. After 100 values the
# effect of the start is below 1e-9 (four of ten values missing), after one it is 1e-5.
_RUN_IN_VALUES = 100


class State(NamedTuple):
    """Distribution of the last p levels."""

    mean: Array  # (p,)
    cov: Array  # (p, p), in units of scale^2; zero if all are known
    function: FunctionError | None  # at the steps on the way, if shared; a forecast goes on with it
    limit: float  # of a change, see `OneStepModel.limit`


class RunIn(NamedTuple):
    """Start of the recursion before the origin, and the knowledge there and on the way."""

    past: Past
    now: int  # the time of its first step; n if the last p levels are known
    mean: Array  # (p,), of the levels before
    cov: Array  # (p, p), in units of scale^2
    observed: Flags  # (n,)
    noise_var: Array  # (n,), of the observations, in units of scale^2
    known: Flags  # (n,), from `now` on: the level and those it depends on are exact
    learned: Flags  # (n,), from `now` on: the posterior has learned from that row

    def passed_over(self, one_function: bool) -> Flags:
        """Whether values tell nothing of others: of known inputs, and of a function not new."""
        return self.known & self.learned if one_function else self.known


def run_in(model: OneStepModel, past: Past, first: int | None = None) -> RunIn:
    """Start of the recursion at a time, or far enough back to know inexact values from others.

    What is not known there has the series' mean and variance, at least that of its changes.
    """
    y = past.levels
    p = model.maps.depth
    n = len(past.levels)
    scale = model.differencing.scale
    observed = ~np.isnan(y)
    noise_var = np.where(observed, past.stds, 0.0) / scale
    noise_var = noise_var**2 + model.posterior.observation_var
    known = observed & (noise_var == 0.0)
    learned = observed & past.learned
    now = first
    if now is None:
        now = n if known[n - p :].all() else _start(known, observed, p)
    window = slice(now - p, now)
    usual = y if first is None else y[: max(first, _RUN_IN_VALUES)]
    usual = usual[~np.isnan(usual)]
    prior = max(usual.var() / scale**2, 1.0)
    gain = np.where(observed[window], prior / (prior + noise_var[window]), 0.0)
    center = usual.mean()
    mean = center + gain * (np.where(observed[window], y[window], center) - center)
    var = np.where(observed[window], gain * noise_var[window], prior)
    mean[known[window]] = y[window][known[window]]
    rows = np.arange(now, n)[:, None] - model.maps.touched
    learned[now:], known[now:] = learned[rows].all(axis=1), known[rows].all(axis=1)
    return RunIn(past, now, mean, np.diag(var), observed, noise_var, known, learned)


def state_at_origin(model: OneStepModel, past: Past, method: Method, steps: int = 0) -> State:
    """Gaussian distribution of the last p levels given all y_t = level_t + e_t; room for `steps`.

    The next level joins the last p at each step, and is conditioned on if it was observed.
    """
    n = len(past.levels)
    passed = _filtered(model, run_in(model, past), method, steps, np.empty((2, n)), [n])
    return next(passed)[1]


def states_before(
    model: OneStepModel, past: Past, method: Method, at: Positions
) -> Iterator[tuple[int, State]]:
    """States before sorted times, those after one complete window in one pass; none once diverged.

    Each with room for a step.
    """

    def window(t: int) -> int:
        start = run_in(model, past.before(t))
        return -t if start.cov.any() else start.now

    for _, group in groupby(at.tolist(), window):
        times = list(group)
        start = run_in(model, past.before(times[-1]))
        predicted = np.empty((2, times[-1]))
        with suppress(ValueError):  # it diverges on the way
            for t, state in _filtered(model, start, method, 1, predicted, times):
                function = state.function
                yield t, state._replace(function=None if function is None else function.copy())


def without_window(model: OneStepModel, past: Past, at: Positions) -> Flags:
    """Whether no complete window is near before each time, at which a pass could begin."""
    return np.array([run_in(model, past.before(int(t))).cov.any() for t in at], dtype=np.bool_)


def next_values(model: OneStepModel, past: Past, method: Method, at: Positions) -> Array:
    """Mean and variance (2, m) of observations at sorted times from those before; NaN where none.

    In a single pass, for which the function's errors at its steps are independent.
    """
    before = past.before(int(at[-1]) + 1)
    start = run_in(model, before, max(model.maps.depth, int(at[0]) - _RUN_IN_VALUES))
    predicted = np.full((2, len(before.levels)), np.nan)
    with suppress(ValueError):  # it diverges on the way
        n, apart = len(before.levels), method._replace(path_consistent=False)
        next(_filtered(model, start, apart, 0, predicted, [n]))
    predicted[1] += model.posterior.observation_var
    predicted[1] *= model.differencing.scale**2
    return predicted[:, at]


def _filtered(
    model: OneStepModel,
    start: RunIn,
    method: Method,
    steps: int,
    predicted: Array,
    stops: Sequence[int],
) -> Iterator[tuple[int, State]]:
    """States before some times of a pass; `predicted`: mean and variance (2, n) on the way."""
    past = start.past
    p = model.maps.depth
    n = len(past.levels)
    limit, scale = model.limit(past.levels), model.differencing.scale
    function = None
    if method.path_consistent and model.posterior.joint:
        function = FunctionError(model.posterior, p, n - start.now + steps)
    matching = MomentMatching(model, method, limit, function)
    trajectory = Trajectory(model, start.mean, n - start.now)
    lagged, levels = p - model.maps.lagged, np.arange(p)
    cov = np.zeros((p + 1, p + 1))  # of the last p levels and the next
    cov[:p, :p] = start.cov
    noise_var = model.noise_var(past.noise, n)
    passed, t = start.passed_over(function is not None), start.now
    left = iter(stops)
    stop = next(left)
    while True:
        if t == stop:
            yield t, State(trajectory.levels[-p:].copy(), cov[:p, :p].copy(), function, limit)
            stop = next(left, -1)
        if stop < 0:
            return
        if passed[t]:  # with those after it, since moving the covariance is most of the time
            few = passed[t : min(t + p, stop)]
            k = len(few) if few.all() else int(few.argmin())
            for _ in range(k):
                trajectory.append(0.0)
                if function is not None:
                    function.skip_step()
            trajectory.revise(past.levels[t : t + k])
            cov[: p - k, : p - k] = cov[k:p, k:p].copy()
            cov[p - k :] = cov[:, p - k :] = 0.0
            t += k
            continue
        x = trajectory.inputs(past.exog[t])
        with at_step(0, f"on its way to the origin, {n - t} steps before the first forecast"):
            learned = bool(start.learned[t])
            given = Given(x, lagged, float(noise_var[t]))
            step = matching.step(cov, p, given, levels, learned)
            trajectory.append(step.mean)
        predicted[:, t] = trajectory.levels[-1], cov[p, p]
        if start.observed[t] and cov[p, p] > 0.0:
            mean = trajectory.levels[-p - 1 :].copy()
            innovation = past.levels[t] - mean[-1]
            if function is not None:
                function.observe(cov[p], cov[p, p] + start.noise_var[t], innovation / scale)
            _observe(mean, cov, innovation, start.noise_var[t])
            trajectory.revise(mean[1:])
        cov[:p, :p] = cov[1:, 1:].copy()
        t += 1


def _start(known: Flags, observed: Flags, p: int) -> int:
    """The time at which the recursion starts, its state the p levels before."""
    n = len(known)
    ends = np.flatnonzero(np.convolve(known, np.ones(p), "valid") > p - 0.5) + p
    if len(ends) and n - ends[-1] <= _FARTHEST:
        return int(ends[-1])
    seen = np.flatnonzero(observed)
    last = seen[-_RUN_IN_VALUES] if len(seen) >= _RUN_IN_VALUES else 0
    return int(max(p, min(last, n - 2 * p)))


def _observe(mean: Array, cov: Array, innovation: float, noise_var: float) -> None:
    """Condition in place on an observation of the last coordinate: J -= g g' / v."""
    before = np.diagonal(cov).copy()
    g = cov[:, -1].copy()
    v = g[-1] + noise_var
    value = mean[-1] + innovation
    mean += g * (innovation / v)
    cov -= np.multiply.outer(g, g / v)
    cov[:] = symmetric(cov)
    known = np.diagonal(cov) <= 1e-14 * before  # roundoff
    if noise_var == 0.0:
        mean[-1], known[-1] = value, True
    cov[known] = 0.0
    cov[:, known] = 0.0
