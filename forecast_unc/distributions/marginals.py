"""The values of h steps as increasing functions of normal scores, in a table: theory/transforms.md.

Arrays are (h, n), one row a step; a row alone serves all steps.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np
from scipy import stats
from scipy.special import log_ndtr, ndtr, ndtri, roots_legendre, stdtrit

from forecast_unc._checks import refusal
from forecast_unc._typing import Array, Flags, Positions
from forecast_unc.regression.kernels import symmetric

# With fewer the variance is that of values that no quadrature over 12 normal stds sees.
LEAST_DOF = 3.0
REACH = 12.0  # scores of the table end here: exp(-72) = 5e-32
_FAR = np.geomspace(2.5, REACH, 34)
_ALIKE = 1e-9
SCORES = np.concatenate([-_FAR[:0:-1], np.linspace(-2.5, 2.5, 61), _FAR[1:]])[None]  # (1, 127)
_POINTS, _SHARES = roots_legendre(6)  # on each panel between two scores
_MOST_ORDERS = 60  # of Hermite coefficients; the rest of a variance counts as one more
_ROUND = 1e-6  # so near to a whole number, in its unit, counts as one
_MOST_JUMPS = 100  # whole numbers around the median that are summed one by one
_CHUNK = 65_536  # whole numbers at a time

Curve = tuple[Array, Array]  # values and slopes (h, n) at scores


class Spread(NamedTuple):
    """Median and half the distance of the quantiles at z = -1 and 1, (h,); std if normal."""

    median: Array
    scale: Array


class Grid(NamedTuple):
    """Values ``origin + unit * k`` of whole numbers k, at each step."""

    origin: Array  # (h,)
    unit: Array  # (h,)

    def numbers(self, values: Array) -> Array:
        """The k, maybe broken, of values (h, n)."""
        return np.asarray((values - self.origin[:, None]) / self.unit[:, None])

    def values(self, numbers: Array) -> Array:
        """Values (h, n) of numbers k."""
        return np.asarray(self.origin[:, None] + self.unit[:, None] * numbers)

    def at(self, steps: Positions) -> "Grid":
        """The grid of some steps."""
        return Grid(self.origin[steps], self.unit[steps])


@dataclass(frozen=True, eq=False)
class Marginals:
    """Steps ``rest(z) + normal_std * T(z)`` of a normal score z, in bounds and maybe rounded.

    T is z itself or, with `dof`, Student's t. The rest is a cubic between the scores of the table,
    of the slopes there, and straight beyond them.
    """

    rest: Array  # (h, n)
    slopes: Array  # (h, n), of the rest
    normal_std: Array  # (h,), std of what is normal in units of y; 0 where nothing is
    lower: Array  # (h,), -inf for none
    upper: Array  # (h,), inf for none
    kinks: Array  # (1 or h, p), scores where the slope may jump, each twice in the table
    dof: float | None = None
    grid: Grid | None = None  # to which values are rounded; None if they are not

    @classmethod
    def normal(cls, mean: Array, std: Array) -> "Marginals":
        """Normal steps, (h,) each."""
        none = np.full(len(mean), np.inf)
        rest = np.repeat(np.asarray(mean)[:, None], SCORES.shape[1], axis=1)
        return cls(rest, np.zeros_like(rest), np.asarray(std), -none, none, np.empty((1, 0)))

    @classmethod
    def of(
        cls, curve: Callable[[Array], Curve], steps: int, kinks: Array, lower: float = -np.inf
    ) -> "Marginals":
        """Steps of a function of scores (1 or h, n) that returns values and slopes."""
        none = np.full(steps, np.inf)
        kinks = np.where(np.abs(kinks) < REACH, kinks, 0.0)
        scores = _scores(kinks)
        with np.errstate(over="ignore", invalid="ignore"):
            values, _ = curve(scores)
            _, slopes = curve(_beside(scores))
        values, slopes = (np.broadcast_to(a, (steps, scores.shape[1])) for a in (values, slopes))
        return cls(values, slopes, np.zeros(steps), np.full(steps, lower), none, kinks)

    def __len__(self) -> int:
        return len(self.normal_std)

    def __getitem__(self, at: Positions) -> "Marginals":
        names = ("rest", "slopes", "normal_std", "lower", "upper")
        rows = {name: getattr(self, name)[at] for name in names}
        kinks = self.kinks if len(self.kinks) == 1 else self.kinks[at]
        grid = None if self.grid is None else self.grid.at(at)
        return replace(self, **rows, kinks=kinks, grid=grid)

    @cached_property
    def scores(self) -> Array:
        """Scores of the table, (1 or h, n)."""
        return _scores(self.kinks)

    @cached_property
    def latent_normal(self) -> Flags:
        """Whether each step is normal before its bounds, (h,)."""
        level = (self.rest == self.rest[:, :1]).all(axis=1)
        return np.asarray(level & (self.normal_std > 0.0) & (self.dof is None))

    @property
    def certain(self) -> Flags:
        """Which steps have one value alone, (h,), between bounds that are the same."""
        return np.asarray(self.lower == self.upper)

    @property
    def is_normal(self) -> bool:
        """Whether every step is normal."""
        bounded = np.isfinite([self.lower, self.upper]).any() or self.grid is not None
        return not bounded and bool(self.latent_normal.all())

    @cached_property
    def _table(self) -> Curve:
        """Values and slopes (h, n) at the scores; so steep at most that cubics increase."""
        t, steep = student(self.scores, self.dof)
        with np.errstate(invalid="ignore"):
            values = self.rest + self.normal_std[:, None] * t
            slopes = self.slopes + self.normal_std[:, None] * steep
        return values, _increasing(self.scores, values, slopes)

    def __call__(self, z: Array) -> Array:
        """Values (h, n) at scores z, (h or 1, n)."""
        return self.bounded_and_rounded(self.latent(z))

    def latent(self, z: Array) -> Array:
        """Values (h, n) at scores z before bounds and rounding."""
        return self.latent_curve(z)[0]

    def latent_curve(self, z: Array) -> Curve:
        """Values and slopes (h, n) at scores z before bounds and rounding."""
        if self.latent_normal.all():
            values = self.rest[:, :1] + self.normal_std[:, None] * z
            return values, np.broadcast_to(self.normal_std[:, None], values.shape)
        return _interpolated(self.scores, *self._table, z)

    def _between_bounds(self, values: Array) -> Array:
        return np.minimum(np.maximum(values, self.lower[:, None]), self.upper[:, None])

    def bounded_and_rounded(self, values: Array) -> Array:
        """Values (h, n), rounded (halves down), none beyond the bounds."""
        if self.grid is not None:
            with np.errstate(invalid="ignore"):
                values = self.grid.values(np.ceil(self.grid.numbers(values) - 0.5))
        return self._between_bounds(values)

    def latent_score(self, y: Array, side: Literal["left", "right"] = "right") -> Array:
        """Largest scores (h, n) of values at most y before the bounds; -inf and inf beyond all.

        On the left those of values less than y.
        """
        if self.latent_normal.all():
            return np.asarray((y - self.rest[:, :1]) / self.normal_std[:, None])
        scores, (values, slopes) = self.scores, self._table
        y = np.broadcast_to(y, (len(self), y.shape[1]))
        at = np.array([np.searchsorted(v, row, side) for v, row in zip(values, y, strict=True)])
        beyond = (at == 0) | (at == values.shape[1])
        left = np.clip(at - 1, 0, values.shape[1] - 2)
        low, high = _taken(scores, left), _taken(scores, left + 1)
        goal = np.where(beyond | ~np.isfinite(y), _taken(values, left), y)

        def excess(z: Array) -> Curve:
            value, slope = _cubic(scores, values, slopes, left, z)
            return value - goal, slope

        rise = _taken(values, left + 1) - _taken(values, left)
        with np.errstate(divide="ignore", invalid="ignore"):
            start = low + (high - low) * (goal - _taken(values, left)) / rise
        z = newton(excess, low, high, np.where(np.isfinite(start), start, low))
        end = np.where(at == 0, 0, -1) % values.shape[1]
        with np.errstate(divide="ignore", invalid="ignore"):
            outside = _taken(scores, end) + (y - _taken(values, end)) / _taken(slopes, end)
        outside = np.where(_taken(slopes, end) > 0.0, outside, np.where(at == 0, -np.inf, np.inf))
        z = np.where(beyond, outside, z)
        return np.where(np.isnan(y), np.nan, np.where(np.isinf(y), y, z))

    def score(self, y: Array) -> Array:
        """Largest scores (h, n) of values of at most y: -inf if none, NaN where y is."""
        most = y  # the largest latent values that become y or less
        if self.grid is not None:
            most = self.grid.values(np.floor(self.grid.numbers(y) + _ROUND) + 0.5)
        z = np.where(y < self.lower[:, None], -np.inf, self.latent_score(most))
        return np.where(y >= self.upper[:, None], np.inf, z)

    def jump(self, y: Array) -> tuple[Array, Array]:
        """Scores (h, n) of all values less than y, and `score`: apart where y is an atom."""
        high = self.score(y)
        if self.grid is None:
            low = np.where(y > self.upper[:, None], np.inf, self.latent_score(y, "left"))
        else:
            number = self.grid.numbers(y)
            whole = np.abs(number - np.round(number)) <= _ROUND
            low = self.score(np.where(whole, y - self.grid.unit[:, None], y))
        at_start = (y == self.lower[:, None]) & np.isfinite(self.start[:, None])
        low = np.where(at_start | (y < self.lower[:, None]), -np.inf, low)
        with np.errstate(invalid="ignore"):
            near = np.abs(high - low) <= 1e-9 * (1.0 + np.abs(high))
        return np.where(near & np.isfinite(high), high, low), high

    @cached_property
    def start(self) -> Array:
        """The z at which a step leaves its lower bound, (h,); -inf if it has none within reach."""
        return self._reached(self.lower, "right")

    @cached_property
    def end(self) -> Array:
        """The z at which a step reaches its upper bound, (h,); inf if it has none within reach."""
        return self._reached(self.upper, "left")

    def _reached(self, bound: Array, side: Literal["left", "right"]) -> Array:
        """The z at which a step is at a bound, (h,); -inf or inf where none is within reach."""
        none = -np.inf if side == "right" else np.inf
        finite = np.isfinite(bound)
        if not finite.any():
            return np.full(len(self), none)
        y = np.where(finite, bound, self.rest[:, 0])
        if self.grid is not None:  # values round to a bound from half a unit off
            y = y - np.copysign(0.5, none) * self.grid.unit
        z = self.latent_score(y[:, None], side)[:, 0]
        return np.where(finite & (z > -REACH if side == "right" else z < REACH), z, none)

    @property
    def bounds_matter(self) -> Flags:
        """Whether a bound of each step has a probability that counts, (h,)."""
        return np.isfinite(self.start) | np.isfinite(self.end)

    @cached_property
    def spread(self) -> Spread:
        """Median and scale of the values."""
        return _spread(self)

    @property
    def latent_spread(self) -> Spread:
        """Median and scale before bounds and rounding."""
        return _spread(self.latent)

    def affine(self, factor: Array | float, shift: Array | float) -> "Marginals":
        """The steps of ``factor * y + shift``, a number or (h,) each; not 0, of one sign."""
        q = self.affine_latent(factor, shift)
        factor, shift = (np.broadcast_to(np.asarray(a, float), len(self)) for a in (factor, shift))
        ends = [factor * self.lower + shift, factor * self.upper + shift]
        low, high = ends if factor[0] > 0.0 else ends[::-1]
        grid = None
        if self.grid is not None:
            grid = Grid(factor * self.grid.origin + shift, np.abs(factor) * self.grid.unit)
        return replace(q, lower=low, upper=high, grid=grid)

    def affine_latent(self, factor: Array | float, shift: Array | float) -> "Marginals":
        """The steps of ``factor * y + shift`` before bounds and rounding, which stay."""
        factor, shift = (np.broadcast_to(np.asarray(a, float), len(self)) for a in (factor, shift))
        rest = factor[:, None] * self.rest + shift[:, None]
        slopes, kinks = np.abs(factor)[:, None] * self.slopes, self.kinks
        if factor[0] < 0.0:  # the scores are the same on both sides
            rest, slopes, kinks = rest[:, ::-1], slopes[:, ::-1], -kinks
        return replace(
            self, rest=rest, slopes=slopes, kinks=kinks, normal_std=np.abs(factor) * self.normal_std
        )

    def _rest_at_scores(self, center: Array | float, scale: Array | float) -> "Marginals":
        """Steps with ``rest(center + scale * z)`` for ``rest(z)``, (h,) each; T is unchanged."""
        center, scale = (np.broadcast_to(np.asarray(a, float), len(self)) for a in (center, scale))
        if self._rest_is_level:
            return self
        kinks = (self.kinks - center[:, None]) / scale[:, None] if self.kinks.size else self.kinks

        def curve(z: Array) -> Curve:
            values, slopes = self._rest_curve(center[:, None] + scale[:, None] * z)
            return values, scale[:, None] * slopes

        table = Marginals.of(curve, len(self), kinks)
        return replace(self, rest=table.rest, slopes=table.slopes, kinks=table.kinks)

    @property
    def _t_at_one(self) -> float:
        """T(1): half the 68 % band of what is normal, in its stds."""
        return float(student(np.ones((1, 1)), self.dof)[0].item())

    @property
    def _rest_is_level(self) -> bool:
        return not self.slopes.any()

    def _rest_curve(self, z: Array) -> Curve:
        return _interpolated(
            self.scores, self.rest, _increasing(self.scores, self.rest, self.slopes), z
        )

    def at_scores(self, center: Array, std: Array) -> "Marginals":
        """The steps at scores ``center + std * z``, (h,) each."""
        if self.dof is None:
            q = self._rest_at_scores(center, std)
            rest = q.rest + (self.normal_std * center)[:, None]
            return replace(q, rest=rest, normal_std=self.normal_std * std)
        return self.as_table()._rest_at_scores(center, std)

    def as_table(self) -> "Marginals":
        """The same steps with all of them in the rest."""
        values, slopes = self._table
        return replace(self, rest=values, slopes=slopes, normal_std=np.zeros(len(self)), dof=None)

    def after(self, curve: Callable[[Array], Curve], kinks: Array) -> "Marginals":
        """The steps at the scores that an increasing function of others returns, (h, n)."""

        def both(z: Array) -> Curve:
            score, steep = curve(z)
            values, slopes = self.latent_curve(score)
            return values, slopes * steep

        table = Marginals.of(both, len(self), kinks)
        return replace(table, lower=self.lower, upper=self.upper, grid=self.grid)

    def widened(self, factor: Array) -> "Marginals":
        """The steps at scores ``factor`` (h,) times as large: stds of what is normal, or was."""
        return replace(self._rest_at_scores(0.0, factor), normal_std=factor * self.normal_std)

    def with_wider_band(self, more: Array, some: Flags | None = None) -> "Marginals":
        """The steps with so much, (h,), added to half the 68 % band, and the same medians.

        Only some steps count, (h,), and others may be too wide for a float.
        """
        half, half_normal = self.latent_spread.scale, self.normal_std * self._t_at_one
        more = more if some is None else np.where(some, more, 0.0)
        with np.errstate(all="ignore"):
            plain = 1.0 + np.where(half > 0.0, more / half, 0.0)
        if self._rest_is_level:
            return self.widened(plain)

        def excess(factor: Array) -> Curve:
            values, slopes = self._rest_curve(factor[:, None] * [[-1.0, 1.0]])
            width = 0.5 * np.diff(values)[:, 0] + factor * half_normal
            return width - half - more, 0.5 * slopes.sum(axis=1) + half_normal

        with np.errstate(all="ignore"):
            return self.widened(newton(excess, np.ones_like(half), 3.0 * plain, plain))

    def with_dof(self, dof: float) -> "Marginals":
        """The steps with such tails of Student's t of what is normal in units of y."""
        # not after a transform: of a logarithm the mean would be infinite
        return replace(self, dof=dof)

    def conformal(self, sizes: Array) -> "Marginals":
        """The steps at the scores of sorted sizes of errors (h, k), in units of the 68 % band."""
        nodes = error_scores(sizes.shape[1])
        inner = replace(self, normal_std=self._t_at_one * self.normal_std, dof=None)

        def curve(z: Array) -> Curve:
            size, steep = _lines(nodes, sizes, z)
            values, slopes = inner.latent_curve(size)
            return values, steep * slopes

        own = Marginals.of(curve, len(self), np.concatenate([-nodes[::-1], [0.0], nodes])[None])
        return replace(own, lower=self.lower, upper=self.upper, grid=self.grid)

    def censored(self, lower: Array, upper: Array) -> "Marginals":
        """The steps with values below a bound (h,), or above another, moved to it."""
        low, high = np.maximum(lower, self.lower), np.minimum(upper, self.upper)
        return replace(self, lower=low, upper=high)._on_grid()

    def rounded(self) -> "Marginals":
        """The steps with each value rounded to the nearest whole number within the bounds."""
        return replace(self, grid=Grid(np.zeros(len(self)), np.ones(len(self))))._on_grid()

    def _on_grid(self) -> "Marginals":
        """The steps with bounds at the outermost whole numbers within them; an error if none is."""
        if self.grid is None:
            return self
        origin, unit = self.grid
        low = origin + unit * np.ceil((self.lower - origin) / unit - _ROUND)
        high = origin + unit * np.floor((self.upper - origin) / unit + _ROUND)
        if (low > high).any():
            at = int((low > high).argmax())
            got = f"{self.lower[at]:g} to {self.upper[at]:g}"
            remedy = "Round first, or take wider bounds."
            raise refusal("bounds", "hold a whole number", got, remedy)
        return replace(self, lower=low, upper=high)

    def mean(self) -> Array:
        """Mean of each step, (h,); not finite where it is too large for a float."""
        return self.rest[:, 0] if self.is_normal else self._quadrature[2]

    def variance(self) -> Array:
        """Variance of each step, (h,)."""
        _, weights, _, deviation = self._quadrature
        return integral(weights * deviation**2)

    def covariance(self, cor: Array) -> Array:
        """Joint covariance (h, h) of the steps, by correlations of scores: theory/transforms.md.

        Mehler's series. What its terms leave of a variance counts as one more, so that the diagonal
        is right whatever their number.
        """
        total = np.zeros_like(cor)
        with np.errstate(over="ignore", invalid="ignore"):
            if self.is_normal:
                return np.asarray(np.outer(self.normal_std, self.normal_std) * cor)
            for c in self._hermite[::-1]:
                total += np.outer(c, c)
                total *= cor
            return symmetric(total)  # not finite where it is too large for a float

    @cached_property
    def _hermite(self) -> Array:
        """Hermite coefficients c_n (n, h), n from 1, and last the root of what they leave."""
        nodes, weights, _, deviation = self._quadrature
        terms, last = np.zeros((_MOST_ORDERS + 1, len(self))), np.full(len(self), _MOST_ORDERS)
        with np.errstate(over="ignore", invalid="ignore"):
            weighted = weights * deviation
            left = integral(weighted * deviation)
            least, before, now = 1e-13 * left, np.zeros_like(nodes), np.ones_like(nodes)
            for n in range(_MOST_ORDERS):
                before, now = now, (nodes * now - np.sqrt(n) * before) / np.sqrt(n + 1)
                open_ = last > n  # no step depends on the others
                terms[n] = np.where(open_, integral(weighted * now), 0.0)
                left = left - terms[n] ** 2
                last[open_ & (left <= least)] = n + 1
                if (last <= n + 1).all():
                    break
            terms[last, np.arange(len(self))] = np.sqrt(np.maximum(left, 0.0))  # Bessel
        return terms[: last.max() + 1]

    @cached_property
    def _quadrature(self) -> tuple[Array, Array, Array, Array]:
        """Nodes, their weights, the mean, and values less the mean."""
        nodes, weights = self.nodes(*self._cuts())
        values = self._integrand(nodes)
        base = np.where(np.isfinite(self.upper), self.upper, values[:, values.shape[1] // 2])
        base = np.where(np.isfinite(self.lower), self.lower, base)  # where values can be certain
        with np.errstate(over="ignore", invalid="ignore"):
            mean = base + integral(weights * (values - base[:, None]))
            return nodes, weights, mean, values - mean[:, None]

    def _cuts(self) -> list[Array]:
        """Scores (h, p) at which bounds begin and end, and at which rounded values jump."""
        cuts = [self.start[:, None], self.end[:, None]] if self.bounds_matter.any() else []
        return cuts if self.grid is None else [*cuts, self.latent_score(self._edges)]

    def nodes(self, *cuts: Array) -> tuple[Array, Array]:
        """Gauss-Legendre nodes and weights (1 or h, n) of an integral over N(0, 1).

        Panels end at the scores of the table, and at those of cuts (h, p).
        """
        ends = self.scores
        if cuts:
            rows = np.column_stack([np.broadcast_to(ends, (len(self), ends.shape[1])), *cuts])
            ends = np.sort(np.nan_to_num(np.clip(rows, -REACH, REACH)), axis=1)
        half = 0.5 * np.diff(ends, axis=1)[:, :, None]
        nodes = (ends[:, :-1, None] + half * (1.0 + _POINTS)).reshape(len(ends), -1)
        weights = (half * _SHARES).reshape(len(ends), -1)
        return nodes, weights * normal_density(nodes)

    @cached_property
    def _edges(self) -> Array:
        """Values half way between the whole numbers around the median, (h, p)."""
        assert self.grid is not None
        center = np.round(self.grid.numbers(self.latent(np.zeros((1, 1)))))
        numbers = center + np.arange(-_MOST_JUMPS // 2, _MOST_JUMPS // 2 + 1) + 0.5
        return self.grid.values(numbers)

    def _integrand(self, z: Array) -> Array:
        """Values, rounded where their jumps are ends of panels."""
        values = self.latent(z)
        smooth = self._between_bounds(values)
        if self.grid is None:
            return smooth
        near = (values >= self._edges[:, :1]) & (values <= self._edges[:, -1:])
        return np.where(near, self.bounded_and_rounded(values), smooth)

    def atoms(self, reach: float = 5.0, least: float = 1e-6) -> list[tuple[int, float, float]]:
        """Step, value and probability of each atom within so many stds, from some probability."""
        found: list[tuple[int, float, float]] = []
        for step, ends in enumerate(self(np.array([[-reach, reach]]))):
            own = self[np.array([step])]
            for values in own._candidates(ends, least):
                mass = between(*own.jump(values))[0]
                some = mass > least
                both = zip(values[0, some].tolist(), mass[some].tolist(), strict=True)
                found += [(step, value + 0.0, p) for value, p in both]  # no -0
        return found

    def _candidates(self, ends: Array, least: float) -> list[Array]:
        """Values (1, n) of one step between two ends that may have such a probability."""
        bounds = np.unique([end for end in (self.lower[0], self.upper[0]) if np.isfinite(end)])
        if self.grid is None:
            return [bounds[None]]
        origin, unit = self.grid.origin[0], self.grid.unit[0]
        slopes = self._table[1][0]
        with np.errstate(divide="ignore"):
            densest = (normal_density(self.scores[0]) / slopes).max()
        if ends[1] + unit == ends[1]:  # a unit that is lost beside them
            return []
        if unit * densest < 0.5 * least:
            return [bounds[None]]
        first, last = (np.round((end - origin) / unit) for end in ends)
        starts = np.arange(first, last + 1.0, _CHUNK)
        numbers = [np.arange(start, min(start + _CHUNK, last + 1.0)) for start in starts]
        return [(origin + unit * number)[None] for number in numbers]

    def cdf(self, y: Array) -> Array:
        """Probability of a value up to each y, (h,) or (h, n)."""
        return np.asarray(ndtr(self.score(y.reshape(len(y), -1)))).reshape(y.shape)

    def pit(self, y: Array) -> Array:
        """Probability of a value below y, and half of that of y itself if it is an atom, (h,)."""
        # with the whole of it, counts would lie too high whatever the forecast
        low, high = self.jump(y[:, None])
        return np.asarray(0.5 * (ndtr(low) + ndtr(high)))[:, 0]

    def nlpd(self, y: Array) -> Array:
        """Negative log density at one y a step, (h,), inf where y is impossible."""
        low, z = (scores[:, 0] for scores in self.jump(y[:, None]))
        atom = low < z
        finite = np.where(np.isfinite(z), z, 0.0)
        steep = self.latent_curve(finite[:, None])[1][:, 0]
        with np.errstate(divide="ignore", invalid="ignore"):
            density = 0.5 * np.log(2 * np.pi) + 0.5 * finite**2 + np.log(steep)
            lump = np.where(np.isneginf(low), -log_ndtr(z), -np.log(between(low, z)))
        beyond = np.isinf(z) | (self.grid is not None) | ((y == self.lower) & (z <= -REACH))
        loss = np.where(atom, lump, np.where(beyond, np.inf, density))
        return np.where(np.isnan(z), np.nan, loss)

    def crps(self, y: Array) -> Array:
        """Continuous ranked probability score at one y a step, (h,): theory/transforms.md."""
        at = np.column_stack(self.jump(y[:, None]))
        nodes, weights = self.nodes(np.nan_to_num(at), *self._cuts())
        values = self._integrand(nodes)
        spread = (values - self(np.zeros((1, 1)))) * (2 * ndtr(nodes) - 1)
        return integral(weights * (np.abs(values - y[:, None]) - spread))


def average(members: Sequence[Marginals], weights: Array) -> Marginals:
    """The average of functions of the first n of h steps, by weights (m, h) that add up to 1."""
    steps = np.arange(weights.shape[1])
    dofs = {q.dof for q in members}
    kept = [q if len(dofs) == 1 else q.as_table() for q in members]
    rows = []
    for q, weight in zip(kept, weights, strict=True):
        at = np.minimum(steps, len(q) - 1)
        rows.append(q[np.where(weight > 0.0, at, (weight > 0.0).argmax())])  # no others are read
    kinks = _joined_kinks([q.kinks for q in rows if not q._rest_is_level])
    scores = _scores(kinks)

    def total(values: Sequence[Array]) -> Array:
        both = zip(weights, values, strict=True)
        return np.asarray(sum((w.reshape(-1, *[1] * (v.ndim - 1)) * v for w, v in both)))

    def rest(q: Marginals) -> Curve:
        if q._rest_is_level:
            return q.rest[:, :1], np.zeros((len(q), 1))
        if q.kinks is kinks or not kinks.size:
            return q.rest, q.slopes
        return q._rest_curve(scores)[0], q._rest_curve(_beside(scores))[1]

    values, slopes = zip(*map(rest, rows), strict=True)
    n = scores.shape[1] if any(v.shape[1] > 1 for v in values) else SCORES.shape[1]
    shape = (len(steps), n)
    low, high = (
        _joint_end([sign * getattr(q, name) for q in rows], weights)
        for name, sign in (("lower", 1.0), ("upper", -1.0))
    )
    grid = rows[0].grid
    for q in rows:  # rounded if all are, to the same
        if grid is None or q.grid is None or not np.array_equal(q.grid, grid):
            grid = None
    own = Marginals(
        np.broadcast_to(total(values), shape),
        np.broadcast_to(total(slopes), shape),
        total([q.normal_std for q in rows]),
        low,
        -high,
        kinks,
        rows[0].dof,
        grid,
    )
    return own._on_grid() if grid is not None else own


def _joint_end(ends: Sequence[Array], weights: Array) -> Array:
    """Weighted averages (h,) of lower ends, exact of equal ones; -inf where one is."""
    rows = np.array(ends)
    first = np.where(weights > 0, rows, -np.inf).max(axis=0)
    used = (weights > 0) & (rows != first)
    apart = np.subtract(rows, first, out=np.zeros_like(rows), where=used)
    return np.asarray(first + (weights * apart).sum(axis=0))


def _joined_kinks(kinks: Sequence[Array]) -> Array:
    """The kinks of all members, (1 or h, p)."""
    kinks = [k for k in kinks if k.size]
    if not kinks:
        return np.empty((1, 0))
    if len(kinks) == 1:
        return kinks[0]
    rows = max(len(k) for k in kinks)
    return np.column_stack([np.broadcast_to(k, (rows, k.shape[1])) for k in kinks])


def _spread(quantiles: Callable[[Array], Array]) -> Spread:
    low, median, high = quantiles(np.array([[-1.0, 0.0, 1.0]])).T
    return Spread(median, 0.5 * (high - low))


def student(z: Array, dof: float | None) -> Curve:
    """Student's t, T(z) = (z_.9 / t_.9) F^-1(Phi(z)), of the same 80 % interval, and its slope."""
    if dof is None:
        return z, np.ones_like(z)
    scale = float(ndtri(0.9) / stdtrit(dof, 0.9))
    # From the lower tail, where small probabilities keep their digits. Beyond a z of 32 some of
    # SciPy's quantiles are inf.
    t = np.asarray(-np.sign(z) * scale * stdtrit(dof, ndtr(-np.minimum(np.abs(z), 30.0))))
    slope = np.exp(stats.norm.logpdf(z) - stats.t.logpdf(t, dof, scale=scale))
    return t, np.asarray(slope)


def error_scores(k: int) -> Array:
    """Positive normal scores (k,) of sorted sizes of errors: the i-th has coverage i / (k + 1)."""
    return np.asarray(ndtri(0.5 + 0.5 * np.arange(1, k + 1) / (k + 1.0)))


def error_sizes(scores: Array, sizes: Array) -> Array:
    """Half widths of the central intervals at positive normal scores, from fewer sorted sizes."""
    return np.asarray(_lines(error_scores(len(sizes)), sizes[None], scores[None])[0][0])


def _lines(nodes: Array, values: Array, z: Array) -> Curve:
    """Odd functions (h, n) on straight lines from 0 through values (h, k) at nodes (k,)."""
    x, known = np.append(0.0, nodes), np.column_stack([np.zeros(len(values)), values])
    slopes = np.column_stack([np.diff(known) / np.diff(x), known[:, -1] / x[-1]])
    size = np.abs(z)
    at = np.searchsorted(x, size[0], side="right") - 1
    steep = slopes[:, at]
    beyond = at == len(nodes)  # from 0 through the outermost
    line = np.where(beyond, steep * size, known[:, at] + steep * (size - x[at]))
    return np.sign(z) * line, steep


def _scores(kinks: Array) -> Array:
    """Scores of a table: the fixed ones, and kinks (1 or h, p) twice."""
    if not kinks.size:
        return SCORES
    fixed = np.broadcast_to(SCORES, (len(kinks), SCORES.shape[1]))
    return np.sort(np.column_stack([fixed, kinks, kinks]), axis=1)


def _beside(scores: Array) -> Array:
    """Scores to the left of the first of two alike, and to the right of the second."""
    near = 1e-9 * (1.0 + np.abs(scores))
    twice = np.diff(scores, axis=1) == 0.0
    left = np.column_stack([twice, np.zeros(len(scores), bool)])
    right = np.column_stack([np.zeros(len(scores), bool), twice])
    return np.asarray(
        scores - np.where(left & ~right, near, 0.0) + np.where(right & ~left, near, 0.0)
    )


def _increasing(scores: Array, values: Array, slopes: Array) -> Array:
    """Slopes with which cubics through values increase (F. N. Fritsch and R. E. Carlson 1980)."""
    width = np.diff(scores, axis=1)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):  # near the largest float
        # of scores that differ by roundoff it would be anything
        secants = np.where(width > _ALIKE, np.diff(values, axis=1) / width, np.inf)
        end = np.full((len(values), 1), np.inf)
        least = np.minimum(np.column_stack([end, secants]), np.column_stack([secants, end]))
        return np.clip(slopes, 0.0, 3.0 * np.maximum(least, 0.0))


def _taken(table: Array, at: Positions) -> Array:
    """Entries (h, n) of a table (1 or h, m) at columns (1 or h, n)."""
    if len(at) == 1:
        return table[:, at[0]]
    return table[0][at] if len(table) == 1 else np.take_along_axis(table, at, axis=1)


def _interpolated(scores: Array, values: Array, slopes: Array, z: Array) -> Curve:
    """Values and slopes (h, n) at scores z of cubics between those of a table, straight beyond."""
    inside = np.clip(z, scores[:, :1], scores[:, -1:])
    if len(scores) == 1:
        at = np.searchsorted(scores[0], inside, side="right")
    else:
        rows = zip(scores, np.broadcast_to(inside, (len(scores), z.shape[1])), strict=True)
        at = np.array([np.searchsorted(row, x, side="right") for row, x in rows])
    at = np.clip(at - 1, 0, scores.shape[1] - 2)
    value, slope = _cubic(scores, values, slopes, at, inside)
    outside = z - inside
    if outside.any():
        with np.errstate(invalid="ignore"):
            value = np.where((outside == 0.0) | (slope == 0.0), value, value + slope * outside)
    return value, slope


def _cubic(scores: Array, values: Array, slopes: Array, at: Positions, z: Array) -> Curve:
    """Values and slopes (h, n) at scores z of the cubic on panels of a table."""
    first, width = _taken(scores, at), _taken(scores, at + 1) - _taken(scores, at)
    width = np.where(width > 0.0, width, 1.0)
    t = (z - first) / width
    low = _taken(values, at)
    left, right = width * _taken(slopes, at), width * _taken(slopes, at + 1)
    with np.errstate(invalid="ignore", over="ignore"):
        rise = _taken(values, at + 1) - low
        # low + t (left + t (b + t c)): the cubic of these values and slopes at both ends
        b, c = 3.0 * rise - 2.0 * left - right, left + right - 2.0 * rise
        return low + t * (left + t * (b + t * c)), (left + t * (2.0 * b + 3.0 * t * c)) / width


def between(low: Array, high: Array) -> Array:
    """P(low < z <= high), from the nearer tail, where small probabilities keep their digits."""
    turn = low > 0
    return np.asarray(ndtr(np.where(turn, -low, high)) - ndtr(np.where(turn, -high, low)))


def newton(
    function: Callable[[Array], Curve], low: Array, high: Array, start: Array | float = 0.0
) -> Array:
    """Largest x between low and high at which an increasing function, of known slope, is <= 0."""
    # Within brackets; each entry stays once it has converged, so that it does not depend on others.
    x, last = np.clip(start, low, high), high - low
    done = np.zeros(x.shape, dtype=np.bool_)
    for _ in range(128):
        here, steep = function(x)
        low, high = np.where(here <= 0.0, x, low), np.where(here <= 0.0, high, x)
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            near = x - here / steep
        arrived = np.abs(near - x) <= 1e-9 * (1.0 + np.abs(x))
        good = (low <= near) & (near <= high) & (np.abs(near - x) <= 0.5 * last) | arrived
        following = np.where(good, near, 0.5 * (low + high))
        last = np.abs(following - x)
        x = np.where(done, x, following)
        done |= arrived | (last <= 1e-14 * (1.0 + np.abs(x)))
        if done.all():
            break
    return np.asarray(x)


def integral(terms: Array) -> Array:
    """Sums (h,) over nodes, panel by panel: one that is empty at a step does not change its sum."""
    panels = terms.reshape(len(terms), -1, len(_POINTS)).sum(axis=2)
    return np.asarray(panels.cumsum(axis=1)[:, -1])


def normal_density(z: Array) -> Array:
    """Density of N(0, 1)."""
    return np.asarray(np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi))
