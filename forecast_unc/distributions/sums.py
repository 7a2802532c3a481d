"""Linear combinations and extremes of steps: theory/transforms.md."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from scipy.special import ndtr, ndtri
from scipy.stats import qmc, rankdata

from forecast_unc._checks import frozen
from forecast_unc._typing import Array, Flags
from forecast_unc.distributions import marginals
from forecast_unc.distributions.joint import Joint, onto_moments, score_correlations
from forecast_unc.distributions.marginals import REACH, Affine, Map, Polyline, Sums
from forecast_unc.distributions.power import PowerTransform
from forecast_unc.distributions.variance_parts import mapped
from forecast_unc.regression.kernels import lower_root

_NEAR = 1.4  # nodes resolve scores of a quarter of the std; other tables beyond

Moments = Callable[[Array, Array], tuple[Array, Array, Array]]


def linear(joint: Joint, matrix: Array) -> Joint:
    """The joint of ``matrix @ y``, matrix (g, h) with each step in one group at most."""
    q, negative = joint.q, bool((matrix < 0).any())
    mean, cov, carried = matrix @ joint.mean, mapped(matrix, joint.cov), joint.carried(matrix)
    # as those of paths, where a bound has a probability from 1 % on
    often = q.grid is not None or (np.maximum(q.start, -q.end) > -2.33).any()
    if often and (np.count_nonzero(matrix, axis=1) > 1).any():
        return _sums_of_paths(joint, matrix)
    if q.normal or negative:
        own = Joint.normal(mean, cov, PowerTransform())
        return replace(own, **carried)
    if (np.count_nonzero(matrix, axis=1) == 1).all():
        at = matrix.argmax(axis=1)
        own = Joint.of(q[at].affine(matrix.max(axis=1), 0.0), joint.cor[np.ix_(at, at)])
    elif (summed := q.each(marginals.plain)).normal:
        own = Joint.normal(mean, cov, PowerTransform())
    else:
        at = np.flatnonzero(matrix.any(axis=0))
        group = matrix[:, at].argmax(axis=0)
        sums = Sums(summed[at], group, matrix[group, at])
        # the scores a + c z with which the sums have their mean and std
        std, a, c = np.sqrt(cov.diagonal()), np.zeros(len(mean)), np.ones(len(mean))
        for _ in range(8):
            a, c, near = _solved(a, c, _moments_near(a, c, sums, mean, std))
            if near.all():
                break
        shape = Map.of(Affine(a, c), sums)
        shape = shape.censored(*_bounds(q, matrix))
        own = Joint(shape, np.ones((1, 1)), mean, cov)
        if len(matrix) > 1:
            own = Joint.of(shape, score_correlations(shape, cov))
    return replace(own, **carried)


def _bounds(q: Map, matrix: Array) -> tuple[Array, Array]:
    def end(of_negative: Array, of_positive: Array) -> Array:
        with np.errstate(invalid="ignore"):  # 0 times inf
            each = matrix * np.where(matrix < 0.0, of_negative, of_positive)
        return np.asarray(np.where(matrix == 0.0, 0.0, each).sum(axis=1))

    return end(q.upper, q.lower), end(q.lower, q.upper)


def _moments_near(center: Array, spread: Array, sums: Sums, mean: Array, std: Array) -> Moments:
    """Mean and variance of sums at scores N(a, c^2) and their slopes in a and log c, (2, g)."""
    nodes, weights = Map.of(Affine(center, spread), sums).panels()
    z = center[:, None] + spread[:, None] * nodes
    values = (sums(z) - mean[:, None]) / std[:, None]
    table = spread[:, None] * weights * np.array([values, values**2])

    def moments(a: Array, log_c: Array) -> tuple[Array, Array, Array]:
        c = np.exp(log_c)[:, None]
        u = (z - a[:, None]) / c
        both = marginals.normal_density(u) / c * table
        first, in_a = both.sum(axis=2), (both * u / c).sum(axis=2)
        in_c = (both * (u**2 - 1.0)).sum(axis=2)
        for slopes in (in_a, in_c):
            slopes[1] -= 2.0 * first[0] * slopes[0]
        first[1] -= first[0] ** 2
        return first, in_a, in_c

    return moments


def _solved(center: Array, spread: Array, moments: Moments) -> tuple[Array, Array, Flags]:
    """The a and c that give a mean of 0 and a variance of 1, and whether they are near enough."""

    def centered(log_c: Array) -> Array:
        def excess(a: Array) -> tuple[Array, Array]:
            at, in_a, _ = moments(a, log_c)
            return at[0], in_a[0]

        return marginals.newton(excess, center - REACH * spread, center + REACH * spread)

    def too_wide(log_c: Array) -> tuple[Array, Array]:
        at, in_a, in_c = moments(centered(log_c), log_c)
        slope = in_c[1] - in_a[1] * in_c[0] / in_a[0]
        return np.log(at[1]), slope / at[1]

    before = np.log(spread)
    log_c = marginals.newton(too_wide, before - _NEAR, before + _NEAR)
    a = centered(log_c)
    near = np.abs(a - center) < 3.0 * spread
    return a, np.exp(log_c), near & (np.abs(log_c - before) < 0.99 * _NEAR)


def extreme(joint: Joint, groups: Flags, largest: bool) -> Joint:
    """The joint of the largest or smallest step of each group (g, h), by the quantiles of paths."""
    paths, pick = _paths(joint), np.max if largest else np.min
    q = joint.q
    values, lower, upper = (
        np.array([pick(of[steps], axis=0) for steps in groups]) for of in (paths, q.lower, q.upper)
    )
    grid = None if q.grid is None else q.grid[:, groups.argmax(axis=1)]
    return _by_paths(values, lower, upper, grid)


def _sums_of_paths(joint: Joint, matrix: Array) -> Joint:
    """The joint of ``matrix @ y``, by the quantiles of paths."""
    grid = None
    if joint.q.grid is not None:
        origin, unit = joint.q.grid
        step = np.abs(matrix * unit)
        common = np.min(step, axis=1, where=step > 0.0, initial=np.inf)
        if (np.isclose(step, common[:, None]) | (step == 0.0)).all():
            grid = np.array([matrix @ origin, common])
    shape = _by_paths(matrix @ _paths(joint), *_bounds(joint.q, matrix), grid)
    mean, cov, q = matrix @ joint.mean, mapped(matrix, joint.cov), shape.q
    low, high = np.isfinite([q.lower, q.upper])
    if joint.q.grid is None and (low.all() != high.all()) and not (low & high).any():
        factor, shift = onto_moments(q, mean, cov.diagonal())
        q = replace(q.affine(factor, shift), low=q.low, high=q.high)
    return replace(shape, q=q, mean=mean, cov=cov, **joint.carried(matrix))


def _paths(joint: Joint) -> Array:
    """Paths (h, n) of the model, or others spread evenly over the joint, the same every time."""
    if joint.paths is not None:
        return joint.paths
    joint.eigen()
    # 2^16 of up to 128 steps, of more as many as fit into 64 MB: with 2^14 probabilities of the
    # largest of 24 steps were off by up to .006.
    log_n = min(16, int(23 - np.log2(len(joint))))
    scores = joint.q.side * lower_root(joint.cor) @ ndtri(sobol_points(len(joint), log_n))
    # lines: the quantiles of an average with heavy tails take 2 s at 24 times 65,536 scores
    grid = np.linspace(scores.min(), scores.max(), 4001)
    values = np.broadcast_to(joint.q.latent(grid[None]), (len(joint), len(grid)))
    each = [np.interp(z, grid, row) for z, row in zip(scores, values, strict=True)]
    return joint.q.ended(np.array(each))


def _by_paths(values: Array, lower: Array, upper: Array, grid: Array | None) -> Joint:
    """The joint with quantiles, correlations and moments of values (g, n) in bounds (g,)."""
    n = values.shape[1]
    paths = values
    if grid is not None:  # those of one value lie evenly between those before and after it
        order, first, last = (rankdata(values, m, axis=1) for m in ("ordinal", "min", "max"))
        within = (order - first + 0.5) / (last - first + 1.0) - 0.5
        values = values + grid[1][:, None] * within
    # Quantiles .1 apart in the normal score, up to where ten paths lie beyond; closer ones would
    # show the noise of the paths in the density.
    end = -ndtri(min(10.0 / n, 0.25))
    half = np.linspace(0.0, end, 1 + int(np.ceil(end / 0.1)))
    nodes = np.concatenate([-half[:0:-1], half])
    quantiles = np.quantile(values, ndtr(nodes), axis=1).T  # (g, k)
    if grid is None:  # else off by up to .04 between nodes
        for row, path, low, high in zip(quantiles, values, lower, upper, strict=True):
            _continue_below(row, nodes, path, low)
            mirrored = -row[::-1]
            _continue_below(mirrored, nodes, -path, -high)
            row[:] = -mirrored[::-1]
    center, spread = quantiles[:, len(half) - 1], values.std(axis=1)
    unit = np.where(spread > 0.0, spread, 1.0)
    shape = Polyline(nodes, (quantiles - center[:, None]) / unit[:, None])
    scores = ndtri((rankdata(values, axis=1) - 0.5) / n)
    cor = np.atleast_2d(np.corrcoef(scores)) if (spread > 0.0).all() else np.eye(len(values))
    np.fill_diagonal(cor, 1.0)
    q = replace(Map.of(shape, Affine(center, unit)).censored(lower, upper), grid=grid)
    moments = paths.mean(axis=1), np.atleast_2d(np.cov(paths))
    return Joint(q, cor, *moments, paths=frozen("paths", paths, paths.shape))


def sobol_points(h: int, log_n: int) -> Array:
    """Points (h, 2^log_n) of the unit cube, the same every time, none of them on its surface."""
    sequence = qmc.Sobol(h, seed=np.random.default_rng(0))  # scipy < 1.15 has no `rng`
    points = sequence.random_base2(log_n).T
    return np.ascontiguousarray(np.clip(points, 2.0**-53, 1.0 - 2.0**-53))


def _continue_below(values: Array, nodes: Array, path: Array, bound: float) -> None:
    """Continue quantiles (k,) below a bound, in place, by a line that leaves it where paths do."""
    at_bound = np.mean(path <= bound)
    if not 0.0 < at_bound < 1.0:
        return
    start = ndtri(at_bound)
    above = np.append(nodes, -ndtri(0.5 / len(path))), np.append(values, path.max())
    first = int(((above[0] > start) & (above[1] > bound)).argmax())
    slope = (above[1][first] - bound) / (above[0][first] - start)
    below = np.arange(len(nodes)) < first
    values[below] = bound + slope * (nodes[below] - start)
