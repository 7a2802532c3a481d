r"""Exponential smoothing whose parameters are averaged over: a level, a trend and a season.

.. math::

    y_t = l_{t-1} + \phi b_{t-1} + s_{t-m} + e_t, \qquad
    l_t = l_{t-1} + \phi b_{t-1} + \alpha e_t, \quad
    b_t = \phi b_{t-1} + \beta e_t, \quad s_t = s_{t-m} + \gamma e_t.

Given the parameters all is linear in the unknown start u = (l_0, b_0, s_{1-m}, ..., s_0), which is
N(0, s^2 V), and in what the innovations of missing values add to the state. The parameters are a
grid of nodes, weighted by their evidence; with a season half of it is that of errors several steps
ahead.
Derivation, figures and references: docs/theory/smoothing.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import islice, product
from typing import NamedTuple

import numpy as np
from scipy.linalg import toeplitz
from scipy.special import ndtri, stdtrit

from forecast_unc._checks import SMALLEST, RandomState, generator
from forecast_unc._typing import Array, Flags, Positions
from forecast_unc.forecasting.horizon.types import LevelJoint


@dataclass(frozen=True)
class _Grid:
    """The nodes, and the prior variances over s^2. A coarser grid and other trends: 1 % of MASE."""

    alpha: tuple[float, ...] = (0.0, 0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.85, 1.0)
    # beta / alpha, phi, and the variances of b_0
    trends: tuple[tuple[float, float, tuple[float, ...]], ...] = (
        (0.0, 1.0, (1e-3, 1e-2, 1e-1, 1.0)),
        (0.1, 0.9, (1e-1,)),
        (0.3, 0.9, (1e-1,)),
        (0.2, 1.0, (1e-2,)),
    )
    seasons: tuple[float, ...] = (0.0, 0.15, 0.4)  # gamma / (1 - alpha)
    season_vars: tuple[float, ...] = (1.0, 100.0)  # of the season's start
    level_var: float = 1e4  # of l_0, measured from the first value: no more than "unknown"
    least_weight: float = 0.01  # of a node that is kept, as a share of the largest


_GRID = _Grid()
# A season of more steps is a sum of six waves that stay: weeks of a year. And steps ahead that
# count, at most. On weekly series of M4 quantile loss -1.6 % +- .4, without a season -1.2 % +- .4.
_MOST_STATES = 24
# Rows of the design that are gathered before they enter the normal equations.
_BLOCK = 64
# Below this share of the sum of squares what is left is roundoff.
_ROUNDOFF = 1e-13
# Share of errors several steps ahead in the evidence of a season (one of 1 lost 3 to 6 % of MASE on
# quarterly and monthly series of M3).
_SEVERAL = 0.5


class Nodes(NamedTuple):
    """Parameters of K nodes, (K,) each, and prior variances of the start over the innovations'."""

    alpha: Array
    beta: Array
    phi: Array
    gamma: Array
    drift_var: Array
    season_var: Array

    def take(self, at: Positions) -> Nodes:
        """Some of them."""
        return Nodes(*(each[at] for each in self))


class _State(NamedTuple):
    """State of a filter after some values: each figure linear in the C - 1 unknowns.

    Columns: a constant; level, drift, season at the start; what missing values leave unknown.
    """

    level: Array  # (K, C)
    trend: Array  # (K, C)
    season: Array  # (m, K, C), of the times t with t % m = 0, 1, ...; m = 0 for none
    gram: Array  # (K, C, C), normal equations of the innovations so far
    time: int  # values so far


@dataclass(frozen=True, eq=False)
class Smoothing:
    """Nodes with their weights and variances, learned from a series.

    A series y (n,) is NaN where missing, its first value is observed. Origins are increasing. Noise
    is that of its innovations, and of those to come, as far as they are asked for, over `variance`.
    """

    period: int  # of the season; 1 for none
    nodes: Nodes
    weights: Array  # (K,), probabilities of the nodes
    # (K,), of the innovations: sums of squares over n - 3, one value spent on the level
    variance: Array

    @classmethod
    def learn(cls, y: Array, period: int, noise: Array | None = None) -> Smoothing:
        """The nodes that the evidence of a series supports."""
        noise = _relative(noise, len(y))
        nodes, first, at = _grid(period)
        state = next(_filtered(nodes.take(first), period, y, [len(y)], noise))
        n = int(np.count_nonzero(~np.isnan(y)))
        precisions, cholesky, start, squares = _solved(state.gram[at], period, nodes)
        diagonal = np.diagonal(cholesky, axis1=1, axis2=2)
        log_weights = 0.5 * np.log(precisions).sum(axis=1) - np.log(diagonal).sum(axis=1)
        squares = squares + least_std(y) ** 2
        logs = np.log(squares)
        if period > 1:
            logs = (1.0 - _SEVERAL) * logs + _SEVERAL * _log_ahead(nodes, period, y, start, noise)
        log_weights -= 0.5 * n * logs
        weights = np.exp(log_weights - log_weights.max())
        kept = np.flatnonzero(weights > _GRID.least_weight)
        variance = squares[kept] * _variance_of_one(n)
        return cls(period, nodes.take(kept), weights[kept] / weights[kept].sum(), variance)

    def forecast(self, y: Array, steps: int, noise: Array | None = None) -> LevelJoint:
        """Joint mean and covariance of the next values after a series."""
        noise = _relative(noise, len(y) + steps)
        means, factor, psi = self._from_end(y, steps, noise)
        mean, scaled = self.weights @ means, self.weights * self.variance
        apart = means - mean
        later = noise[len(y) : len(y) + steps] ** 2
        own = scaled.sum() * np.diag(later)
        std = np.sqrt(scaled)[:, None]
        first, shared = std * psi, np.hstack(list(std[:, None] * factor))  # (h, K (C - 1))
        of_one = first.T @ first  # of an innovation of variance 1: of each the same, later
        earlier = later[0] * of_one
        if (later == later[0]).all():  # in h^2
            for step in range(1, steps):
                earlier[step, 1:] += earlier[step - 1, :-1]
        else:
            for step in range(1, steps):
                earlier[step:, step:] += later[step] * of_one[:-step, :-step]
        parts = {
            "noise": own,
            "inputs_propagated": earlier - own,
            "function_shared": shared @ shared.T,
            "hyperparameters": (apart * self.weights[:, None]).T @ apart,
        }
        return LevelJoint(mean, np.asarray(sum(parts.values())), partial(dict, parts))

    def rolling(
        self, y: Array, origins: Sequence[int], steps: int, noise: Array | None = None
    ) -> Array:
        """Means (k, h) from origins inside a series, each from the values before it."""
        each = self._ahead(y, origins, steps, _relative(noise, len(y)))
        return np.array([self.weights @ means for means, _, _ in each])

    def carried(self, columns: Array, steps: int, noise: Array) -> Array:
        """Means (h, d) of the next values after columns (n, d), by the node of the most weight."""
        n, d = columns.shape
        best = np.argsort(self.weights)[-1:]
        one = replace(self, nodes=self.nodes.take(np.repeat(best, d)))
        means, _, _ = next(one._ahead(columns, [n], steps, noise))
        return np.asarray(means.T)

    def next_values(
        self, y: Array, origins: Sequence[int], noise: Array | None = None
    ) -> tuple[Array, Array]:
        """Means and variances, (k,) each, of the next values after origins inside a series."""
        noise = _relative(noise, len(y))
        mean, var = np.empty(len(origins)), np.empty(len(origins))
        for i, (means, loadings, cholesky) in enumerate(self._ahead(y, origins, 1, noise)):
            mean[i] = self.weights @ means[:, 0]
            own = noise[origins[i]] ** 2
            known = self.variance * (own + (_factor(loadings, cholesky) ** 2).sum(axis=(1, 2)))
            var[i] = self.weights @ (known + (means[:, 0] - mean[i]) ** 2)
        return mean, var

    def sample(
        self,
        y: Array,
        steps: int,
        n_samples: int,
        random_state: RandomState,
        noise: Array | None = None,
    ) -> Array:
        """Sample paths (n_samples, h) after a series, each of one node and one start."""
        rng, noise = generator(random_state), _relative(noise, len(y) + steps)
        means, factor, psi = self._from_end(y, steps, noise)
        node = rng.choice(len(self.weights), size=n_samples, p=self.weights)
        start = rng.standard_normal((n_samples, factor.shape[2]))
        draws = rng.standard_normal((steps, n_samples)).T  # step by step, whatever their number
        draws = draws * noise[len(y) : len(y) + steps]
        paths = np.empty((n_samples, steps))
        for k in np.unique(node):
            at = node == k
            error = start[at] @ factor[k].T + draws[at] @ toeplitz(psi[k], np.zeros(steps)).T
            paths[at] = means[k] + np.sqrt(self.variance[k]) * error
        return paths

    def _from_end(self, y: Array, steps: int, noise: Array) -> tuple[Array, Array, Array]:
        """Means (K, h), factors (K, h, C - 1) of what the start adds over s^2, and psi (K, h).

        Psi are the weights of an innovation in the values 0, 1, ... steps later.
        """
        means, loadings, cholesky = next(self._ahead(y, [len(y)], steps, noise))
        nodes, later = self.nodes, np.arange(1, steps)
        sums = np.cumsum(nodes.phi[:, None] ** later, axis=1)
        psi = nodes.alpha[:, None] + nodes.beta[:, None] * sums
        if _season(self.period)[0]:
            psi = psi + nodes.gamma[:, None] * (later % self.period == 0)
        return means, _factor(loadings, cholesky), np.hstack([np.ones((len(psi), 1)), psi])

    def _ahead(
        self, y: Array, origins: Sequence[int], steps: int, noise: Array
    ) -> Iterator[tuple[Array, Array, Array]]:
        """Means (K, h), loadings (h, K, C) of the unknowns and factors of their precisions."""
        nodes, (m, q) = self.nodes, _season(self.period)
        # so many entries of the normal equations of the origins are solved at once
        most = 1 + 2**20 // (len(nodes.alpha) * (3 + m + q) ** 2)
        states = _filtered(nodes, self.period, y, origins, noise)
        while some := list(islice(states, most)):
            level, trend, season, gram = map(np.stack, list(zip(*some, strict=True))[:4])
            _, cholesky, start, _ = _solved(gram, self.period, nodes)
            levels = []
            for _ in range(steps):  # without further innovations
                trend = nodes.phi[:, None] * trend
                level = level + trend
                levels.append(level)
            loadings = np.stack(levels, axis=1)  # (k, h, K, C)
            times = np.array([[state.time] for state in some]) + np.arange(steps)
            loadings[..., 3 : 3 + q] += _waves(self.period, times)[:, :, None]
            if m:
                loadings += season[np.arange(len(some))[:, None], times % self.period]
            start = np.concatenate([np.ones((*start.shape[:2], 1)), start], axis=2)
            means = np.reshape(y[0], (-1, 1)) + np.einsum("ohkc,okc->okh", loadings, start)
            yield from zip(means, loadings, cholesky, strict=True)


def _relative(noise: Array | None, n: int) -> Array:
    """Relative stds (n,) of innovations: those given, or all 1."""
    return np.ones(n) if noise is None else noise


def _variance_of_one(n: int) -> float:
    """The variance of innovations for which n values with a sum of squares of 1 speak.

    The posterior mean, one value spent on the level. Four or fewer have hardly one: that whose
    normal 90 % band is Student's with n - 1 degrees of freedom.
    """
    if n > 4:
        return 1.0 / (n - 3)
    dof = max(n - 1, 1)
    return float((stdtrit(dof, 0.95) / ndtri(0.95)) ** 2 / dof)


@lru_cache(maxsize=8)
def _grid(period: int) -> tuple[Nodes, Positions, Positions]:
    """All nodes, the first of each with other parameters, and which of these each has."""
    seasons = _GRID.seasons if _season(period)[0] else (0.0,)
    season_vars = _GRID.season_vars if period > 1 else _GRID.season_vars[:1]
    nodes = list[tuple[float, ...]]()
    first = list[int]()
    at = list[int]()
    for alpha, (ratio, phi, drifts), share in product(_GRID.alpha, _GRID.trends, seasons):
        if (alpha > 0.0 or ratio == 0.0) and (alpha < 1.0 or share == 0.0):  # else there twice
            own = alpha, ratio * alpha, phi, share * (1.0 - alpha)
            at += [len(first)] * len(drifts) * len(season_vars)
            first.append(len(nodes))
            nodes += [(*own, *priors) for priors in product(drifts, season_vars)]
    return Nodes(*np.array(nodes).T), np.array(first), np.array(at)


def _season(period: int) -> tuple[int, int]:
    """States of a season, and cosines and sines of a long one."""
    long = period > _MOST_STATES
    return 0 if long or period == 1 else period, 12 if long else 0


def _waves(period: int, times: Positions) -> Array:
    """Cosines and sines (..., q) of a long season at times (...)."""
    angles = 2.0 * np.pi / period * times[..., None] * np.arange(1, _season(period)[1] // 2 + 1)
    return np.concatenate([np.cos(angles), np.sin(angles)], axis=-1)


def _filtered(
    nodes: Nodes, period: int, y: Array, origins: Sequence[int], noise: Array
) -> Iterator[_State]:
    """The filter at each origin; of a series y (n,), or of one for each node (n, K)."""
    K, (m, q) = len(nodes.alpha), _season(period)
    missing = np.isnan(y).reshape(len(y), -1)[:, 0]
    ends = 3 + m + q + unknowns(missing, period)  # of the columns so far
    C = int(ends[-1])
    # what an innovation is without the level and the season of a short one
    targets = np.zeros((max(origins), C))
    targets[:, 3 : 3 + q] = -_waves(period, np.arange(len(targets)))
    state, season = np.zeros((2, K, C)), np.zeros((m, K, C))
    level, trend = state
    level[:, 1] = trend[:, 2] = 1.0
    season[np.arange(m), :, 3 + np.arange(m)] = 1.0
    alpha, beta, phi, gamma = (each[:, None] for each in nodes[:4])
    gains, wanted = np.stack([alpha, beta]), set(origins)
    gram = np.zeros((K, C, C))
    rows = np.zeros((_BLOCK, K, C))
    start = 0
    for t in range(max(origins) + 1):
        if t in wanted or t - start == _BLOCK:
            block = np.moveaxis(rows[: t - start] / noise[start:t, None, None], 0, 1)
            gram, start = gram + np.swapaxes(block, 1, 2) @ block, t
            if t in wanted:
                yield _State(level.copy(), trend.copy(), season.copy(), gram, t)
        if t == max(origins):
            break
        trend *= phi
        level += trend
        innovation = rows[t - start]
        if missing[t]:
            innovation[:] = 0.0
            if m:
                innovation = np.zeros((K, C))
                innovation[:, ends[t] - 1] = noise[t]
        else:
            np.subtract(targets[t], level + season[t % m] if m else level, out=innovation)
            innovation[:, 0] += y[t] - y[0]
        state += gains * innovation
        if m:
            season[t % m] += gamma * innovation
        elif missing[t]:
            own = slice(ends[t] - 2, ends[t])
            level[:, own], trend[:, own] = _two_of_three(
                np.hstack([level[:, own], noise[t] * alpha]),
                np.hstack([trend[:, own], noise[t] * beta]),
            )


def least_std(y: Array) -> float:
    """The least std: 1e-9 of the range, or of the largest value of a constant, or of 1 for zeros.

    No other unit could be learned from a constant. Of the largest value throughout, bands of values
    of 30 moved to 1e11 were 1.8 times as wide.
    """
    size, apart = float(np.nanmax(np.abs(y))), float(np.nanmax(y) - np.nanmin(y))
    if apart > 1e-12 * size:
        return max(1e-9 * min(size, apart), 1e-14 * size)  # no less than roundoff
    return 1e-9 * (size if size > SMALLEST else 1.0)


def unknowns(missing: Flags, period: int) -> Positions:
    """Number of unknowns that missing values (n,) have added up to each time, itself included.

    With the states of a season each adds one, else a gap, however long, two.
    """
    if _season(period)[0]:
        return np.cumsum(missing)
    return 2 * np.cumsum(missing & ~np.append(False, missing[:-1]))


def _two_of_three(level: Array, trend: Array) -> tuple[Array, Array]:
    """Loadings (K, 2) of the level and the trend on two unknowns with the moments of three."""
    first = np.sqrt((level**2).sum(axis=1))
    shared = (level * trend).sum(axis=1) / np.where(first > 0.0, first, 1.0)
    own = np.sqrt(np.maximum((trend**2).sum(axis=1) - shared**2, 0.0))
    zero = np.zeros_like(first)
    return np.column_stack([first, zero]), np.column_stack([shared, own])


def _solved(gram: Array, period: int, nodes: Nodes) -> tuple[Array, Array, Array, Array]:
    """Prior precisions (K, C - 1) of the unknowns and factors of the posterior's, times s^2.

    And their means (K, C - 1) and sums of squares (K,).
    """
    precisions = np.ones((len(nodes.alpha), gram.shape[-1] - 1))
    precisions[:, 0], precisions[:, 1] = 1.0 / _GRID.level_var, 1.0 / nodes.drift_var
    precisions[:, 2 : 2 + sum(_season(period))] = 1.0 / nodes.season_var[:, None]
    A = gram[..., 1:, 1:] + precisions[:, None, :] * np.eye(precisions.shape[1])
    cholesky = np.asarray(np.linalg.cholesky(A))
    half = np.linalg.solve(cholesky, -gram[..., 1:, :1])
    mean = np.linalg.solve(np.swapaxes(cholesky, -2, -1), half)[..., 0]
    least = _ROUNDOFF * gram[..., 0, 0] + np.finfo(np.float64).tiny
    squares = np.maximum(gram[..., 0, 0] - (half[..., 0] ** 2).sum(axis=-1), least)
    return precisions, cholesky, mean, squares


def _log_ahead(nodes: Nodes, period: int, y: Array, start: Array, noise: Array) -> Array:
    r"""Mean :math:`\tfrac1m \sum_{j=1}^m \log S_j`, (K,), of errors j steps ahead; 24 at most."""
    logs, least = [], _ROUNDOFF * np.nanmean((y - y[0]) ** 2) + np.finfo(np.float64).tiny
    steps = min(period, _MOST_STATES, len(y) - 1)
    for j, errors in enumerate(islice(_errors_ahead(nodes, period, y, start), steps)):
        relative = errors / noise[j : len(y), None]
        logs.append(np.log(np.nanmean(relative**2, axis=0) + least))
    return np.asarray(np.mean(logs, axis=0))


def _errors_ahead(nodes: Nodes, period: int, y: Array, start: Array) -> Iterator[Array]:
    """Errors (n - j, K) of the values from y_j on, j = 0, 1, ... steps after the next one."""
    K = len(nodes.alpha)
    n = len(y)
    values = y - y[0]
    m, q = _season(period)
    level = start[:, 0]
    trend = start[:, 1]
    season = start[:, 2 : 2 + m].T.copy()
    levels, trends = np.empty((n, K)), np.empty((n, K))
    seasons = _waves(period, np.arange(n)) @ start[:, 2 : 2 + q].T
    for t in range(n):
        levels[t], trends[t] = level, trend
        if m:
            seasons[t] = season[t % m]
        trend = nodes.phi * trend
        level = level + trend
        innovation = values[t] - level - seasons[t]
        if not np.isnan(values[t]):
            level = level + nodes.alpha * innovation
            trend = trend + nodes.beta * innovation
            if m:
                season[t % m] += nodes.gamma * innovation
    damping = np.zeros(K)
    for j in range(n):
        damping = damping + nodes.phi ** (j + 1)
        yield values[j:, None] - levels[: n - j] - trends[: n - j] * damping - seasons[j:]


def _factor(loadings: Array, cholesky: Array) -> Array:
    """Factor of the variance that the error of the start adds, over s^2, (K, h, C - 1)."""
    rows = np.moveaxis(loadings[:, :, 1:], 0, 2)  # (K, C - 1, h)
    return np.moveaxis(np.asarray(np.linalg.solve(cholesky, rows)), 1, 2)
