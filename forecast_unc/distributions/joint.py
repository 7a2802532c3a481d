"""The joint distribution of h steps, immutable: functions of correlated normal scores."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri
from scipy.stats import rankdata

from forecast_unc._checks import RandomState
from forecast_unc._typing import Array, Flags, Positions
from forecast_unc.distributions.marginals import Curve, Marginals, between, student
from forecast_unc.distributions.power import PowerTransform
from forecast_unc.distributions.smoothed import smoothed
from forecast_unc.distributions.variance_parts import (
    MakeParts,
    mapped_parts,
    stretched,
    with_more,
)
from forecast_unc.errors import ArgumentError

# Paths (n_samples, h) of a model, in units of y, each of one function.
Draw = Callable[[int, RandomState], Array]
Curves = tuple[Array, Array, Array, Array]
MOST = 0.99  # of the largest variance between two bounds, that of their two values alone


class Diverged(ArgumentError):
    """A forecast has no finite, positive variance from `step` on, counted from 1."""

    def __init__(self, argument: str, rule: str, got: str, remedy: str, step: int) -> None:
        super().__init__(argument, rule, got, remedy)
        self.step = step


@dataclass(frozen=True, eq=False)
class Joint:
    """Steps y_t = q_t(z_t) of jointly normal scores z, in units of y.

    Scores of paths replace the normal ones where a step or a combination is asked for alone.
    """

    q: Marginals
    cor: Array  # (h, h), of the scores
    mean: Array  # (h,)
    cov: Array  # (h, h)
    parts: MakeParts | None = None  # of the covariance, without what they do not add up to
    paths: Array | None = None  # (h, n), of the model
    draw: Draw | None = None
    scores: Array | None = None  # (h, n), of the paths, of mean 0 and variance 1

    @classmethod
    def of(cls, q: Marginals, cor: Array) -> Self:
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
        """Steps that are normal on the scale of a transform, or those of paths on that scale."""
        std = np.sqrt(cov.diagonal())
        cor = cov / np.outer(std, std)  # the product of variances can overflow
        scores = None if paths is None else _standardized(paths)
        if transform.power is None:
            q = Marginals.normal(mean, std)
            return cls(q, cor, mean, cov, parts, paths, scores=scores)
        q = _transformed(mean, std, transform)
        own = cls.of(q, cor) if transform.power else cls(q, cor, *_lognormal(mean, cov, transform))
        paths = None if paths is None else transform.inverse(paths)
        # Moments as of normal levels: those of the smoothed paths took as long as the mixture.
        return replace(own._sharing(parts, std, paths, None), scores=scores)

    def __len__(self) -> int:
        return len(self.mean)

    @property
    def std(self) -> Array:
        """Standard deviation of each step, (h,)."""
        return np.sqrt(self.cov.diagonal())

    @cached_property
    def marginals(self) -> Marginals:
        """Each step by itself: that of the smoothed paths, if their scores are known."""
        known = None if self.scores is None else smoothed(self.scores)
        if known is None:
            return self.q
        kinks = [known.kinks]
        if self.q.kinks.size:
            own = known.scores_of(self.q.kinks)
            kinks.append(np.where(known.normal[:, None], self.q.kinks, own))
        return self.q.after(known.curve, np.column_stack(kinks))

    def width(self, coverage: float) -> Array:
        """Widths of the central intervals without the bound, (h,)."""
        reach = -ndtri(0.5 * (1 - coverage))
        lower, upper = self.q.latent(np.array([[-reach, reach]])).T
        return np.asarray(upper - lower)

    def prob(self, lower: Array, upper: Array) -> Array:
        """Probability of a value above one end and up to the other, (h,)."""
        low, high = (self.marginals.score(end[:, None])[:, 0] for end in (lower, upper))
        return between(low, high)

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
        scores = None if self.scores is None else np.sign(factor) * self.scores[at]
        return Joint(q, self.cor[block], mean, cov, **carried, scores=scores)

    def carried(self, matrix: Array, shift: ArrayLike = 0.0) -> dict[str, Any]:
        """Parts and paths of y, mapped to ``matrix @ y + shift``, one shift or (h,)."""
        shift = np.asarray(shift)
        return {
            "parts": None if self.parts is None else partial(mapped_parts, self.parts, matrix),
            "paths": None if self.paths is None else matrix @ self.paths + shift[..., None],
            "draw": None if self.draw is None else partial(_mapped, self.draw, matrix, shift),
        }

    def recalibrated(self, factor: Array, dof: float | None, correlation: float) -> Joint:
        """Other widths, tails and correlations; see `Forecast.recalibrated`."""
        target = np.eye(len(self)) if correlation < 0 else np.ones_like(self.cor)
        cor = (1.0 - abs(correlation)) * self.cor + abs(correlation) * target
        q, paths = self._rescaled(factor, dof), None
        if self.scores is not None:
            paths = q(_recorrelated(normal_scores(self.scores), correlation))
        return self._calibrated(q, cor, paths)

    def _rescaled(self, factor: Array, dof: float | None) -> Marginals:
        """Steps at scores ``factor`` (h,) times as large, with tails of Student's t."""
        q = self.marginals
        if q is self.q:
            return q.widened(factor) if dof is None else q.widened(factor).with_dof(dof)

        # over the decades of an attractor the mean of a logarithm would be far beyond them
        tailed = self.q.latent_normal[:, None]

        def curve(z: Array) -> Curve:
            values, slopes = student(z, dof)
            values, slopes = np.where(tailed, values, z), np.where(tailed, slopes, 1.0)
            return factor[:, None] * values, factor[:, None] * slopes

        return q.after(curve, np.where(factor[:, None] > 0.0, q.kinks / factor[:, None], 0.0))

    def conformal(self, sizes: Array) -> Joint:
        """The bands of sorted sizes of errors (h, k); see `Forecast.conformal`."""
        return self._calibrated(self.q.conformal(sizes), self.cor)

    def _calibrated(self, q: Marginals, cor: Array, paths: Array | None = None) -> Joint:
        """The joint of other functions and correlations; the covariance gains a part for it."""
        changed = Joint.of(q, cor)
        if paths is not None:
            with np.errstate(over="ignore"):
                cov = np.outer(changed.std, changed.std) * cor
            changed = replace(changed, cov=cov, paths=paths)
        if self.parts is None:
            return changed
        parts = partial(with_more, self.parts, "calibration", changed.cov - self.cov)
        return replace(changed, parts=parts)

    def censored(self, lower: Array, upper: Array, keep_moments: bool = False) -> Joint:
        """Values beyond bounds (h,), infinite for none, moved to them; see `Forecast.censored`."""
        q, paths = self.q.censored(lower, upper), self.paths
        if np.array_equal([q.lower, q.upper], [self.q.lower, self.q.upper]):
            return self
        bounded = q.bounds_matter
        if keep_moments and bounded.any():
            own = self.marginals.censored(lower, upper)
            # no values have their mean at a bound
            inner = 0.2 * np.minimum(self.std, 0.2 * (q.upper - q.lower))
            mean = np.clip(self.mean, q.lower + inner, q.upper - inner)
            factor, shift = onto_moments(own, mean, self.cov.diagonal())
            factor, shift = np.where(bounded, factor, 1.0), np.where(bounded, shift, 0.0)
            q = q.affine_latent(factor, shift)
            paths = None if paths is None else factor[:, None] * paths + shift[:, None]
        if paths is not None:
            paths = q.bounded_and_rounded(paths)
        if not bounded.any():
            return replace(self, q=q, paths=paths, draw=None)
        return Joint.of(q, self.cor)._sharing(self.parts, self.std, paths, self.scores)

    def moved_onto(self, some: Flags, median: float, scale: float) -> Joint:
        """Some steps (h,) with another median and half width of the 68 % band; all correlations."""
        own = self.q.latent_spread
        factor = np.where(some, scale / own.scale, 1.0)
        shift = np.where(some, median - factor * own.median, 0.0)
        return self.by_step(factor, shift, self.q.affine_latent(factor, shift))

    def by_step(self, factor: Array, shift: Array, q: Marginals) -> Joint:
        """The joint of ``factor * y + shift``, (h,) each, not negative, of these functions."""
        carried = self.carried(np.diag(factor), shift)
        cov = self.cov * np.outer(factor, factor)
        return replace(self, q=q, mean=factor * self.mean + shift, cov=cov, **carried)

    def certain(self, some: Flags, values: Array) -> Joint:
        """Some steps (h,) certain to have values (h,), as none or as the same of two futures."""
        if not some.any():
            return self
        shift, kept = np.where(some, values, 0.0), np.where(some, 0.0, 1.0)
        lower, upper = (np.where(some, values, end) for end in (self.q.lower, self.q.upper))
        cor = self.cor * np.outer(kept, kept) + np.diag(1.0 - kept)
        made = self.by_step(kept, shift, replace(self.q, lower=lower, upper=upper))
        return replace(made, cor=cor)

    def whole(self) -> Joint:
        """Each value rounded to the nearest whole number; see `Forecast.whole`."""
        q = self.q.rounded()
        paths = None if self.paths is None else q.bounded_and_rounded(self.paths)
        return Joint.of(q, self.cor)._sharing(self.parts, self.std, paths, self.scores)

    def shaped_as(self, values: Array) -> Self:
        """With paths of the shape of values (h, n), and the moments of its own steps.

        Steps keep their own shape where the mean would move by more than a std, into a long tail.
        """
        scores = _standardized(self.q.latent_score(values))
        made = replace(self, paths=self.q(scores), scores=scores)
        if self.q.latent_normal.all():
            return made
        away = np.abs(made.marginals.mean() - self.mean) > self.std
        if not away.any():
            return made
        scores[away] = normal_scores(values[away])
        return replace(self, paths=self.q(scores), scores=scores)

    def _sharing(
        self, parts: MakeParts | None, std: Array, paths: Array | None, scores: Array | None
    ) -> Self:
        """With paths and their moments, and parts as shares of the variance of other stds (h,)."""
        own = replace(self, paths=paths, scores=scores)
        if paths is not None and own.marginals is not own.q:
            var, of_paths = own.marginals.variance(), np.atleast_2d(np.cov(paths))
            cov = of_paths if of_paths.diagonal().all() else own.cov
            varies = var > 0.0  # the others are all at a bound, where those of the scores count
            ratio = np.sqrt(np.where(varies, var, own.cov.diagonal()) / cov.diagonal())
            mean = np.where(varies, own.marginals.mean(), own.mean)
            own = replace(own, mean=mean, cov=cov * np.outer(ratio, ratio))
        return own if parts is None else replace(own, parts=partial(stretched, parts, std, own.std))


def _standardized(paths: Array) -> Array:
    """Paths (h, n) with mean 0 and variance 1 at each step; 0 where all are alike."""
    apart = paths - paths.mean(axis=1, keepdims=True)
    std = apart.std(axis=1, keepdims=True)
    return np.asarray(apart / np.where(std > 0.0, std, 1.0))


def normal_scores(values: Array) -> Array:
    """Normal scores (h, n) of values by their ranks at each step."""
    return np.asarray(ndtri((rankdata(values, axis=1) - 0.5) / values.shape[1]))


def _recorrelated(scores: Array, change: float) -> Array:
    """Scores (h, n) of which a share moves as one, or independently if it is negative."""
    scores, n = scores.copy(), scores.shape[1]
    random = np.random.default_rng(0)
    some = random.permutation(n)[: round(abs(change) * n)]
    part = scores[:, some]
    scores[:, some] = np.sort(part, axis=1) if change > 0.0 else random.permuted(part, axis=1)
    return scores


def _mapped(draw: Draw, matrix: Array, shift: Array, n: int, random_state: RandomState) -> Array:
    return np.asarray(draw(n, random_state) @ matrix.T + shift)


def onto_moments(q: Marginals, mean: Array, var: Array) -> tuple[Array, Array]:
    """Factor k and shift b (h,): within its bounds `q.affine_latent(k, b)` has this mean and var.

    The mean is within the bounds; between two of them a variance is at most `MOST` of the largest.
    """
    center, scale = q.latent_spread
    two_bounds = np.isfinite([q.lower, q.upper]).all(axis=0)
    with np.errstate(invalid="ignore"):
        largest = np.where(two_bounds, (mean - q.lower) * (q.upper - mean), np.inf)
    var = np.minimum(var, MOST * largest)

    def curves(place: Array, factor: Array) -> Curves:
        """Those of `matched`; `place`: the value that becomes the mean, in scales of the center."""
        mapped = q.affine_latent(factor, mean - factor * (center + scale * place))
        nodes, weights = mapped.nodes(mapped.start[:, None], mapped.end[:, None])
        latent = mapped.latent(nodes)
        inside = (latent > q.lower[:, None]) & (latent < q.upper[:, None])
        steep = np.where(inside, -(factor * scale)[:, None], 0.0)
        return (
            mapped.bounded_and_rounded(latent),
            weights,
            steep,
            np.where(inside, latent - mean[:, None], 0.0),
        )

    start = np.zeros_like(mean), np.ones_like(mean)
    place, factor = matched(curves, start, mean, var, (q.lower, q.upper))
    return factor, mean - factor * (center + scale * place)


def matched(
    curves: Callable[[Array, Array], Curves],
    start: tuple[Array, Array],
    mean: Array,
    var: Array,
    ends: tuple[Array, Array],
) -> tuple[Array, Array]:
    """Two parameters (h,), the second positive, that give values between two ends such moments.

    The curves of two parameters are values and weights at nodes, (h, n) each, and the slopes of the
    values in the first and in the logarithm of the second.
    """
    low, high = ends
    both = np.isfinite(ends).all(axis=0)
    low, width = np.where(both, low, 0.0), np.where(both, high - low, 0.0)

    def errors(x: Array) -> tuple[Array, Array]:
        """Errors (2, h) of mean and variance, and their slopes (2, 2, h) in the parameters."""
        values, weights, *steep = curves(x[0], np.exp(x[1]))
        slopes = np.array(steep)
        center = (weights * values).sum(axis=1)
        apart = values - center[:, None]
        own = (weights * apart**2).sum(axis=1)
        in_mean = (weights * slopes).sum(axis=2)
        in_var = 2.0 * (weights * apart * slopes).sum(axis=2)
        # between two ends as a share of what the variance could still grow by
        left = np.where(both, (center - low) * (low + width - center) - own, 1.0)
        in_left = np.where(both, (2.0 * low + width - 2.0 * center) * in_mean - in_var, 0.0)
        wanted = np.where(both, (mean - low) * (low + width - mean) - var, 1.0)
        error = np.log(own / var) - np.log(left / wanted)
        slope = np.array([in_mean / np.sqrt(var), in_var / own - in_left / left])
        return np.array([(center - mean) / np.sqrt(var), error]), slope

    # Newton's method: no step is longer than 2, and each is halved until the errors are smaller
    with np.errstate(all="ignore"):
        x = np.array([start[0], np.log(start[1])])
        now, slopes = errors(x)
        for _ in range(100):
            done = np.abs(now).max(axis=0) < 1e-13
            if done.all():
                break
            (a, b), (c, d) = slopes
            step = np.array([b * now[1] - d * now[0], c * now[0] - a * now[1]]) / (a * d - b * c)
            step = np.where(done | ~np.isfinite(step), 0.0, step)
            step = step * np.minimum(1.0, 2.0 / np.maximum(np.abs(step).max(axis=0), 2.0))
            for _ in range(40):
                after, steep = errors(x + step)
                worse = ~(np.abs(after).sum(axis=0) <= np.abs(now).sum(axis=0))
                if not worse.any():
                    break
                step = np.where(worse, 0.5 * step, step)
            if not np.where(done, 0.0, step).any() or worse.all():
                break
            x, now, slopes = x + step, after, steep
    return x[0], np.exp(x[1])


def _transformed(mean: Array, std: Array, transform: PowerTransform) -> Marginals:
    """Steps that are normal on the scale of a transform, (h,) each."""
    kinks = np.empty((1, 0))
    if transform.power:
        kinks = ((-1.0 / transform.power - mean) / std)[:, None]

    def curve(z: Array) -> tuple[Array, Array]:
        x = mean[:, None] + std[:, None] * z
        return transform.inverse(x), transform.slope(x) * std[:, None]

    return Marginals.of(curve, len(mean), kinks, transform.lower)


def _lognormal(mean: Array, cov: Array, log: PowerTransform) -> tuple[Array, Array]:
    """Mean and covariance of ``L + exp(x)`` of a normal x."""
    with np.errstate(over="ignore", invalid="ignore"):
        above = np.exp(mean + 0.5 * cov.diagonal())
        return log.lower + above, np.outer(above, above) * np.expm1(cov)
