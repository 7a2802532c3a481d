"""Linear combinations and extremes of steps, and differences: theory/transforms.md."""

from dataclasses import replace

import numpy as np
from scipy.interpolate import PchipInterpolator
from scipy.special import ndtr, ndtri
from scipy.stats import qmc, rankdata

from forecast_unc._checks import frozen
from forecast_unc._typing import Array, Flags
from forecast_unc.distributions import marginals
from forecast_unc.distributions.joint import Joint, normal_scores
from forecast_unc.distributions.marginals import Curve, Grid, Marginals
from forecast_unc.distributions.power import PowerTransform
from forecast_unc.distributions.variance_parts import mapped
from forecast_unc.regression.kernels import lower_root

# Correlations across are smaller by this share, and a difference with less of the variance of both
# is known: roundoff is below 1e-13.
_APART, _KNOWN = 1e-12, 1e-9
_MANY = 1 << 14  # paths whose quantiles need no smoothing: their shares are off by .004


def linear(joint: Joint, matrix: Array) -> Joint:
    """The joint of ``matrix @ y``, matrix (g, h) with each step in one group at most."""
    q, mean, cov = joint.q, matrix @ joint.mean, mapped(matrix, joint.cov)
    if q.is_normal or _to_smooth(joint):
        paths = None if joint.paths is None else matrix @ joint.paths
        own = Joint.normal(mean, cov, PowerTransform(), paths=paths)
    elif (np.count_nonzero(matrix, axis=1) == 1).all() and (matrix >= 0.0).all():
        at = matrix.argmax(axis=1)
        own = Joint.of(q[at].affine(matrix.max(axis=1), 0.0), joint.cor[np.ix_(at, at)])
        own = replace(own, scores=None if joint.scores is None else joint.scores[at])
    else:
        own = replace(_sums_of_paths(joint, matrix), mean=mean, cov=cov)
    return replace(own, **joint.carried(matrix))


def difference(first: Joint, second: Joint, cor: Array, factors: Array) -> Joint:
    """The joint of ``a * first - b * second``, a and b the factors (2, h).

    Correlations (2 h, 2 h) are those of the scores of both.
    """
    h = len(first)
    apart = np.kron(np.full((2, 2), 1.0 - _APART) + _APART * np.eye(2), np.ones((h, h)))
    rows, own = np.tile(np.arange(h), 2), np.repeat(np.eye(2), h, axis=1)
    q = marginals.average([first.q[rows], second.q[rows]], own)
    matrix = np.hstack([np.diag(factors[0]), -np.diag(factors[1])])
    found = linear(Joint.of(q, apart * cor), matrix)
    mean = matrix @ np.concatenate([first.mean, second.mean])
    size = matrix**2 @ np.concatenate([first.cov.diagonal(), second.cov.diagonal()])
    found, known = replace(found, mean=mean), found.cov.diagonal() <= _KNOWN * size
    return found.certain(known, mean)


def extreme(joint: Joint, groups: Flags, largest: bool) -> Joint:
    """The joint of the largest or smallest step of each group (g, h), by the quantiles of paths."""
    paths, pick = _paths(joint), np.max if largest else np.min
    q = joint.q
    values, lower, upper = (
        np.array([pick(of[steps], axis=0) for steps in groups]) for of in (paths, q.lower, q.upper)
    )
    if _to_smooth(joint) and np.ptp(values, axis=1).all():
        moments = values.mean(axis=1), np.atleast_2d(np.cov(values))
        return Joint.normal(*moments, PowerTransform(), paths=values)
    grid = None if q.grid is None else q.grid.at(groups.argmax(axis=1))
    return _by_paths(values, lower, upper, grid)


def _to_smooth(joint: Joint) -> bool:
    """Whether there are a few paths, of unbounded values."""
    bounded = np.isfinite([joint.q.lower, joint.q.upper]).any() or joint.q.grid is not None
    return joint.paths is not None and joint.paths.shape[1] < _MANY and not bounded


def _sums_of_paths(joint: Joint, matrix: Array) -> Joint:
    """The joint of ``matrix @ y``, by the quantiles of paths."""
    grid = None
    if joint.q.grid is not None:
        origin, unit = joint.q.grid
        step = np.abs(matrix * unit)
        common = np.min(step, axis=1, where=step > 0.0, initial=np.inf)
        if (np.isclose(step, common[:, None]) | (step == 0.0)).all():
            grid = Grid(matrix @ origin, common)
    lower, upper = joint.q.lower, joint.q.upper
    bounds = _ends(matrix, upper, lower), _ends(matrix, lower, upper)
    return _by_paths(matrix @ _paths(joint), *bounds, grid)


def _ends(matrix: Array, of_negative: Array, of_positive: Array) -> Array:
    """One end (g,) of ``matrix @ y``, by the ends (h,) of the steps."""
    with np.errstate(invalid="ignore"):  # 0 times inf
        each = matrix * np.where(matrix < 0.0, of_negative, of_positive)
    return np.asarray(np.where(matrix == 0.0, 0.0, each).sum(axis=1))


def _paths(joint: Joint) -> Array:
    """Paths (h, n) of the model, or others spread evenly over the joint, the same every time."""
    if joint.paths is not None:
        return joint.paths
    joint.eigen()
    # 2^16 of up to 128 steps, of more as many as fit into 64 MB: with 2^14 probabilities of the
    # largest of 24 steps were off by up to .006.
    log_n = min(16, int(23 - np.log2(len(joint))))
    scores = lower_root(joint.cor) @ ndtri(sobol_points(len(joint), log_n))
    # on lines between 4,001 scores: a quarter of the time of the cubics at 24 times 65,536 scores
    grid = np.linspace(scores.min(), scores.max(), 4001)
    values = joint.q.latent(grid[None])
    each = [np.interp(z, grid, row) for z, row in zip(scores, values, strict=True)]
    return joint.q.bounded_and_rounded(np.array(each))


def _by_paths(values: Array, lower: Array, upper: Array, grid: Grid | None) -> Joint:
    """The joint with quantiles, correlations and moments of values (g, n) in bounds (g,)."""
    n = values.shape[1]
    paths = values
    if grid is not None:  # those of one value lie evenly between those before and after it
        order, first, last = (rankdata(values, m, axis=1) for m in ("ordinal", "min", "max"))
        within = (order - first + 0.5) / (last - first + 1.0) - 0.5
        values = values + grid.unit[:, None] * within
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
    center, varies = quantiles[:, len(half) - 1], np.ptp(values, axis=1) > 0.0
    line = PchipInterpolator(nodes, quantiles, axis=1)
    steep = line.derivative()
    outer = [
        (row[:, None] - center[:, None]) / end
        for row, end in ((quantiles[:, 0], nodes[0]), (quantiles[:, -1], nodes[-1]))
    ]

    def curve(z: Array) -> Curve:  # straight beyond, from the median
        inside = np.clip(z[0], nodes[0], nodes[-1])
        beyond = z - inside
        slopes = np.where(z < nodes[0], outer[0], np.where(z > nodes[-1], outer[1], steep(inside)))
        return line(inside) + beyond * slopes, slopes

    cor = np.atleast_2d(np.corrcoef(normal_scores(values))) if varies.all() else np.eye(len(values))
    np.fill_diagonal(cor, 1.0)
    q = replace(Marginals.of(curve, len(values), nodes[None]), grid=grid).censored(lower, upper)
    with np.errstate(over="ignore", invalid="ignore"):
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
