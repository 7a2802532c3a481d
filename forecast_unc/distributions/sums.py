r"""Linear combinations and extremes of steps.

Sums of normal steps are normal. Of others the steps of a group are added up at one and the same
score, as if they moved as one, with the scores drawn together and moved,

.. math:: q(z) = \sum_t w_t\, q_t(a + c z),

so that mean and variance are exact. The shape is an approximation, which keeps all bounds.
"""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from scipy.special import ndtr, ndtri
from scipy.stats import qmc, rankdata

from forecast_unc._checks import frozen
from forecast_unc._typing import Array
from forecast_unc.distributions.joint import Joint, score_correlations
from forecast_unc.distributions.links import Affine, Flags, Polyline, newton, peak
from forecast_unc.distributions.maps import REACH, Map, Sums, normal_density, panels
from forecast_unc.distributions.parts import mapped
from forecast_unc.distributions.power import PowerTransform
from forecast_unc.regression.kernels import lower_root

# Nodes on panels of half a std, which resolve scores of a quarter of it; and tables until scores
# that are drawn farther together are resolved.
_N_NODES, _N_PANELS, _NEAR, _TABLES = 16, 48, 1.4, 8
# 2^16 draws of up to 128 steps, of more as many as fit into 64 MB: with 2^14 probabilities of the
# largest of 24 steps were off by up to .006.
_LOG_DRAWS, _LOG_SIZE = 16, 23
# Quantiles .1 apart in the normal score, up to where so many paths lie beyond; closer ones would
# show the noise of the paths in the density.
_SPACING, _BEYOND = 0.1, 10.0
_PIECES = 4000


def linear(joint: Joint, matrix: Array) -> Joint:
    """The joint of ``matrix @ y``, matrix (g, h) with each step in one group at most."""
    q, negative = joint.q, bool((matrix < 0).any())
    mean, cov = matrix @ joint.mean, mapped(matrix, joint.cov)
    paths = None if joint.paths is None else matrix @ joint.paths
    parts, draw = joint.mapped_parts(matrix), joint.mapped_draw(matrix)
    if q.normal or negative or joint.mixture is not None:
        mixture = None if joint.mixture is None else joint.mixture.mapped(matrix)
        plain = Joint.normal(mean, cov, PowerTransform(), parts, mixture, paths)
        if not (negative or q.turned or q.normal):
            plain = plain.censored(_bounds(matrix, q.lower))
        return replace(plain, draw=draw)
    if q.turned:
        own = linear(joint.negative(), matrix).negative()
    elif (np.count_nonzero(matrix, axis=1) == 1).all():
        at = matrix.argmax(axis=1)
        own = Joint.of(q.picked(at).affine(matrix.max(axis=1), 0.0), joint.cor[np.ix_(at, at)])
    elif (summed := q.plain()).normal:
        own = Joint.normal(mean, cov, PowerTransform())
    else:
        at = np.flatnonzero(matrix.any(axis=0))
        group = matrix[:, at].argmax(axis=0)
        sums = Sums(summed.picked(at), group, matrix[group, at])
        shape = Map.of(_onto_moments(sums, mean, cov.diagonal()), sums)
        own = Joint(shape, np.ones((1, 1)), mean, cov)
        if len(matrix) > 1:
            own = Joint.of(shape, score_correlations(shape, cov))
    return replace(own, parts=parts, paths=paths, draw=draw)


def _onto_moments(sums: Sums, mean: Array, var: Array) -> Affine:
    """The link of the scores, a + c z, with which sums have a mean and a variance, (g,) each."""
    a, c = np.zeros(len(mean)), np.ones(len(mean))
    for _ in range(_TABLES):
        table = _Table.about(a, c, sums, mean, np.sqrt(var))
        a, c, near = table.solved()
        if near.all():
            break
    return Affine(a, c)


@dataclass(frozen=True, eq=False)
class _Table:
    """Sums (g, n) at scores about N(center, spread^2), in stds that are asked for, from the mean.

    Integrals over scores z ~ N(a, c^2) are those over these, as long as both are near.
    """

    center: Array  # (g,)
    spread: Array  # (g,)
    z: Array
    weights: Array
    values: Array

    @classmethod
    def about(cls, center: Array, spread: Array, sums: Sums, mean: Array, std: Array) -> Self:
        """The table with nodes between all kinks."""
        far = REACH + peak(lambda z: sums(center[:, None] + spread[:, None] * z), len(mean))
        low, high = center - REACH * spread, center + far * spread
        edges = low + (high - low) * np.linspace(0.0, 1.0, _N_PANELS + 1)[:, None]
        kinks = np.clip(sums.kinks(), low[:, None], high[:, None])
        z, weights = panels(np.sort(np.column_stack([edges.T, kinks]), axis=1), _N_NODES)
        return cls(center, spread, z, weights, (sums(z) - mean[:, None]) / std[:, None])

    def moments(self, a: Array, log_c: Array) -> tuple[Array, Array, Array]:
        """Mean and variance, and their slopes in a and in log c, (2, g) each."""
        c = np.exp(log_c)[:, None]
        u = (self.z - a[:, None]) / c
        density = self.weights * normal_density(u) / c
        both = density * np.array([self.values, self.values**2])
        first, in_a = both.sum(axis=2), (both * u / c).sum(axis=2)
        in_c = (both * (u**2 - 1.0)).sum(axis=2)
        for slopes in (in_a, in_c):
            slopes[1] -= 2.0 * first[0] * slopes[0]
        first[1] -= first[0] ** 2
        return first, in_a, in_c

    def centered(self, log_c: Array) -> Array:
        """The a that gives the mean at a given c."""

        def excess(a: Array) -> tuple[Array, Array]:
            at, in_a, _ = self.moments(a, log_c)
            return at[0], in_a[0]

        reach = REACH * self.spread
        return newton(excess, self.center - reach, self.center + reach)

    def solved(self) -> tuple[Array, Array, Flags]:
        """The a and c that give mean and variance, and whether they are near enough."""

        def too_wide(log_c: Array) -> tuple[Array, Array]:
            at, in_a, in_c = self.moments(self.centered(log_c), log_c)
            slope = in_c[1] - in_a[1] * in_c[0] / in_a[0]
            return np.log(at[1]), slope / at[1]

        before = np.log(self.spread)
        log_c = newton(too_wide, before - _NEAR, before + _NEAR)
        a = self.centered(log_c)
        near = np.abs(a - self.center) < 3.0 * self.spread
        return a, np.exp(log_c), near & (np.abs(log_c - before) < 0.99 * _NEAR)


def _bounds(matrix: Array, lower: Array) -> Array:
    """Lower bounds (g,) of ``matrix @ y``, matrix (g, h) not negative; -inf where there is none."""
    free = np.isneginf(lower)
    total = matrix @ np.where(free, 0.0, lower)
    return np.where((matrix > 0) @ free, -np.inf, total)


def extreme(joint: Joint, groups: Flags, largest: bool) -> Joint:
    """The joint of the largest or smallest step of each group (g, h), from paths.

    The quantiles are those of the paths, .1 apart in the normal score, with straight lines between
    them and from the median through the outermost beyond; the scores are those of the ranks.
    """
    if joint.q.turned:
        return extreme(joint.negative(), groups, not largest).negative()
    paths = joint.paths
    if paths is None:
        joint.eigen()
        paths = _paths_at(joint.q, _fixed_scores(joint.cor))
    values = _extremes(paths, groups, largest)
    lower = _extremes(joint.q.lower[:, None], groups, largest)[:, 0]
    n = values.shape[1]
    end = -ndtri(min(_BEYOND / n, 0.25))
    half = np.linspace(0.0, end, 1 + int(np.ceil(end / _SPACING)))
    nodes = np.concatenate([-half[:0:-1], half])
    quantiles = np.quantile(values, ndtr(nodes), axis=1).T  # (g, k)
    for row, path, bound in zip(quantiles, values, lower, strict=True):
        _continue_below(row, nodes, path, bound)
    center, spread = quantiles[:, len(half) - 1], values.std(axis=1)
    unit = np.where(spread > 0.0, spread, 1.0)
    shape = Polyline(nodes, (quantiles - center[:, None]) / unit[:, None])
    scores = ndtri((rankdata(values, axis=1) - 0.5) / n)
    cor = np.atleast_2d(np.corrcoef(scores)) if (spread > 0.0).all() else np.eye(len(values))
    np.fill_diagonal(cor, 1.0)
    q = Map.of(shape, Affine(center, unit), lower=lower)
    moments = values.mean(axis=1), np.atleast_2d(np.cov(values))
    return Joint(q, cor, *moments, paths=frozen("paths", values, values.shape))


def _fixed_scores(cor: Array) -> Array:
    """Scores (h, n) that are spread evenly over N(0, cor), the same every time."""
    log_n = min(_LOG_DRAWS, int(_LOG_SIZE - np.log2(len(cor))))
    return np.asarray(lower_root(cor) @ ndtri(sobol_points(len(cor), log_n)))


def sobol_points(h: int, log_n: int) -> Array:
    """Points (h, 2^log_n) of the unit cube, the same every time, none of them on its surface."""
    sequence = qmc.Sobol(h, seed=np.random.default_rng(0))  # scipy < 1.15 has no `rng`
    points = sequence.random_base2(log_n).T
    return np.ascontiguousarray(np.clip(points, 2.0**-53, 1.0 - 2.0**-53))


def _paths_at(q: Map, scores: Array) -> Array:
    """Values (h, n) at normal scores, by straight lines over 4,000 pieces of their range.

    The quantiles of an average with heavy tails take 2 s at 24 times 65,536 scores themselves.
    """
    grid = np.linspace(scores.min(), scores.max(), _PIECES + 1)
    values = np.broadcast_to(q.latent(grid[None]), (len(q), len(grid)))
    each = [np.interp(*row) for row in zip(scores, [grid] * len(scores), values, strict=True)]
    return q.bounded(np.array(each))


def _extremes(paths: Array, groups: Flags, largest: bool) -> Array:
    """Largest or smallest value of each group of steps along each path, (g, n)."""
    found = [paths[steps].max(axis=0) if largest else paths[steps].min(axis=0) for steps in groups]
    return np.array(found)


def _continue_below(values: Array, nodes: Array, path: Array, bound: float) -> None:
    """Continue quantiles (k,) below a bound, in place, by a line that leaves it where paths do.

    Between nodes its probability would be off by up to .04.
    """
    at_bound = np.mean(path <= bound)
    if not 0.0 < at_bound < 1.0:
        return
    start = ndtri(at_bound)
    above = np.append(nodes, -ndtri(0.5 / len(path))), np.append(values, path.max())
    first = int(((above[0] > start) & (above[1] > bound)).argmax())
    slope = (above[1][first] - bound) / (above[0][first] - start)
    below = np.arange(len(nodes)) < first
    values[below] = bound + slope * (nodes[below] - start)
