"""The joint distribution of h steps, immutable: functions of correlated normal scores."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

import numpy as np
from scipy.special import ndtr, ndtri

from forecast_unc._checks import RandomState
from forecast_unc._typing import Array, Positions
from forecast_unc.distributions import marginals
from forecast_unc.distributions.marginals import REACH, Affine, Map, Polyline, Power
from forecast_unc.distributions.power import PowerTransform
from forecast_unc.distributions.variance_parts import (
    MakeParts,
    mapped_parts,
    stretched,
    with_more,
)
from forecast_unc.errors import ArgumentError

# Paths (n_samples, h) of a model, in units of y, each of one function.
Draw = Callable[[int, RandomState], Array]
MOST = 0.99  # of the largest variance between two bounds, that of their two values alone


class Diverged(ArgumentError):
    """A forecast has no finite, positive variance from `step` on, counted from 1."""

    def __init__(self, argument: str, rule: str, got: str, remedy: str, step: int) -> None:
        super().__init__(argument, rule, got, remedy)
        self.step = step


@dataclass(frozen=True, eq=False)
class Joint:
    """Steps y_t = q_t(z_t) of jointly normal scores z, in units of y."""

    q: Map
    cor: Array  # (h, h), of the scores
    mean: Array  # (h,)
    cov: Array  # (h, h)
    parts: MakeParts | None = None  # of the covariance, without what they do not add up to
    paths: Array | None = None  # (h, n), of the model
    draw: Draw | None = None

    @classmethod
    def of(cls, q: Map, cor: Array) -> Self:
        """The joint of these functions and correlations."""
        return cls(q, cor, q.mean(), q.covariance(cor))

    @classmethod
    def normal(
        cls,
        mean: Array,
        cov: Array,
        transform: PowerTransform,
        parts: MakeParts | None = None,
        paths: Array | None = None,
    ) -> Self:
        """Steps that are normal on the scale of a transform."""
        std = np.sqrt(cov.diagonal())
        cor = cov / np.outer(std, std)  # the product of variances can overflow
        if transform.power is None:
            return cls(Map.of(Affine(mean, std)), cor, mean, cov, parts, paths)
        q = Map.of(Affine(mean, std), Power(transform))
        return cls.of(q, cor)._sharing(parts, std, paths)

    def __len__(self) -> int:
        return len(self.mean)

    @property
    def std(self) -> Array:
        """Standard deviation of each step, (h,)."""
        return np.sqrt(self.cov.diagonal())

    def width(self, coverage: float) -> Array:
        """Widths of the central intervals without the bound, (h,)."""
        reach = -ndtri(0.5 * (1 - coverage))
        lower, upper = self.q.latent(np.array([[-reach, reach]])).T
        return np.asarray(upper - lower)

    def prob(self, lower: Array, upper: Array) -> Array:
        """Probability of a value above one end and up to the other, (h,)."""
        low, high = (self.q.score(end[:, None])[:, 0] for end in (lower, upper))
        return marginals.between(low, high)

    def sample(self, n: int, random: np.random.Generator) -> Array:
        """Paths (h, n) by the symmetric root of the correlations, which exists for any rank."""
        values, vectors = self.eigen()
        root = np.sqrt(np.where(values > 0, values, 0.0))
        # Not V sqrt(D): the signs of eigenvectors, hence the paths of a seed, differ by platform.
        factor = (vectors * root) @ vectors.T
        return self.q(factor @ random.standard_normal((len(self), n)))

    def eigen(self) -> tuple[Array, Array]:
        """Eigenvalues and eigenvectors of the correlations, or an error if one is negative."""
        values, vectors = np.linalg.eigh(self.cor)
        if values[0] < -1e-10 * values[-1]:  # less is roundoff
            largest = f"a largest of {values[-1]:.3g} (of the correlations)"
            got = f"{values[0]:.3g} against {largest}, so no path can be drawn"
            remedy = "Fewer steps, or more noise, condition it better."
            raise ArgumentError("cov", "have no negative eigenvalue", got, remedy)
        return values, vectors

    def each(self, at: Positions, factor: float = 1.0, shift: float = 0.0) -> Joint:
        """The joint of ``factor * y + shift`` at some of the steps."""
        q, block = self.q[at], np.ix_(at, at)
        if (factor, shift) != (1.0, 0.0):
            q = q.affine(factor, shift)
        with np.errstate(over="ignore"):
            mean, cov = factor * self.mean[at] + shift, np.square(factor) * self.cov[block]
        carried = self.carried(factor * np.eye(len(self))[at], shift)
        return Joint(q, self.cor[block], mean, cov, **carried)

    def carried(self, matrix: Array, shift: float = 0.0) -> dict[str, Any]:
        """Parts and paths of y, mapped to ``matrix @ y + shift``."""
        return {
            "parts": None if self.parts is None else partial(mapped_parts, self.parts, matrix),
            "paths": None if self.paths is None else matrix @ self.paths + shift,
            "draw": None if self.draw is None else partial(_mapped, self.draw, matrix, shift),
        }

    def recalibrated(self, factor: Array, dof: float | None, correlation: float) -> Joint:
        """Other widths, tails and correlations; see `Forecast.recalibrated`."""
        target = np.eye(len(self)) if correlation < 0 else np.ones_like(self.cor)
        cor = (1.0 - abs(correlation)) * self.cor + abs(correlation) * target
        q = self.q.each(marginals.widened, factor)
        return self._calibrated(q if dof is None else q.each(marginals.with_dof, dof), cor)

    def conformal(self, sizes: Array) -> Joint:
        """The bands of sorted sizes of errors (h, k); see `Forecast.conformal`."""
        return self._calibrated(self.q.each(marginals.shaped, Polyline.of_sizes(sizes)), self.cor)

    def _calibrated(self, q: Map, cor: Array) -> Joint:
        """Other distributions; what the covariance gains is one more part."""
        changed = Joint.of(q, cor)
        if self.parts is None:
            return changed
        parts = partial(with_more, self.parts, "calibration", changed.cov - self.cov)
        return replace(changed, parts=parts)

    def censored(self, lower: Array, upper: Array, keep_moments: bool = False) -> Joint:
        """Values beyond bounds (h,), infinite for none, moved to them; see `Forecast.censored`."""
        q, paths = self.q.censored(lower, upper), self.paths
        if np.array_equal([q.lower, q.upper], [self.q.lower, self.q.upper]):
            return self
        bitten = q.bitten
        if keep_moments and bitten.any():
            # no values have their mean at a bound
            inner = 0.2 * np.minimum(self.std, 0.2 * (q.upper - q.lower))
            mean = np.clip(self.mean, lower + inner, upper - inner)
            factor, shift = onto_moments(q, mean, self.cov.diagonal())
            factor, shift = np.where(bitten, factor, 1.0), np.where(bitten, shift, 0.0)
            q = replace(q.affine(factor, shift), low=q.lower, high=q.upper)
            paths = None if paths is None else factor[:, None] * paths + shift[:, None]
        if paths is not None:
            paths = np.clip(paths, q.lower[:, None], q.upper[:, None])
        if not bitten.any():
            return replace(self, q=q, paths=paths, draw=None)
        return Joint.of(q, self.cor)._sharing(self.parts, self.std, paths)

    def whole(self) -> Joint:
        """Each value rounded to the nearest whole number; see `Forecast.whole`."""
        grid = np.outer([0.0, 1.0], np.ones(len(self)))
        paths = None if self.paths is None else np.ceil(self.paths - 0.5)
        rounded = Joint.of(replace(self.q, grid=grid), self.cor)
        return rounded._sharing(self.parts, self.std, paths)

    def _sharing(self, parts: MakeParts | None, std: Array, paths: Array | None) -> Self:
        """Parts as shares of the variance that they are of other stds (h,)."""
        if parts is not None:
            parts = partial(stretched, parts, std, self.std)
        return replace(self, parts=parts, paths=paths)


def _mapped(draw: Draw, matrix: Array, shift: float, n: int, random_state: RandomState) -> Array:
    return np.asarray(draw(n, random_state) @ matrix.T + shift)


def score_correlations(q: Map, cov: Array) -> Array:
    """Correlations (h, h) of the scores with which steps have a covariance, or the nearest ones."""
    one = np.ones_like(cov)
    if len(cov) == 1:
        return one
    low, high = -one, one
    # The covariance of two increasing functions increases with the correlation.
    for _ in range(64):  # 2^-64 is 5e-20
        middle = 0.5 * (low + high)
        below = q.covariance(middle) <= cov
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    np.fill_diagonal(low, 1.0)
    lowest = float(np.linalg.eigvalsh(low)[0])
    if lowest < 0:
        std = np.sqrt(cov.diagonal())
        plain = cov / np.outer(std, std)  # the product of variances can overflow
        # Mixed with the correlations of the steps until they are positive semidefinite. The lowest
        # eigenvalue is concave: the mixture's is at least the mixture of the two.
        share = lowest / (lowest - max(float(np.linalg.eigvalsh(plain)[0]), 0.0))
        low = (1 - share) * low + share * plain
        np.fill_diagonal(low, 1.0)
    return low


def onto_moments(q: Map, mean: Array, var: Array) -> tuple[Array, Array]:
    """Factor k and shift b, (h,) each, that give k y + b within the bounds of q such moments.

    The mean is within the bounds; between two of them a variance is at most `MOST` of the largest.
    """
    low, high = np.isfinite([q.lower, q.upper])
    factor, shift = np.ones(len(q)), np.zeros(len(q))
    for some, solved, side in (
        (low & ~high, _above_bound, 1.0),
        (high & ~low, _above_bound, -1.0),
        (low & high, _between_bounds, 1.0),
    ):
        at = np.flatnonzero(some)
        if len(at):
            own = q[at] if side > 0.0 else q[at].affine(side, 0.0)
            factor[at], found = solved(own, side * mean[at], var[at])
            shift[at] = side * found
    return factor, shift


def _between_bounds(q: Map, mean: Array, var: Array) -> tuple[Array, Array]:
    """Factor and shift (h,) that give min(max(L, k y + b), U) a mean and a variance."""
    none, zero, width = np.full(len(q), np.inf), np.zeros(len(q)), q.upper - q.lower
    share = (mean - q.lower) / width
    scale = np.minimum(np.sqrt(var), width * np.sqrt(MOST * share * (1.0 - share)))
    middle, top = (mean - q.lower) / scale, width / scale
    median = q.latent(zero[:, None])[:, 0]
    free = replace(q.affine(1.0 / scale, -median / scale), low=-none, high=none, grid=None)
    # Whatever k, the mean is right for one k y + b that is within the bounds at this score.
    inner = free.latent(-ndtri(share)[:, None])[:, 0]

    def values(log_k: Array, start: Array) -> tuple[Array, Array, Array]:
        own = replace(free.affine(np.exp(log_k), start), low=zero, high=top)
        nodes, weights = own.nodes()
        y = own(nodes)
        return y, weights, weights * ((y > 0.0) & (y < top[:, None]))

    def centered(log_k: Array) -> Array:
        def too_large(start: Array) -> tuple[Array, Array]:
            y, weights, within = values(log_k, start)
            return marginals.integral(weights * y) - middle, marginals.integral(within)

        lowest = -np.exp(log_k) * inner
        return marginals.newton(too_large, lowest, lowest + top, middle)

    def too_wide(log_k: Array) -> tuple[Array, Array]:
        y, weights, within = values(log_k, centered(log_k))
        apart = y - middle[:, None]
        own = marginals.integral(weights * apart**2)
        left = marginals.integral(weights * y * (top[:, None] - y))  # of the largest variance
        p, first, second = (marginals.integral(within * apart**i) for i in range(3))
        with np.errstate(divide="ignore", invalid="ignore"):  # no node is within
            slope = 2.0 * (second - first**2 / p) * (1.0 / own + 1.0 / left)
            return np.log(own / left * (middle * (top - middle) - 1.0)), slope

    # Bounds only reduce a variance, so that k is at least this, but for roundoff.
    least = -0.5 * np.log(free.covariance(np.eye(len(q))).diagonal()) - 1e-3
    log_k = marginals.newton(too_wide, least, least + 20.0, least)
    factor = np.exp(log_k)
    return factor, q.lower + scale * centered(log_k) - factor * median


def _above_bound(q: Map, mean: Array, var: Array) -> tuple[Array, Array]:
    """Factor and shift (h,) that give max(L, k y + b) a mean above L and a variance."""
    # One score at which y leaves L gives the ratio of the variance to the square of the mean above
    # L: theory/transforms.md.
    none = np.full(len(q), np.inf)
    free = replace(q, low=-none, high=none)
    unit = mean - q.lower  # else squares overflow
    ratio = np.log1p((np.sqrt(var) / unit) ** 2)

    def excess(start: Array) -> tuple[Array, Array]:
        nodes, weights = free.nodes(start[:, None], start)
        above = np.maximum(free.latent(nodes) - free.latent(start[:, None]), 0.0) / unit[:, None]
        return marginals.integral(weights * above), marginals.integral(weights * above**2)

    def too_wide(start: Array) -> tuple[Array, Array]:
        first, second = excess(start)
        steep = free.latent_slope(start[:, None])[:, 0] / unit
        with np.errstate(divide="ignore", invalid="ignore"):  # no digit is left of what is far out
            slope = 2.0 * steep * (ndtr(-start) / first - first / second)
            return np.log(second) - 2.0 * np.log(first) - ratio, slope

    lowest = np.full(len(mean), -REACH)
    within = too_wide(lowest)[0] <= 0.0
    start = marginals.newton(too_wide, lowest, np.full(len(mean), 3.0 * REACH))
    own = free.covariance(np.eye(len(mean))).diagonal()
    factor = np.where(within, 1.0 / excess(start)[0], np.sqrt(var / own))
    bound = q.lower - factor * free.latent(start[:, None])[:, 0]
    return factor, np.where(within, bound, mean - factor * free.mean())
