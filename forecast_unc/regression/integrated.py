"""Nodes and weights in the place of the posterior of log hyper-parameters.

By adaptive multiple importance sampling (Cornuet, Marin, Mira & Robert, Scand. J. Statist. 39
(2012) 798-812), of whose points cells of like effect become nodes: theory/hyperparameters.md.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dtrtrs
from scipy.special import logsumexp, ndtri

from forecast_unc._typing import Array

# Log hyper-parameters move by so much for the differences.
_STEP = 0.025
# Points of the normal at the mode, of the wide one there, and of each of the ones that follow. Of
# five series of 45 values, one with a mode that is not typical: means of forecasts over 10 steps
# lay up to .03 stds from those of a long Markov chain. Without the rounds it was .10 of a std, and
# with nodes along the axes of the curvature at the mode .18.
_POINTS, _WIDE_POINTS, _ROUNDS, _ROUND_POINTS = 64, 128, 4, 128
_WIDE = 9.0  # of variances
# Stds of the normals that follow are so much wider than those of the points; of the variances at
# the mode so much is added, for their directions to be complete.
_WIDER, _ADDED = 1.3, 0.1
NODES = 10
# Points that hold this share of the weight are kept; the others' effect is not looked at.
_SHARE = 0.995
_K_MEANS = 30  # iterations, at most
_SAME = 1e-16  # weighted variance of the effects of a cell that needs no cut


class Design(NamedTuple):
    """Nodes of the log hyper-parameters, and their weights, which are positive and add up to 1."""

    nodes: Array  # (k, q)
    p: Array  # (k,)


def design(
    value: Callable[[Array], float],
    gradient: Callable[[Array], Array],
    predict: Callable[[Array], tuple[Array, Array]],
    mode: Array,
    log_std: Array,
    bounds: Array,
) -> Design:
    """At most 10 nodes and weights that stand for a posterior in its effect on predictions.

    `value` is -log(evidence prior) at log hyper-parameters (q,), maybe infinite, with its minimum
    within the bounds (q, 2) at `mode`, log_std (q,) the stds of the prior, and `predict` gives
    means and variances (m,), whose effect is counted in units of those at the mode.
    """
    x, w = weighted_points(value, gradient, mode, log_std, bounds)
    (center, var), found = predict(mode), [predict(one) for one in x]
    means = np.array([(mean - center) / np.sqrt(var) for mean, _ in found])
    variances = np.array([other / var for _, other in found])
    nodes, p = [], []
    for cell in _cells(np.hstack([means, variances]), w):
        own = w[cell] / w[cell].sum()
        mean = own @ means[cell]
        spread = own @ (variances[cell] + (means[cell] - mean) ** 2)
        away = ((means[cell] - mean) ** 2).sum(axis=1)
        away += ((variances[cell] - spread) ** 2).sum(axis=1)
        nodes.append(x[cell[int(away.argmin())]])
        p.append(w[cell].sum())
    return Design(np.array(nodes), np.array(p))


def weighted_points(
    value: Callable[[Array], float],
    gradient: Callable[[Array], Array],
    mode: Array,
    log_std: Array,
    bounds: Array,
) -> tuple[Array, Array]:
    """Points (n, q) in the place of a posterior, and weights (n,); as for `design`."""
    hessian = curvature(gradient, mode, bounds)
    values, vectors = np.linalg.eigh(log_std[:, None] * hessian * log_std)
    axes, narrow = log_std[:, None] * vectors, 1.0 / np.maximum(values, 1.0)
    points = _Points(value, bounds)
    points.add(mode, axes * np.sqrt(narrow), _POINTS)
    points.add(mode, axes * np.sqrt(np.minimum(_WIDE * narrow, 1.0)), _WIDE_POINTS)
    for _ in range(_ROUNDS):
        w = points.weights()
        mean = w @ points.x
        away = points.x - mean
        cov = (away.T * w) @ away + _ADDED * (axes * narrow) @ axes.T
        points.add(mean, _WIDER * np.linalg.cholesky(cov), _ROUND_POINTS)
    w = points.weights()
    heaviest = np.argsort(-w, kind="stable")
    kept = heaviest[: int(np.searchsorted(np.cumsum(w[heaviest]), _SHARE)) + 1]
    return points.x[kept], w[kept] / w[kept].sum()


def curvature(gradient: Callable[[Array], Array], mode: Array, bounds: Array) -> Array:
    """Hessian (q, q) by differences of a gradient, one-sided where a bound is in the way."""
    rows = []
    for i in range(len(mode)):
        ends = np.tile(mode, (2, 1))
        ends[:, i] = np.clip(mode[i] + np.array([-_STEP, _STEP]), *bounds[i])
        low, high = map(gradient, ends)
        rows.append((high - low) / (ends[1, i] - ends[0, i]))
    return np.asarray(0.5 * (np.array(rows) + np.array(rows).T))


class _Points:
    """Points of several normals, weighted for exp(-value) within the bounds (q, 2)."""

    def __init__(self, value: Callable[[Array], float], bounds: Array) -> None:
        self._value, self._bounds = value, bounds
        self._proposals: list[tuple[Array, Array, int]] = []
        self._log_density = np.zeros(0)
        self.x = np.zeros((0, len(bounds)))

    def add(self, mean: Array, root: Array, n: int) -> None:
        """Enter n points of N(mean, root root')."""
        new = mean + kronecker_normals(len(self.x), n, len(mean)) @ root.T
        low, high = self._bounds.T
        inside = ((new >= low) & (new <= high)).all(axis=1)
        density = [-self._value(x) if ok else -np.inf for x, ok in zip(new, inside, strict=True)]
        self.x = np.vstack([self.x, new])
        self._log_density = np.append(self._log_density, density)
        # a factor with the same product whose inverse is a triangular solve
        triangle = np.asarray(np.linalg.qr(root.T, mode="r")).T
        self._proposals.append((mean, triangle, n))

    def weights(self) -> Array:
        """Weights of the points, (n,), which add up to 1."""
        terms = []
        for mean, triangle, n in self._proposals:
            scores, _ = dtrtrs(triangle, (self.x - mean).T, lower=1)
            log_det = np.log(np.abs(np.diagonal(triangle))).sum()
            terms.append(np.log(n) - 0.5 * (scores**2).sum(axis=0) - log_det)
        log_w = self._log_density - logsumexp(terms, axis=0)
        return np.asarray(np.exp(log_w - logsumexp(log_w)))


def kronecker_normals(start: int, n: int, q: int) -> Array:
    """Normal quantiles (n, q) of a Kronecker sequence: steps x^-1 ... x^-q, x^(q + 1) = x + 1."""
    ratio = 2.0
    for _ in range(60):
        ratio = (1.0 + ratio) ** (1.0 / (q + 1.0))
    steps = ratio ** -np.arange(1.0, q + 1.0)
    return np.asarray(ndtri((0.5 + np.outer(np.arange(start, start + n) + 1.0, steps)) % 1.0))


def _cells(effects: Array, w: Array) -> list[NDArray[np.intp]]:
    """Points of each of the cells, of like effects (n, m)."""
    cells = [np.arange(len(w))]
    spreads = [_principal(effects, w, cells[0])]
    while len(cells) < NODES:
        widest = int(np.argmax([size for size, _ in spreads]))
        size, along = spreads[widest]
        if not size > _SAME:
            break
        cell = cells.pop(widest)
        del spreads[widest]
        for part in (cell[along <= 0.0], cell[along > 0.0]):
            cells.append(part)
            spreads.append(_principal(effects, w, part))
    for _ in range(_K_MEANS):
        centers = np.array([w[cell] @ effects[cell] / w[cell].sum() for cell in cells])
        squares = ((effects[:, None] - centers) ** 2).sum(axis=2)
        nearest = squares.argmin(axis=1)
        moved = [np.flatnonzero(nearest == k) for k in range(len(centers))]
        moved = [cell for cell in moved if len(cell)]
        if len(moved) == len(cells) and all(map(np.array_equal, moved, cells)):
            break
        cells = moved
    return cells


def _principal(effects: Array, w: Array, cell: NDArray[np.intp]) -> tuple[float, Array]:
    """Weighted variance of a cell along its principal direction, and its points along it."""
    own = w[cell]
    away = effects[cell] - own @ effects[cell] / own.sum()
    _, sizes, rows = np.linalg.svd(np.sqrt(own)[:, None] * away, full_matrices=False)
    along = away @ rows[0]
    # the sign of a singular vector differs by platform; that of the heaviest point does not
    return float(sizes[0] ** 2) if len(cell) > 1 else 0.0, along * np.sign(along[own.argmax()])
