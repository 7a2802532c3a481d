"""The values of h steps as increasing functions of h normal scores: theory/transforms.md.

Arrays are (h, n), one row a step; a row alone serves all steps.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, reduce
from itertools import product
from typing import Protocol, Self

import numpy as np
from scipy import stats
from scipy.special import log_ndtr, ndtr, ndtri, roots_legendre, stdtr, stdtrit

from forecast_unc._typing import Array, Flags, Positions
from forecast_unc.distributions.power import PowerTransform

# With fewer the variance is that of values that no quadrature over 12 normal stds sees.
LEAST_DOF = 3.0
N_NODES = 200  # Gauss-Legendre, on each panel between kinks
FEW_NODES = 12  # on each of more panels, where there are many kinks
REACH = 12.0  # z beyond this from where the integrand peaks does not count: exp(-72) = 5e-32
_ROUND = 1e-6  # so near to a whole number, in its unit, counts as one
_MOST_JUMPS = 100  # of whole numbers around the median are ends of panels


class Link(Protocol):
    """An increasing function of a number, for each step; a new one needs no more than this."""

    def __call__(self, x: Array) -> Array:
        """Values at x."""
        ...

    def slope(self, x: Array) -> Array:
        """Derivative at x."""
        ...

    def inverse(self, y: Array) -> Array:
        """Largest x whose value is at most y; -inf if there is none."""
        ...

    def kinks(self) -> Array | None:
        """The x at which the slope jumps, (h or 1, p); None if it is smooth."""
        return None

    def __getitem__(self, at: Positions) -> Self:  # the link of some of the steps
        return self

    def mirrored(self) -> "Link":
        """The link -f(-x)."""
        return Mirror(self)


Chain = tuple[Link, ...]


@dataclass(frozen=True, eq=False)
class Mirror(Link):
    """-f(-x) of a link f: what it is to y, this is to -y."""

    link: Link

    def __call__(self, x: Array) -> Array:
        return -self.link(-x)

    def slope(self, x: Array) -> Array:
        return self.link.slope(-x)

    def inverse(self, y: Array) -> Array:
        """The x of y; inf above all values."""
        return -self.link.inverse(-y)

    def kinks(self) -> Array | None:
        """Kinks of the link on the other side of 0."""
        kinks = self.link.kinks()
        return None if kinks is None else -kinks

    def __getitem__(self, at: Positions) -> Self:
        return type(self)(self.link[at])

    def mirrored(self) -> Link:
        return self.link


@dataclass(frozen=True, eq=False)
class Affine(Link):
    """shift + scale x, with shift (h,) and a positive scale (h,)."""

    shift: Array
    scale: Array

    def __call__(self, x: Array) -> Array:
        return self.shift[:, None] + self.scale[:, None] * x

    def slope(self, x: Array) -> Array:
        return self.scale[:, None]

    def inverse(self, y: Array) -> Array:
        return (y - self.shift[:, None]) / self.scale[:, None]

    def __getitem__(self, at: Positions) -> Self:
        return type(self)(self.shift[at], self.scale[at])

    def mirrored(self) -> Self:
        return type(self)(-self.shift, self.scale)


@dataclass(frozen=True)
class Power(Link):
    """Map from the scale of a logarithm or Box-Cox transform back to values."""

    transform: PowerTransform

    def __call__(self, x: Array) -> Array:
        return self.transform.inverse(x)

    def slope(self, x: Array) -> Array:
        return self.transform.slope(x)

    def inverse(self, y: Array) -> Array:
        """The x of y; -inf below the bound."""
        return self.transform.forward(y)

    def kinks(self) -> Array | None:
        """The score at which Box-Cox leaves its bound."""
        power = self.transform.power
        return np.array([[-1.0 / power]]) if power else None


@dataclass(frozen=True)
class Student(Link):
    """Student's t, T(z) = (z_.9 / t_.9) F^-1(Phi(z)), of the same central 80 % interval."""

    dof: float

    @property
    def scale(self) -> float:
        """z_.9 / t_.9."""
        return float(ndtri(0.9) / stdtrit(self.dof, 0.9))

    def __call__(self, x: Array) -> Array:
        # Quantiles are most of what a calibration takes; nodes are often those of all steps.
        x = x[:1] if (x == x[:1]).all() else x
        # From the lower tail, where small probabilities keep their digits. Beyond a z of 32 some of
        # SciPy's quantiles are inf.
        p = ndtr(-np.minimum(np.abs(x), 30.0))
        t = np.where(np.isinf(x), -np.inf, stdtrit(self.dof, p))
        return np.asarray(-np.sign(x) * self.scale * t)

    def slope(self, x: Array) -> Array:
        log_t = stats.t.logpdf(self(x), self.dof, scale=self.scale)
        return np.asarray(np.exp(stats.norm.logpdf(x) - log_t))

    def inverse(self, y: Array) -> Array:
        x = -np.sign(y) * ndtri(stdtr(self.dof, -np.abs(y) / self.scale))
        return np.where(y == 0.0, 0.0, x)

    def mirrored(self) -> Self:
        return self


@dataclass(frozen=True, eq=False)
class Polyline(Link):
    """Straight lines through values at nodes, and from 0 through the outermost."""

    nodes: Array  # (k,), increasing, 0 in the middle
    values: Array  # (h, k), not decreasing, 0 in the middle

    @classmethod
    def of_sizes(cls, sizes: Array) -> Self:
        """Map by sorted sizes of errors (h, k): the i-th bounds those of coverage i / (k + 1)."""
        k = sizes.shape[1]
        above = ndtri(0.5 + 0.5 * np.arange(1, k + 1) / (k + 1.0))
        nodes = np.concatenate([-above[::-1], [0.0], above])
        return cls(nodes, np.hstack([-sizes[:, ::-1], np.zeros((len(sizes), 1)), sizes]))

    @cached_property
    def slopes(self) -> Array:
        """Slopes before the first node, between the nodes, and beyond the last, (h, k + 1)."""
        between = np.diff(self.values, axis=1) / np.diff(self.nodes)
        first, last = (self.values[:, end] / self.nodes[end] for end in (0, -1))
        return np.column_stack([first, between, last])

    def __call__(self, x: Array) -> Array:
        following = np.searchsorted(self.nodes, x, side="right")
        at, row = np.maximum(following - 1, 0), np.arange(len(self.values))[:, None]
        return np.asarray(self.values[row, at] + self.slopes[row, following] * (x - self.nodes[at]))

    def slope(self, x: Array) -> Array:
        row, following = np.arange(len(self.values)), np.searchsorted(self.nodes, x, side="right")
        return self.slopes[row[:, None], following]

    def inverse(self, y: Array) -> Array:
        """The x of y; the largest if equal values leave a choice."""
        following = (self.values[:, None] <= y[:, :, None]).sum(axis=2)
        at, row = np.maximum(following - 1, 0), np.arange(len(self.values))[:, None]
        rise = y - self.values[row, at]
        with np.errstate(divide="ignore", invalid="ignore"):  # where all values are the same
            beyond = np.where(rise == 0.0, 0.0, rise / self.slopes[row, following])
        return np.asarray(self.nodes[at] + beyond)

    def kinks(self) -> Array:
        return self.nodes[None]

    def __getitem__(self, at: Positions) -> Self:
        return type(self)(self.nodes, self.values[at])


@dataclass(frozen=True, eq=False)
class Table(Link):
    """Values y_i where the probability is p_i, on straight lines in the probability; h steps alike.

    Beyond the table, where less than its last probability is left, all is at the last value.
    """

    values: Array  # (k,), increasing
    below: Array  # (k,), probability up to each, from 0 on, increasing
    above: Array  # (k,), one less that, where small ones keep their digits; the last is 0
    steps: int

    @cached_property
    def scores(self) -> Array:
        """The normal scores of the values, (k,)."""
        return np.asarray(np.where(self.below < 0.5, ndtri(self.below), -ndtri(self.above)))

    def __call__(self, x: Array) -> Array:
        values = np.where(
            x < 0.0,
            np.interp(ndtr(x), self.below, self.values),
            np.interp(-ndtr(-x), -self.above, self.values),
        )
        return np.broadcast_to(values, (self.steps, x.shape[1]))

    def slope(self, x: Array) -> Array:
        at = np.clip(np.searchsorted(self.scores, x, side="right"), 1, len(self.values) - 1)
        low = self.below[at] < 0.5
        mass = np.where(
            low, self.below[at] - self.below[at - 1], self.above[at - 1] - self.above[at]
        )
        steep = (self.values[at] - self.values[at - 1]) / mass * normal_density(x)
        return np.broadcast_to(steep, (self.steps, x.shape[1]))

    def inverse(self, y: Array) -> Array:
        below = ndtri(np.interp(y, self.values, self.below, left=0.0))
        x = np.where(below < 0.0, below, -ndtri(np.interp(y, self.values, self.above)))
        return np.broadcast_to(x, (self.steps, y.shape[1]))

    def kinks(self) -> Array:
        """The scores of the first values."""
        return self.scores[None, 1 : _MOST_JUMPS + 1]

    def __getitem__(self, at: Positions) -> Self:
        return replace(self, steps=len(np.arange(self.steps)[at]))


def linked(*links: Link) -> Chain:
    """A chain of these links, neighbouring affine ones merged."""
    chain: list[Link] = []
    for link in links:
        last = chain[-1] if chain else None
        if isinstance(link, Affine) and isinstance(last, Affine):
            chain[-1] = Affine(link.shift + link.scale * last.shift, link.scale * last.scale)
        else:
            chain.append(link)
    return tuple(chain)


def value(chain: Chain, z: Array) -> Array:
    """Values of a chain at scores z."""
    return reduce(lambda x, link: link(x), chain, z)


def slope(chain: Chain, z: Array) -> Array:
    """Derivative of a chain at scores z."""
    x, steep = z, np.ones((1, 1))
    for link in chain:
        steep, x = steep * link.slope(x), link(x)
    return steep


def inverse(chain: Chain, y: Array) -> Array:
    """Largest scores at which a chain is at most y; -inf if there are none."""
    return reduce(lambda x, link: link.inverse(x), reversed(chain), y)


def is_plain(chain: Chain) -> bool:
    """Whether a chain is that of a normal distribution."""
    return all(isinstance(link, Affine) for link in chain)


def widened(chain: Chain, factor: Array) -> Chain:
    """The chain with ``factor`` (h,) times the stds, and the same medians."""
    shape, transform = _shape(chain)
    median = value(shape, np.zeros((1, 1)))[:, 0]
    return linked(*shape, Affine((1.0 - factor) * median, factor), *transform)


def with_wider_band(chain: Chain, more: Array) -> Chain:
    """The chain with half the width of the 68 % band so much larger, (h,), and the same medians."""
    ends = np.array([[-1.0, 1.0]])
    own = 0.5 * np.diff(value(chain, ends))[:, 0]
    factor = 1.0 + np.divide(more, own, out=np.zeros_like(own), where=own > 0.0)
    if is_plain(chain):
        return widened(chain, factor)

    # Stds of logarithms grow by less: a shock sets members apart by many of their widths, and so
    # many times the std of a logarithm is beyond any float.
    def too_wide(less: Array) -> tuple[Array, Array]:
        grown = widened(chain, factor * np.exp(less))
        width, steep = np.diff(value(grown, ends))[:, 0], slope(grown, ends).sum(axis=1)
        return np.log(0.5 * width / (factor * own)), steep / width

    with np.errstate(all="ignore"):  # steps without weight, and what is too wide for a float
        less = newton(too_wide, -np.log(factor), np.zeros(len(own)))
    return widened(chain, factor * np.exp(less))


def with_dof(chain: Chain, dof: float) -> Chain:
    """The chain with such tails of Student's t in the place of others, or of none."""
    if any(isinstance(link, Student) for link in chain):
        return tuple(Student(dof) if isinstance(link, Student) else link for link in chain)
    # not after a transform: of a logarithm the mean would be infinite
    return (Student(dof), *chain) if is_plain(chain) else chain


def shaped(chain: Chain, polyline: Polyline) -> Chain:
    """The chain with another shape, of the same medians and in units of the 68 %."""
    shape, transform = _shape(chain)
    if not shape:
        return linked(polyline, *chain)
    unit = np.ones((len(polyline.values), 1))
    low, median, high = (unit * value(shape, np.array([[-1.0, 0.0, 1.0]]))).T
    return linked(polyline, Affine(median, 0.5 * (high - low)), *transform)


def plain(chain: Chain) -> Chain:
    """The chain with normals of the same moments in the place of all shapes but Student's t."""
    shape, transform = _shape(chain)
    if not shape or _is(shape[-1], Student, Sums):
        return chain
    q = Map.of(*shape)
    var = q.covariance(np.eye(len(q))).diagonal()
    return linked(Affine(q.mean(), np.sqrt(var)), *transform)


def _is(link: Link, *kinds: type[Link]) -> bool:
    return isinstance(link.link if isinstance(link, Mirror) else link, kinds)


def _shape(chain: Chain) -> tuple[Chain, Chain]:
    """The links up to the last that is a shape of the normal score, and those after it."""
    shapes = (i for i, link in enumerate(chain, start=1) if not _is(link, Affine, Power))
    last = max(shapes, default=0)
    # sums count as a shape where nothing bounds them, and as a transform else
    if last and _is(chain[last - 1], Sums) and np.isfinite(_ends(chain)).any():
        last = 0
    return chain[:last], chain[last:]


def _ends(chain: Chain) -> Array:
    """Ends of the values of a chain below and above, (2, h); infinite where there is none."""
    if is_plain(chain) and isinstance(chain[0], Affine):
        return np.outer([-np.inf, np.inf], np.ones(len(chain[0].shift)))
    with np.errstate(invalid="ignore"):  # straight lines without a slope
        ends = value(chain, np.array([[-np.inf, np.inf]])).T
    return np.where(np.isnan(ends), [[-np.inf], [np.inf]], ends)


@dataclass(frozen=True, eq=False)
class Map:
    """The functions q of h steps, between bounds."""

    chains: tuple[Chain, ...]
    weights: Array  # (k, h), adding up to 1 at each step; nothing is read where one is 0
    low: Array  # (h,), a bound above the ends of the chains; -inf for none
    high: Array  # (h,), another below them; inf for none
    grid: Array | None = None
    """Of values that are rounded: one of them, and their distance, (2, h)."""
    side: float = 1.0  # -1 after an odd number of minus signs: halves go up, draws are minus others

    @classmethod
    def of(cls, *links: Link) -> Self:
        """The functions of one chain, whose first link is affine or has a row a step."""
        chain = linked(*links)
        none = np.full(_ends(chain).shape[1], np.inf)
        return cls((chain,), np.ones((1, len(none))), -none, none)

    def __len__(self) -> int:
        return len(self.low)

    def __getitem__(self, at: Positions) -> "Map":
        weights = self.weights[:, at]
        used = np.flatnonzero(weights.any(axis=1))
        chains = tuple(tuple(link[at] for link in self.chains[k]) for k in used)
        grid = None if self.grid is None else self.grid[:, at]
        return Map(chains, weights[used], self.low[at], self.high[at], grid, self.side)

    @property
    def normal(self) -> bool:
        """Whether every step is normal."""
        plain = len(self.chains) == 1 and is_plain(self.chains[0]) and self.grid is None
        return plain and bool(np.isinf([self.low, self.high]).all())

    def __call__(self, z: Array) -> Array:
        """Values (h, n) at scores z, (h or 1, n)."""
        return self.ended(self.latent(z))

    def ended(self, values: Array) -> Array:
        """Values (h, n), none beyond the bounds, rounded (halves down, but after a minus sign)."""
        values = self._between_bounds(values)
        if self.grid is None:
            return values
        origin, unit = self.grid[0, :, None], self.side * self.grid[1, :, None]
        return np.asarray(origin + unit * np.ceil((values - origin) / unit - 0.5))

    def _between_bounds(self, values: Array) -> Array:
        values = np.maximum(values, self.lower[:, None])
        return values if np.isinf(self.upper).all() else np.minimum(values, self.upper[:, None])

    def latent(self, z: Array, of: Callable[[Chain, Array], Array] = value) -> Array:
        """Values (h, n) at scores z, or slopes, before the bounds and before they are rounded."""
        both = zip(self.weights, self.chains, strict=True)
        return reduce(np.add, (_times(w[:, None], of(chain, z)) for w, chain in both))

    def latent_slope(self, z: Array) -> Array:
        """Derivative of :meth:`latent` in z, (h, n)."""
        return self.latent(z, slope)

    def latent_score(self, y: Array) -> Array:
        """Scores (h, n) of values before the bounds."""
        if len(self.chains) == 1:
            return inverse(self.chains[0], y)
        return solve(self.latent, self.latent_slope, y)

    def score(self, y: Array) -> Array:
        """Largest z with q_t(z) <= y, (h, n): the inverse of q_t; -inf if none, NaN where y is."""
        most = y  # the largest latent values that become y or less
        if self.grid is not None:
            origin, unit = self.grid[:, :, None]
            most = origin + unit * (np.floor((y - origin) / unit + _ROUND) + 0.5)
        z = np.where(y < self.lower[:, None], -np.inf, self.latent_score(most))
        return np.where(y >= self.upper[:, None], np.inf, z)

    @property
    def unit(self) -> Array:
        """Distance of the whole numbers, (h,); 0 where values are not rounded."""
        return np.zeros(len(self)) if self.grid is None else self.grid[1]

    @cached_property
    def _natural(self) -> tuple[Array, Array]:
        """Ends of the values without the bounds, (h,) each: exact where all chains end there."""
        low, high = np.array([_ends(chain) for chain in self.chains]).swapaxes(0, 1)
        return averaged(self.weights, low), -averaged(self.weights, -high)

    @cached_property
    def lower(self) -> Array:
        """Lower end of the values, (h,); -inf where there is none."""
        return np.maximum(self.low, self._natural[0])

    @cached_property
    def upper(self) -> Array:
        """Upper end of the values, (h,); inf where there is none."""
        return np.minimum(self.high, self._natural[1])

    @cached_property
    def start(self) -> Array:
        """The z at which q_t leaves a bound that its chains do not have, (h,); else -inf."""
        bounded = self.low > self._natural[0]
        if not bounded.any():
            return np.full(len(self), -np.inf)
        y = np.where(bounded, self.low, 0.0)
        return np.where(bounded, self.latent_score(y[:, None])[:, 0], -np.inf)

    @cached_property
    def end(self) -> Array:
        """The z at which q_t reaches its upper bound, (h,); inf if there is none."""
        bounded = np.isfinite(self.high)
        if not bounded.any():
            return np.full(len(self), np.inf)
        y = self._inside(np.where(bounded, self.high, 0.0))
        return np.where(bounded, self.latent_score(y[:, None])[:, 0], np.inf)

    @property
    def bitten(self) -> Flags:
        """Whether a bound of each step has a probability that counts, (h,)."""
        return np.asarray((self.start > -REACH) | (self.end < REACH))

    def mean(self) -> Array:
        """Mean of each step, (h,); not finite where it is too large for a float."""
        closed, mean, _, _ = self._closed_forms
        return mean if closed.all() else np.where(closed, mean, self._quadrature[2])

    def covariance(self, cor: Array) -> Array:
        """Joint covariance (h, h) of the steps, by correlations of scores: theory/transforms.md.

        Closed for normals and lognormals, else Mehler's series. What its terms leave of a variance
        counts as one more, so that the diagonal is right whatever their number.
        """
        closed, _, steep, logs = self._closed_forms
        with np.errstate(over="ignore", invalid="ignore"):
            total = np.zeros_like(cor)
            if closed.any():
                total = np.outer(steep, steep) * cor
                for (m, s), (other_m, other_s) in product(logs, repeat=2):
                    exponent = np.outer(s, other_s) * cor
                    total += np.outer(m, other_m) * (np.expm1(exponent) - exponent)
            if not closed.all():
                series = np.zeros_like(cor)
                for c in self._mehler_coefficients[::-1]:
                    series += np.outer(c, c)
                    series *= cor
                total = np.where(np.outer(closed, closed), total, series)
            # symmetric but for roundoff; not finite where it is too large for a float
            return np.asarray(0.5 * (total + total.T))

    def atom(self, y: Array) -> Flags:
        """Whether each y, (h,), is a value of positive probability: at a bound, or rounded."""
        at_bound = (y == self.lower) | (y == self.upper)
        single = at_bound & np.isfinite(self.latent_score(self._inside(y)[:, None])[:, 0])
        if self.grid is None:
            return np.asarray(single)
        number = (y - self.grid[0]) / self.unit
        near = np.abs(number - np.round(number)) <= _ROUND
        return np.asarray(near & (self.score(y[:, None])[:, 0] > self.before_atom(y)))

    def before_atom(self, y: Array) -> Array:
        """Largest scores (h,) of values less than y, which are atoms; -inf if there are none."""
        score = self.latent_score if self.grid is None else self.score
        before = self._inside(y - self.unit)
        return np.where(y == self.lower, -np.inf, score(before[:, None])[:, 0])

    def _inside(self, y: Array) -> Array:
        """Values (h,), those at the upper end just below it, which sums reach and do not pass."""
        at_end = (y == self.upper) & np.isfinite(y)
        return np.subtract(y, 4.0 * np.spacing(np.abs(y)), out=y.copy(), where=at_end)

    def atoms(self, reach: float = 5.0, least: float = 1e-6) -> list[tuple[int, float, float]]:
        """Step, value and probability of each atom within so many stds, from some probability."""
        found = []
        for step, ends in enumerate(self(np.array([[-reach, reach]]))):
            values = np.array([self.lower[step], self.upper[step]]) + 0.0  # no -0
            if self.grid is not None:
                unit = self.unit[step]
                values = np.arange(ends[0], ends[1] + 0.5 * unit, unit)
            if not len(values):  # a unit that is lost beside them
                continue
            own = self[np.full(len(values), step)]
            mass = between(own.before_atom(values), own.score(values[:, None])[:, 0])
            some = own.atom(values) & (mass > least)
            both = zip(values[some].tolist(), mass[some].tolist(), strict=True)
            found += [(step, value, p) for value, p in both]
        return found

    def cdf(self, y: Array) -> Array:
        """Probability of a value up to each y, (h,) or (h, n)."""
        return np.asarray(ndtr(self.score(y.reshape(len(y), -1)))).reshape(y.shape)

    def pit(self, y: Array) -> Array:
        """Probability of a value below y, and half of that of y itself if it is an atom, (h,)."""
        # with the whole of it, counts would lie too high whatever the forecast
        z = self.score(y[:, None])[:, 0]
        below = np.where(self.atom(y), self.before_atom(y), z)
        return np.asarray(0.5 * (ndtr(below) + ndtr(z)))

    def nlpd(self, y: Array) -> Array:
        """Negative log density at one y a step, (h,), inf where y is impossible."""
        z, atom = self.score(y[:, None])[:, 0], self.atom(y)
        finite = np.where(np.isfinite(z), z, 0.0)
        steep = self.latent_slope(finite[:, None])[:, 0]
        with np.errstate(divide="ignore", invalid="ignore"):
            density = 0.5 * np.log(2 * np.pi) + 0.5 * finite**2 + np.log(steep)
            # of an atom the probability: not at the end of a logarithm
            before = self.before_atom(y)
            lump = np.where(np.isneginf(before), -log_ndtr(z), -np.log(between(before, z)))
        loss = np.where(atom, lump, density if self.grid is None else np.inf)
        return np.where(np.isnan(z), np.nan, np.where(np.isinf(z) & ~atom, np.inf, loss))

    def crps(self, y: Array) -> Array:
        """Continuous ranked probability score at one y a step, (h,): theory/transforms.md."""
        z = self.score(y[:, None])
        nodes, weights = self.nodes(np.where(np.isnan(z), -np.inf, z))
        values = self._integrand(nodes)
        spread = (values - self(np.zeros((1, 1)))) * (2 * ndtr(nodes) - 1)
        return integral(weights * (np.abs(values - y[:, None]) - spread))

    def nodes(self, kink: Array | None = None, beyond: Array | float = 0.0) -> tuple[Array, Array]:
        """Nodes and weights (h, n) of the integral over N(0, 1); see :meth:`panels`."""
        nodes, weights = self.panels(kink, beyond)
        return nodes, weights * normal_density(nodes)

    def panels(self, kink: Array | None = None, beyond: Array | float = 0.0) -> tuple[Array, Array]:
        """Gauss-Legendre nodes and weights (h, n) between the kinks of q, and `kink`, (h, 1)."""
        h, inner, n_nodes = len(self), self.kinks(), N_NODES
        if kink is not None:
            inner = np.column_stack([inner, kink])
        # on to REACH from where q counts most, and `beyond`
        low = np.minimum(self._peak(-1.0), self.end) - REACH
        end = np.maximum(np.maximum(self._peak(1.0), self.start), beyond) + REACH
        # a step that is certain to be at a bound has neither
        low, end = np.where(np.isfinite([low, end]), [low, end], [[-REACH], [REACH]])
        # With kinks inside panels of 200 nodes variances were 1 % wrong.
        if inner.shape[1] > 8 or self.grid is not None:
            n_nodes, more = FEW_NODES, np.linspace(low, end, 41, axis=1)
            inner = np.column_stack([inner, more])
        inner = np.sort(np.clip(inner, low[:, None], end[:, None]), axis=1)
        breaks = np.column_stack([low, inner, end])
        some = (np.diff(breaks, axis=1) > 0.0).any(axis=0)
        breaks = breaks[:, np.append(True, some)]
        if n_nodes == FEW_NODES and FEW_NODES * (breaks.shape[1] - 1) % N_NODES == 0:
            breaks = np.column_stack([breaks, breaks[:, -1]])  # an empty panel, for `integral`
        half, (points, weights) = 0.5 * np.diff(breaks, axis=1)[:, :, None], _legendre(n_nodes)
        nodes = (breaks[:, :-1, None] + half * (1 + points)).reshape(h, -1)
        return nodes, (half * weights).reshape(h, -1)

    def kinks(self) -> Array:
        """Scores at which the slope of each q jumps, (h, p); infinite where it does less often."""
        found = [self.start[:, None], self.end[:, None]]
        for chain, weight in zip(self.chains, self.weights, strict=True):
            for i, link in enumerate(chain):
                if (at := link.kinks()) is not None:
                    used = (weight > 0)[:, None]
                    found.append(np.where(used, inverse(chain[:i], at), -np.inf))
        if self.grid is not None:
            known = np.isfinite(self._edges)
            z = self.latent_score(np.where(known, self._edges, 0.0))
            found.append(np.where(known, z, -np.inf))
        return np.column_stack(found)

    @cached_property
    def _edges(self) -> Array:
        """Values half way between the whole numbers around the median, (h, p); inf for none."""
        low, center, high = self(np.array([[-REACH, 0.0, REACH]])).T
        unit = self.unit
        low = np.maximum(low, center - 0.5 * _MOST_JUMPS * unit)
        count = np.minimum(np.round((high - low) / unit), _MOST_JUMPS)[:, None]
        number = np.arange(count.max() + 2)
        return np.where(number < count + 2, low[:, None] + unit[:, None] * (number - 0.5), np.inf)

    def _integrand(self, z: Array) -> Array:
        """Values, rounded where their jumps are ends of panels."""
        values = self._between_bounds(self.latent(z))
        if self.grid is None:
            return values
        last = np.where(np.isfinite(self._edges), self._edges, -np.inf).max(axis=1)
        near = (values >= self._edges[:, :1]) & (values <= last[:, None])
        return np.where(near, self.ended(values), values)

    def affine(self, factor: Array | float, shift: Array | float) -> "Map":
        """The functions of ``factor * y + shift``, a number or (h,) each; not 0, of one sign."""
        factor, shift = (np.broadcast_to(np.asarray(a, float), len(self)) for a in (factor, shift))
        q, size = self, np.abs(factor)
        if factor[0] < 0:
            chains = (tuple(link.mirrored() for link in chain) for chain in q.chains)
            grid = None if q.grid is None else q.grid * [[-1.0], [1.0]]
            side = 1.0 if self.normal else -q.side
            q = Map(tuple(chains), q.weights, -q.high, -q.low, grid, side)
        chains = (linked(*chain, Affine(shift, size)) for chain in q.chains)
        grid = None if q.grid is None else size * q.grid + np.outer([1.0, 0.0], shift)
        low, high = size * q.low + shift, size * q.high + shift
        return replace(q, chains=tuple(chains), low=low, high=high, grid=grid)

    def before(self, mean: Array, std: Array) -> "Map":
        """The functions of ``mean + std * z`` in the place of z, (h,) each."""
        return replace(self, chains=tuple(linked(Affine(mean, std), *c) for c in self.chains))

    def each(self, changed: Callable[..., Chain], *args: object) -> "Map":
        """The functions of changed chains, above the same bound."""
        return replace(self, chains=tuple(changed(chain, *args) for chain in self.chains))

    def censored(self, lower: Array, upper: Array) -> "Map":
        """The functions with what lies below a bound (h,), or above another, at it."""
        low = np.where(lower > self.lower, lower, self.low)
        return replace(self, low=low, high=np.where(upper < self.upper, upper, self.high))

    @property
    def spread(self) -> tuple[Array, Array]:
        """Median and half the distance of the quantiles at z = -1 and 1, (h,); std if normal."""
        low, center, high = self(np.array([[-1.0, 0.0, 1.0]])).T
        return center, 0.5 * (high - low)

    @property
    def scale(self) -> Array:
        """Stds of the steps of one chain on the scale on which they are normal, (h,)."""
        if any(_is(link, Sums, Table) for link in self.chains[0]):
            return self.spread[1]
        return next(link.scale for link in self.chains[0] if isinstance(link, Affine))

    def _peak(self, side: float) -> Array:
        """The score on a side of 0 where the square of each q counts most under N(0, 1), (h,)."""
        z = side * np.arange(64.0)[None]
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            values = self.latent(z)
            size = 2.0 * np.log(np.abs(values - values[:, :1])) - 0.5 * z**2
        return np.asarray(z[0, np.where(np.isfinite(size), size, -np.inf).argmax(axis=1)])

    @cached_property
    def _closed_forms(self) -> tuple[Flags, Array, Array, list[tuple[Array, Array]]]:
        """Steps of normals and lognormals alone; their mean, mean slope in z, m and s."""
        open_, logs = self.bitten | (self.grid is not None), []
        total, steep = np.zeros(len(self)), np.zeros(len(self))
        for chain, w in zip(self.chains, self.weights, strict=True):
            match chain:
                case [Affine(shift, s)]:
                    mean, own = shift, s
                case [Affine(shift, s), Power(PowerTransform(0.0, low)) as log, *_] | [
                    Affine(shift, s),
                    Mirror(Power(PowerTransform(0.0, low))) as log,
                    *_,
                ] if is_plain(chain[2:]):
                    side = -1.0 if isinstance(log, Mirror) else 1.0
                    with np.errstate(over="ignore"):
                        m = side * np.exp(side * shift + 0.5 * s**2)[:, None]
                        mean = value(chain[2:], side * low + m)[:, 0]
                        m = (slope(chain[2:], m) * m)[:, 0]
                        own = side * m * s
                    # where there is no weight, no exponential of the covariance may overflow
                    logs.append((_times(w, m), np.where(w > 0, side * s, 0.0)))
                case _:
                    open_ = open_ | (w > 0)
                    continue
            total, steep = total + _times(w, mean), steep + _times(w, own)
        return ~open_, total, steep, logs

    @cached_property
    def _quadrature(self) -> tuple[Array, Array, Array, Array]:
        """Nodes, their weights, the mean, and values less the mean."""
        nodes, weights = self.nodes()
        values = self._integrand(nodes)
        base = np.where(np.isfinite(self.upper), self.upper, 0.0)
        base = np.where(np.isfinite(self.lower), self.lower, base)  # where values can be certain
        with np.errstate(over="ignore", invalid="ignore"):
            mean = base + integral(weights * (values - base[:, None]))
            return nodes, weights, mean, values - mean[:, None]

    @cached_property
    def _mehler_coefficients(self) -> Array:
        """Coefficients c_n (n, h) of Mehler's series, each step's as if it were alone."""
        nodes, weights, _, deviation = self._quadrature
        most = 100  # 200 nodes a panel resolve Hermite functions up to there
        at, terms = np.arange(len(self)), np.zeros((most + 1, len(self)))
        last, root = np.full(len(self), most), 1.0
        with np.errstate(over="ignore", invalid="ignore"):
            now = weights * deviation  # times the n-th Hermite polynomial
            left, before = integral(now * deviation), np.zeros_like(now)
            least = 1e-13 * left
            for n in range(most):  # less the factor 1 / sqrt(n!), which the sums get
                before *= -n
                before += nodes * now
                before, now, root = now, before, root * np.sqrt(n + 1)
                c = terms[n, at] = integral(now) / root
                left[at] -= c**2
                enough = left[at] <= least[at]
                if enough.any():  # no other step counts for a step, nor takes time after its end
                    last[at[enough]] = n + 1
                    at, nodes = at[~enough], nodes[~enough]
                    now, before = now[~enough], before[~enough]
                    if not len(at):
                        break
            # Below 0 by roundoff only: Bessel's inequality.
            terms[last, np.arange(len(self))] = np.sqrt(np.maximum(left, 0.0))
        return terms[: last.max() + 1]


def averaged(weights: Array, values: Array) -> Array:
    """Weighted averages (h,) of rows, -inf where one with a weight is; exact of equal rows."""
    first = np.where(weights > 0, values, -np.inf).max(axis=0)
    used = (weights > 0) & (values != first)
    apart = np.subtract(values, first, out=np.zeros_like(values), where=used)
    return np.asarray(first + (weights * apart).sum(axis=0))


def average(maps: Sequence[Map], weights: Array) -> Map:
    """The average of functions of the first n of h steps, by weights (m, h) that add up to 1."""
    steps, pieces = np.arange(weights.shape[1]), []
    for q, weight in zip(maps, weights, strict=True):
        at = np.minimum(steps, len(q) - 1)
        for chain, own in zip(q.chains, q.weights, strict=True):
            share = weight * own[at]
            if share.any():  # what has no weight is not read
                some = np.where(share > 0.0, at, (share > 0.0).argmax())
                pieces.append((share, tuple(link[some] for link in chain)))
    normal = [piece for piece in pieces if is_plain(piece[1])]
    if normal:
        total, zero = np.sum([w for w, _ in normal], axis=0), np.zeros((1, 1))
        some = np.where(total > 0.0, total, 1.0)
        shift = np.sum([w / some * value(chain, zero)[:, 0] for w, chain in normal], axis=0)
        scale = np.sum([w / some * slope(chain, zero)[:, 0] for w, chain in normal], axis=0)
        one = (Affine(shift, np.where(total > 0.0, scale, 1.0)),)
        pieces = [(total, one), *(piece for piece in pieces if not is_plain(piece[1]))]

    def ends(name: str) -> Array:
        return np.array([getattr(q, name)[np.minimum(steps, len(q) - 1)] for q in maps])

    below, above = ((weights > 0) & np.isfinite(ends(name)) for name in ("low", "high"))
    low = np.where(below.any(axis=0), averaged(weights, ends("lower")), -np.inf)
    high = np.where(above.any(axis=0), -averaged(weights, -ends("upper")), np.inf)
    shares, chains = zip(*pieces, strict=True)
    grid = max(maps, key=len).grid
    for q in maps:  # rounded if all are, to the same
        if grid is None or q.grid is None or not np.array_equal(q.grid, grid[:, : len(q)]):
            grid = None
    sides = {q.side for q in maps if not q.normal}
    side = sides.pop() if len(sides) == 1 else 1.0
    return Map(chains, np.array(shares), low, high, grid, side)


def between(low: Array, high: Array) -> Array:
    """P(low < z <= high), from the nearer tail, where small probabilities keep their digits."""
    turn = low > 0
    return np.asarray(ndtr(np.where(turn, -low, high)) - ndtr(np.where(turn, -high, low)))


@dataclass(frozen=True, eq=False)
class Sums(Link):
    """Weighted sums over groups of steps, all at the same score: a link of one row a group."""

    q: Map  # of h steps
    group: Positions  # (h,), increasing, from 0
    weight: Array  # (h,), positive

    def __call__(self, x: Array) -> Array:
        return self._sum(self.q(self._at_steps(x)))

    def slope(self, x: Array) -> Array:
        z = self._at_steps(x)
        moves = (z > self.q.start[:, None]) & (z < self.q.end[:, None])
        return self._sum(np.where(moves, self.q.latent_slope(z), 0.0))

    def inverse(self, y: Array) -> Array:
        return solve(self, self.slope, np.broadcast_to(y, (len(self._starts), y.shape[1])))

    def kinks(self) -> Array:
        """Kinks of all steps of a group, -inf where it has fewer than another, (g, p)."""
        own = (self.group == self.group[self._starts, None])[:, :, None]  # (g, h, 1)
        found = np.where(own, self.q.kinks(), -np.inf)
        found = np.sort(found.reshape(len(found), -1), axis=1)
        return found[:, np.isfinite(found).any(axis=0)]

    def __getitem__(self, at: Positions) -> "Sums":
        steps = [np.flatnonzero(self.group == g) for g in at]
        group, chosen = np.repeat(np.arange(len(at)), list(map(len, steps))), np.concatenate(steps)
        return Sums(self.q[chosen], group, self.weight[chosen])

    @cached_property
    def _starts(self) -> Positions:
        return np.unique(self.group, return_index=True)[1]

    def _at_steps(self, x: Array) -> Array:
        return x if len(x) == 1 else x[self.group]

    def _sum(self, values: Array) -> Array:
        return np.add.reduceat(self.weight[:, None] * values, self._starts, axis=0)


def solve(function: Callable[[Array], Array], slope: Callable[[Array], Array], y: Array) -> Array:
    """Largest x at which an increasing function is at most y, (h, n); -inf if there is none."""
    goal, near, far = np.where(np.isfinite(y), y, 0.0), np.full(y.shape, 4.0), np.full(y.shape, 4e3)
    low = np.where(function(-near) > goal, -far, -near)
    high = np.where(function(near) <= goal, far, near)
    x = newton(lambda x: (function(x) - goal, slope(x)), low, high)
    if (no_float := ndtr(-np.abs(x)) == 0.0).any():
        # There is none, either, where what is above the end of a logarithm is no float.
        x = np.where(no_float & (x < 0.0) & (function(-far) >= goal), -np.inf, x)
        x = np.where(function(far) <= goal, np.inf, x)
    return np.where(np.isfinite(y), x, y)


def newton(
    function: Callable[[Array], tuple[Array, Array]],
    low: Array,
    high: Array,
    start: Array | float = 0.0,
) -> Array:
    """Largest x between low and high at which an increasing function, of known slope, is <= 0."""
    # Within brackets, by an eighth of the evaluations of a bisection. Each entry stays once it has
    # converged, so that it does not depend on the others: in units of 1 + |x| by a step whose
    # square, the error after it, is below rounding, or to 14 digits.
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
    n_nodes = FEW_NODES if terms.shape[1] % N_NODES else N_NODES
    own = terms.reshape(len(terms), -1, n_nodes).sum(axis=2)
    return np.asarray(own.cumsum(axis=1)[:, -1])


_legendre = lru_cache(maxsize=4)(roots_legendre)


def normal_density(z: Array) -> Array:
    """Density of N(0, 1)."""
    return np.asarray(np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi))


def _times(weight: Array, values: Array) -> Array:
    """weight * values, 0 where the weight is."""
    if weight.all():
        return np.asarray(weight * values)
    shape = np.broadcast_shapes(weight.shape, values.shape)
    return np.multiply(weight, values, out=np.zeros(shape), where=weight > 0)
