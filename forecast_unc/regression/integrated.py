"""Nodes in the place of the posterior of log hyper-parameters: theory/hyperparameters.md."""

from collections.abc import Callable, Sequence

import numpy as np
from scipy.linalg.lapack import dtrtrs
from scipy.special import logsumexp, ndtri

from forecast_unc._typing import Array, Positions

# Points of the normal at the mode, of one nine times as wide in variances, of each that follows.
# Means over 10 steps lay up to .03 stds from those of a long Markov chain (five series of 45
# values), without the rounds .10, with nodes along the axes of the curvature at the mode .18.
_POINTS = (64, 128, 128, 128, 128, 128)


def design(
    x: Array, w: Array, predict: Callable[[Array], tuple[Array, Array]], mode: Array
) -> tuple[Array, Array]:
    """At most 10 nodes (k, q) in the place of weighted points, and weights, by their effect."""
    # means and variances (m,), in units of those at the mode
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
    return np.array(nodes), np.array(p)


def weighted_points(
    value: Callable[[Array], float],  # -log(evidence prior), maybe infinite
    gradient: Callable[[Array], Array],
    mode: Array,  # its minimum within the bounds
    log_std: Array,  # (q,), of the prior
    bounds: Array,  # (q, 2)
) -> tuple[Array, Array]:
    """Points (n, q), and weights (n,), in the place of a posterior of log hyper-parameters."""
    hessian = curvature(gradient, mode, bounds)
    values, vectors = np.linalg.eigh(log_std[:, None] * hessian * log_std)
    axes, narrow = log_std[:, None] * vectors, 1.0 / np.maximum(values, 1.0)
    (low, high), q = bounds.T, len(mode)
    x, log_density = np.zeros((0, q)), np.zeros(0)
    proposals: list[tuple[Array, Array, int]] = []
    for i, n in enumerate(_POINTS):
        mean, root = mode, axes * np.sqrt(narrow if i == 0 else np.minimum(9.0 * narrow, 1.0))
        if i > 1:
            w = _weights(x, log_density, proposals)
            mean = w @ x
            # a tenth of the variances at the mode is added, for all directions; and wider stds
            cov = ((x - mean).T * w) @ (x - mean) + 0.1 * (axes * narrow) @ axes.T
            root = 1.3 * np.linalg.cholesky(cov)
        new = mean + kronecker_normals(len(x), n, q) @ root.T
        inside = ((new >= low) & (new <= high)).all(axis=1)
        density = [-value(one) if ok else -np.inf for one, ok in zip(new, inside, strict=True)]
        x, log_density = np.vstack([x, new]), np.append(log_density, density)
        # a factor with the same product whose inverse is a triangular solve
        proposals.append((mean, np.asarray(np.linalg.qr(root.T, mode="r")).T, n))
    w = _weights(x, log_density, proposals)
    heaviest = np.argsort(-w, kind="stable")
    # the effect of the last .005 of the weight is not looked at
    kept = heaviest[: int(np.searchsorted(np.cumsum(w[heaviest]), 0.995)) + 1]
    return x[kept], w[kept] / w[kept].sum()


def _weights(x: Array, log_density: Array, proposals: Sequence[tuple[Array, Array, int]]) -> Array:
    """Weights (n,), which add up to 1, of points of several normals, of means and roots."""
    terms = []
    for mean, triangle, n in proposals:
        scores, _ = dtrtrs(triangle, (x - mean).T, lower=1)
        log_det = np.log(np.abs(np.diagonal(triangle))).sum()
        terms.append(np.log(n) - 0.5 * (scores**2).sum(axis=0) - log_det)
    log_w = log_density - logsumexp(terms, axis=0)
    return np.asarray(np.exp(log_w - logsumexp(log_w)))


def curvature(gradient: Callable[[Array], Array], mode: Array, bounds: Array) -> Array:
    """Hessian (q, q) by differences of a gradient, one-sided where a bound is in the way."""
    rows = []
    for i in range(len(mode)):
        ends = np.tile(mode, (2, 1))
        ends[:, i] = np.clip(mode[i] + np.array([-0.025, 0.025]), *bounds[i])
        low, high = map(gradient, ends)
        rows.append((high - low) / (ends[1, i] - ends[0, i]))
    return np.asarray(0.5 * (np.array(rows) + np.array(rows).T))


def kronecker_normals(start: int, n: int, q: int) -> Array:
    """Normal quantiles (n, q) of a Kronecker sequence: steps x^-1 ... x^-q, x^(q + 1) = x + 1."""
    ratio = 2.0
    for _ in range(60):
        ratio = (1.0 + ratio) ** (1.0 / (q + 1.0))
    steps = ratio ** -np.arange(1.0, q + 1.0)
    return np.asarray(ndtri((0.5 + np.outer(np.arange(start, start + n) + 1.0, steps)) % 1.0))


def _cells(effects: Array, w: Array) -> list[Positions]:
    """Points of each of the cells, of like effects (n, m)."""
    cells = [np.arange(len(w))]
    spreads = [_principal(effects, w, cells[0])]
    while len(cells) < 10:
        widest = int(np.argmax([size for size, _ in spreads]))
        size, along = spreads[widest]
        if not size > 1e-16:  # all of one effect
            break
        cell, _ = cells.pop(widest), spreads.pop(widest)
        for part in (cell[along <= 0.0], cell[along > 0.0]):
            cells.append(part)
            spreads.append(_principal(effects, w, part))
    for _ in range(30):  # of k-means, at most
        centers = np.array([w[cell] @ effects[cell] / w[cell].sum() for cell in cells])
        nearest = ((effects[:, None] - centers) ** 2).sum(axis=2).argmin(axis=1)
        moved = [np.flatnonzero(nearest == k) for k in range(len(centers))]
        moved = [cell for cell in moved if len(cell)]
        if len(moved) == len(cells) and all(map(np.array_equal, moved, cells)):
            break
        cells = moved
    return cells


def _principal(effects: Array, w: Array, cell: Positions) -> tuple[float, Array]:
    """Weighted variance of a cell along its principal direction, and its points along it."""
    own = w[cell]
    away = effects[cell] - own @ effects[cell] / own.sum()
    _, sizes, rows = np.linalg.svd(np.sqrt(own)[:, None] * away, full_matrices=False)
    along = away @ rows[0]
    # the sign of a singular vector differs by platform; that of the heaviest point does not
    return float(sizes[0] ** 2) if len(cell) > 1 else 0.0, along * np.sign(along[own.argmax()])
