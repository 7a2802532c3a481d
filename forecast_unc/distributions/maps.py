r"""The values of h steps as increasing functions of h normal scores, and what follows from them.

.. math:: q_t(z) = \max\Bigl(L_t,\; \sum_k w_{kt}\, q_{kt}(z)\Bigr)

Each q_k is a chain of links, the weights of a step add up to 1, and the bound L, if there is one,
has all the probability that would lie below it. Moments of normals and lognormals are closed forms;
all others come from Gauss-Legendre quadrature over z and from Mehler's series over the steps.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from typing import NamedTuple, Self

import numpy as np
from scipy.special import log_ndtr, ndtr, roots_legendre

from forecast_unc._typing import Array
from forecast_unc.distributions.links import (
    Affine,
    Chain,
    Flags,
    Link,
    Polyline,
    Positions,
    Power,
    Student,
    inverse,
    kinks,
    linked,
    peak,
    slope,
    solve,
    value,
)

N_NODES = 200  # Gauss-Legendre, on each panel between kinks
# With many kinks so many nodes on each panel, and so many panels besides. With kinks inside panels
# of 200 nodes variances were 1 % wrong.
FEW_NODES, N_PANELS, MANY_KINKS = 12, 40, 8
REACH = 12.0  # z beyond this from where the integrand peaks does not count: exp(-72) = 5e-32
N_TERMS = 100  # of Mehler's series: 200 nodes a panel resolve Hermite functions up to there


class ClosedForm(NamedTuple):
    """Of a + x or a + exp(x), x ~ N(., std^2): its mean less a, and the mean slope in z, (h,)."""

    offset: Array
    mean: Array
    slope: Array
    log_std: Array | None


@dataclass(frozen=True, eq=False)
class Map:
    """The functions q of h steps; of minus those of -z where `turned`, for bounds above."""

    chains: tuple[Chain, ...]
    weights: Array  # (k, h), adding up to 1 at each step; nothing is read where one is 0
    bound: Array  # (h,), above the ends of the chains; -inf for none
    turned: bool = False

    @classmethod
    def of(cls, *links: Link, lower: Array | None = None) -> Self:
        """The functions of one chain, whose first link is affine or has a row a step."""
        chain = linked(*links)
        h = len(_end(chain))
        bound = np.full(h, -np.inf) if lower is None else lower
        return cls((chain,), np.ones((1, h)), bound)

    def __len__(self) -> int:
        return len(self.bound)

    @property
    def normal(self) -> bool:
        """Whether every step is normal."""
        plain = len(self.chains) == 1 and is_plain(self.chains[0])
        return plain and bool(np.isneginf(self.bound).all())

    def __call__(self, z: Array) -> Array:
        """Values (h, n) at scores z, (h or 1, n); the same for all steps if of one row."""
        sign = -1.0 if self.turned else 1.0
        return sign * self.bounded(self._average(sign * z))

    def latent(self, z: Array) -> Array:
        """The same without the bound."""
        sign = -1.0 if self.turned else 1.0
        return sign * self._average(sign * z)

    def latent_slope(self, z: Array) -> Array:
        """Derivative of :meth:`latent` in z, (h, n), of what is not turned."""
        return self._weighted([slope(chain, z) for chain in self.chains])

    def bounded(self, values: Array) -> Array:
        """Values (h, n) moved to the bound where they are below it."""
        return np.maximum(values, self.lower[:, None])

    def score(self, y: Array) -> Array:
        """Largest z with q_t(z) <= y, (h, n): the inverse of q_t; -inf if none, NaN where y is."""
        if self.turned:
            return np.where(-y <= self.lower[:, None], np.inf, -self.latent_score(-y))
        return np.where(y < self.lower[:, None], -np.inf, self.latent_score(y))

    def latent_score(self, y: Array) -> Array:
        """The same without bound, and of what is not turned."""
        if len(self.chains) == 1:
            return inverse(self.chains[0], y)
        x = solve(self._average, self.latent_slope, y)
        # Not the x from which on what is above the end is no float.
        ends = [inverse(chain, _end(chain)[:, None])[:, 0] for chain in self.chains]
        least = np.where(self.weights > 0, ends, np.inf).min(axis=0)
        return np.where(y == self.natural[:, None], least[:, None], x)

    def latent_scores(self, paths: Array) -> Array:
        """Scores (n, h) of paths before the bound."""
        sign = -1.0 if self.turned else 1.0
        return sign * self.latent_score(sign * paths.T).T

    @cached_property
    def natural(self) -> Array:
        """Where values without the bound end below, (h,): exact where all chains end there."""
        if len(self.chains) == 1:
            return _end(self.chains[0])
        return averaged(self.weights, [_end(chain) for chain in self.chains])

    @cached_property
    def lower(self) -> Array:
        """What the values are never below, (h,); -inf where there is no end."""
        return np.maximum(self.bound, self.natural)

    @cached_property
    def start(self) -> Array:
        """The z at which q_t leaves a bound that its chains do not have, (h,); else -inf."""
        if np.isneginf(self.bound).all():
            return self.bound
        bounded = self.bound > self.natural
        scores = self.latent_score(np.where(bounded, self.bound, 0.0)[:, None])[:, 0]
        return np.where(bounded, scores, -np.inf)

    @property
    def bitten(self) -> Flags:
        """Whether the bound of each step has a probability that counts, (h,)."""
        return np.asarray(self.start > -REACH)

    @property
    def closed(self) -> Flags:
        """Whether the moments of each step need no quadrature, (h,)."""
        open_ = [w > 0 for w, form in self._forms if form is None]
        return ~(np.any(open_, axis=0) | self.bitten) if open_ else ~self.bitten

    def mean(self) -> Array:
        """Mean of each step, (h,); not finite where it is too large for a float."""
        closed, parts = self.closed, []
        with np.errstate(over="ignore"):
            if closed.any():
                terms = (_times(w, f.offset + f.mean - self._base) for w, f in self._forms if f)
                parts.append(self._base + sum(terms, np.zeros(len(self))))
            if not closed.all():
                parts.append(self._quadrature[2])
        mean = np.where(closed, parts[0], parts[-1])
        return -mean if self.turned else mean

    def covariance(self, cor: Array) -> Array:
        r"""Joint covariance (h, h) of the steps, whose scores have correlations R.

        .. math::

            \operatorname{Cov}[e^{x}, e^{x'}] = m m' (e^{\rho\sigma\sigma'} - 1), \quad
            \operatorname{Cov}[e^{x}, x'] = m \rho\sigma\sigma', \quad
            m = e^{\mu + \sigma^2/2}

        Else it is Mehler's series over the Hermite coefficients
        :math:`c_n = \mathrm E[q(z) h_n(z)]`, h_n normalized,

        .. math:: \operatorname{Cov}[y_t, y_u] = \sum_{n \ge 1} \rho^n c_n(t) c_n(u)

        What the terms leave of the variance, at most N = 100, is taken for one more, so that the
        diagonal is the variance whatever N is. That is nothing unless a y has a probability; then
        the covariance is off by 1e-4 of the product of the stds at correlations of .99, by a few
        more beyond, and by 3e-3 if nearly all the probability is at that y (M. G. Kendall,
        Biometrika 32 (1941) 196-198, https://doi.org/10.1093/biomet/32.2.196).
        """
        return self.coupling()(cor)

    def coupling(self) -> Callable[[Array], Array]:
        """:meth:`covariance` as a function, entry by entry, to be called many times."""
        closed = self.closed
        with np.errstate(over="ignore", invalid="ignore"):
            pairs = self._pairs() if closed.any() else []
            terms = None if closed.all() else self._mehler_coefficients()
        both = np.outer(closed, closed)

        def covariance(cor: Array) -> Array:
            with np.errstate(over="ignore", invalid="ignore"):
                total = sum((pair(cor) for pair in pairs), np.zeros_like(cor))
                if terms is not None:
                    series = np.zeros_like(cor)
                    for c in reversed(terms):
                        series = cor * (np.outer(c, c) + series)
                    total = np.where(both, total, series)
                # symmetric but for roundoff; not finite where it is too large for a float
                return np.asarray(0.5 * (total + total.T))

        return covariance

    def atom(self, y: Array) -> Flags:
        """Whether each y, (h,), is a single value of positive probability: at the bound."""
        if self.turned:
            return self.unturned().atom(-y)
        return np.asarray((y == self.lower) & np.isfinite(self.score(y[:, None])[:, 0]))

    def pit(self, y: Array) -> Array:
        """Probability of a value up to y, of one y a step, (h,)."""
        return np.asarray(ndtr(self.score(y[:, None])[:, 0]))

    def nlpd(self, y: Array) -> Array:
        r"""Negative log density at one y a step, (h,): :math:`-\log[\varphi(z) / q'(z)], q(z) = y`.

        inf where y is impossible. At the bound the probability takes the place of the density if it
        is positive: not after a logarithm.
        """
        if self.turned:
            return self.unturned().nlpd(-y)
        z = self.score(y[:, None])[:, 0]
        finite = np.where(np.isfinite(z), z, 0.0)
        steep = np.broadcast_to(self.latent_slope(finite[:, None]), (len(z), 1))[:, 0]
        with np.errstate(divide="ignore"):
            density = 0.5 * np.log(2 * np.pi) + 0.5 * finite**2 + np.log(steep)
        loss = np.where(self.atom(y), -log_ndtr(z), density)
        return np.where(np.isnan(z), np.nan, np.where(np.isinf(z), np.inf, loss))

    def crps(self, y: Array) -> Array:
        r"""Continuous ranked probability score at one y a step, (h,).

        .. math:: \mathrm E|q(z) - y| - \mathrm E\bigl[q(z) (2 \Phi(z) - 1)\bigr]

        (S. Baran and S. Lerch, QJRMS 141 (2015) 2289-2299, https://doi.org/10.1002/qj.2521).
        """
        if self.turned:
            return self.unturned().crps(-y)
        z = self.score(y[:, None])
        nodes, weights = self.nodes(np.where(np.isnan(z), -np.inf, z))
        values = self(nodes)
        spread = (values - self(np.zeros((1, 1)))) * (2 * ndtr(nodes) - 1)
        return np.asarray((weights * (np.abs(values - y[:, None]) - spread)).sum(axis=1))

    def nodes(self, kink: Array | None = None, beyond: Array | float = 0.0) -> tuple[Array, Array]:
        """Nodes and weights (h, n) of the integral over N(0, 1), between the kinks of each q.

        One more is at `kink`, (h, 1). They go on to REACH from where q counts most, and `beyond`.
        """
        h, breaks = len(self), [self.start[:, None]]
        for chain, weight in zip(self.chains, self.weights, strict=True):
            used = (weight > 0)[:, None]
            breaks += [np.where(used, at, -np.inf) for at in kinks(chain)]
        if kink is not None:
            breaks.append(kink)
        end = np.maximum(np.maximum(self._peak, self.start), beyond) + REACH
        low, inner = np.full(h, -REACH), np.column_stack(breaks)
        n_nodes = N_NODES
        if inner.shape[1] > MANY_KINKS:
            n_nodes, more = FEW_NODES, np.linspace(low, end, N_PANELS + 1, axis=1)
            inner = np.column_stack([inner, more])
        inner = np.sort(np.clip(inner, low[:, None], end[:, None]), axis=1)
        nodes, weights = panels(np.column_stack([low, inner, end]), n_nodes)
        return nodes, weights * normal_density(nodes)

    def unturned(self) -> "Map":
        """The functions of -y, or y again."""
        return replace(self, turned=not self.turned)

    def affine(self, factor: Array | float, shift: Array | float) -> "Map":
        """The functions of ``factor * y + shift``, a number or (h,) each; not 0, of one sign."""
        factor, shift = (np.broadcast_to(np.asarray(a, float), len(self)) for a in (factor, shift))
        if self.turned:
            return self.unturned().affine(-factor, shift)
        if factor[0] > 0:
            return self.stretched(factor, shift, factor * self.bound + shift)
        if self.normal:
            (only,) = self.chains[0]
            assert isinstance(only, Affine)
            return Map.of(Affine(factor * only.shift + shift, -factor * only.scale))
        return self.affine(-factor, -shift).unturned()

    def stretched(self, factor: Array, shift: Array, bound: Array) -> "Map":
        """The functions of ``factor * y + shift`` before another bound, (h,) each."""
        link = Affine(shift, factor)
        return replace(self, chains=tuple(linked(*c, link) for c in self.chains), bound=bound)

    def before(self, mean: Array, std: Array) -> "Map":
        """The functions of ``mean + std * z`` in the place of z, (h,) each."""
        link = Affine(-mean if self.turned else mean, std)
        return self._each_chain(lambda chain: linked(link, *chain))

    def widened(self, factor: Array) -> "Map":
        """The functions with ``factor`` (h,) times the stds, and the same medians."""

        def changed(chain: Chain) -> Chain:
            at = _shape_end(chain)
            median = np.broadcast_to(value(chain[:at], np.zeros((1, 1)))[:, 0], len(self))
            return linked(*chain[:at], Affine((1.0 - factor) * median, factor), *chain[at:])

        return self._each_chain(changed)

    def with_dof(self, dof: float) -> "Map":
        """The functions with such tails of Student's t in the place of others, or of none.

        Only without a transform: after a logarithm the mean would be infinite.
        """

        def changed(chain: Chain) -> Chain:
            if any(isinstance(link, Student) for link in chain):
                return tuple(Student(dof) if isinstance(link, Student) else link for link in chain)
            return (Student(dof), *chain) if is_plain(chain) else chain

        return self._each_chain(changed)

    def shaped(self, shape: Polyline) -> "Map":
        """The functions with another shape, of the same medians and in units of the 68 %."""

        def changed(chain: Chain) -> Chain:
            at = _shape_end(chain)
            if not at:
                return linked(shape, *chain)
            low, median, high = value(chain[:at], np.array([[-1.0, 0.0, 1.0]])).T
            return linked(shape, Affine(median, 0.5 * (high - low)), *chain[at:])

        return self._each_chain(changed)

    def plain(self) -> "Map":
        """The functions with normal distributions in the place of all shapes but Student's t.

        They have the mean and variance of these on the scale of the transform.
        """

        def changed(chain: Chain) -> Chain:
            at = _shape_end(chain)
            if not at or isinstance(chain[at - 1], Student | Sums):
                return chain
            shape = Map.of(*chain[:at])
            var = shape.covariance(np.eye(len(self))).diagonal()
            return linked(Affine(shape.mean(), np.sqrt(var)), *chain[at:])

        return self._each_chain(changed)

    def censored(self, lower: Array) -> "Map":
        """The functions with what lies below a bound (h,) at it."""
        return replace(self, bound=np.where(lower > self.lower, lower, self.bound))

    def picked(self, at: Positions) -> "Map":
        """The functions of the steps at the given positions."""
        weights = self.weights[:, at]
        used = np.flatnonzero(weights.any(axis=1))
        chains = tuple(tuple(link.picked(at) for link in self.chains[k]) for k in used)
        return Map(chains, weights[used], self.bound[at], self.turned)

    @property
    def scale(self) -> Array:
        """Stds of the steps of one chain on the scale on which they are normal, (h,)."""
        if any(isinstance(link, Sums) for link in self.chains[0]):
            low, high = self(np.array([[-1.0, 1.0]])).T
            return np.asarray(0.5 * (high - low))
        return next(link.scale for link in self.chains[0] if isinstance(link, Affine))

    def _each_chain(self, changed: Callable[[Chain], Chain]) -> "Map":
        """The functions of changed chains, above the same bound."""
        return replace(self, chains=tuple(changed(chain) for chain in self.chains))

    @cached_property
    def _base(self) -> Array:
        """What values are measured from in an average: they are exact there, (h,)."""
        return np.where(np.isfinite(self.natural), self.natural, 0.0)

    def _average(self, z: Array) -> Array:
        """The average of the chains at scores z."""
        if len(self.chains) == 1:
            return value(self.chains[0], z)
        base = self._base[:, None]
        return base + self._weighted([value(chain, z) - base for chain in self.chains])

    def _weighted(self, values: Sequence[Array]) -> Array:
        """Weighted averages over the chains, (h, n) each."""
        first, *rest = (_times(w[:, None], v) for w, v in zip(self.weights, values, strict=True))
        return np.asarray(sum(rest, first))

    @cached_property
    def _peak(self) -> Array:
        return peak(self._average, len(self))

    @cached_property
    def _forms(self) -> list[tuple[Array, ClosedForm | None]]:
        """Weight and closed form of each chain."""
        return [(w, _closed_form(c, w > 0)) for c, w in zip(self.chains, self.weights, strict=True)]

    def _pairs(self) -> list[Callable[[Array], Array]]:
        """Covariances of each pair of normals and lognormals, in the correlations."""
        closed = [(w, f) for w, f in self._forms if f]

        def pair(a: tuple[Array, ClosedForm], b: tuple[Array, ClosedForm], cor: Array) -> Array:
            (w, one), (v, other) = a, b
            if one.log_std is None or other.log_std is None:
                return np.outer(_times(w, one.slope), _times(v, other.slope)) * cor
            means = np.outer(_times(w, one.mean), _times(v, other.mean))
            return means * np.expm1(np.outer(one.log_std, other.log_std) * cor)

        return [partial(pair, a, b) for a in closed for b in closed]

    @cached_property
    def _quadrature(self) -> tuple[Array, Array, Array, Array]:
        """Nodes, their weights, the mean, and values less the mean, of what is not turned."""
        nodes, weights = self.nodes()
        values = self.bounded(self._average(nodes))
        base = np.where(self.bitten, self.lower, self._base)
        with np.errstate(over="ignore", invalid="ignore"):
            mean = base + (weights * (values - base[:, None])).sum(axis=1)
            return nodes, weights, mean, values - mean[:, None]

    def _mehler_coefficients(self) -> list[Array]:
        """Coefficients c_n (h,) of Mehler's series, each step's as if it were alone."""
        nodes, weights, _, deviation = self._quadrature
        weighted = weights * deviation
        var = (weighted * deviation).sum(axis=1)
        left, open_ = var, np.ones(len(var), dtype=np.bool_)
        before, hermite = np.zeros_like(nodes), np.ones_like(nodes)
        terms = []
        for n in range(N_TERMS):
            before, hermite = hermite, (nodes * hermite - np.sqrt(n) * before) / np.sqrt(n + 1)
            c = (weighted * hermite).sum(axis=1)
            # Below 0 by roundoff only: Bessel's inequality.
            terms.append(np.where(open_, c, np.sqrt(np.maximum(left, 0.0))))
            left = np.where(open_, left - c**2, 0.0)
            open_ = open_ & ~(left <= 1e-13 * var)
            if not open_.any():
                break
        terms.append(np.sqrt(np.maximum(left, 0.0)))
        return terms


def is_plain(chain: Chain) -> bool:
    """Whether a chain is that of a normal distribution."""
    return all(isinstance(link, Affine) for link in chain)


def averaged(weights: Array, rows: Sequence[Array]) -> Array:
    """Weighted averages (h,) of rows, -inf where one with a weight is; exact of equal rows."""
    values = np.array(rows)
    first = np.where(weights > 0, values, -np.inf).max(axis=0)
    used = (weights > 0) & (values != first)
    apart = np.subtract(values, first, out=np.zeros_like(values), where=used)
    return np.asarray(first + (weights * apart).sum(axis=0))


def average(maps: Sequence[Map], weights: Array) -> Map:
    """The average of functions of the first n of h steps, by weights (m, h) that add up to 1.

    Of those with bounds it is that without them, above the average of the bounds. Normal chains
    are merged into one, which loses nothing.
    """
    h = weights.shape[1]
    chains: list[Chain] = []
    shares: list[Array] = []
    normal: list[tuple[Array, Affine]] = []
    for q, weight in zip(maps, weights, strict=True):
        at = np.minimum(np.arange(h), len(q) - 1)
        for chain, own in zip(q.chains, q.weights, strict=True):
            share = weight * np.where(np.arange(h) < len(q), own[at], 0.0)
            if not share.any():
                continue
            used = share > 0
            some = np.where(used, np.arange(h), used.argmax())  # what has no weight is not read
            longer = chain if used.all() else tuple(link.picked(some) for link in chain)
            if is_plain(chain):
                (only,) = longer
                assert isinstance(only, Affine)
                normal.append((share, only))
            else:
                chains.append(longer)
                shares.append(share)
    if normal:
        total = sum((w for w, _ in normal), np.zeros(h))
        some = np.where(total > 0.0, total, 1.0)
        shift = sum((_times(w / some, one.shift) for w, one in normal), np.zeros(h))
        scale = sum((_times(w / some, one.scale) for w, one in normal), np.zeros(h))
        chains.insert(0, (Affine(shift, np.where(total > 0.0, scale, 1.0)),))
        shares.insert(0, total)
    bounds = [np.pad(q.bound, (0, h - len(q)), constant_values=-np.inf) for q in maps]
    bounded = ((weights > 0) & np.isfinite(bounds)).any(axis=0)
    lower = averaged(weights, [np.pad(q.lower, (0, h - len(q))) for q in maps])
    return Map(tuple(chains), np.array(shares), np.where(bounded, lower, -np.inf))


@dataclass(frozen=True, eq=False)
class Sums(Link):
    """Weighted sums over groups of steps, all at the same score: a link of one row a group."""

    q: Map  # of h steps
    group: Positions  # (h,), increasing, from 0
    weight: Array  # (h,), positive

    def __call__(self, x: Array) -> Array:
        """Values at x."""
        return self._sum(self.q(self._at_steps(x)))

    def slope(self, x: Array) -> Array:
        """Derivative at x."""
        z = self._at_steps(x)
        steep = np.broadcast_to(self.q.latent_slope(z), (len(self.q), z.shape[1]))
        return self._sum(np.where(z > self.q.start[:, None], steep, 0.0))

    def inverse(self, y: Array) -> Array:
        """The x of y."""
        y = np.broadcast_to(y, (self.group[-1] + 1, y.shape[1]))
        least = np.minimum.reduceat(self.q.score(self.q.lower[:, None]), self._starts, axis=0)
        end = self._sum(self.q.lower[:, None])
        return np.where(y == end, least, solve(self, self.slope, y))

    def kinks(self) -> Array:
        """Those of all steps of a group, -inf where it has fewer than another, (g, p)."""
        h = len(self.q)
        each = [self.q.start[:, None]]
        each += [np.broadcast_to(k, (h, k.shape[1])) for c in self.q.chains for k in kinks(c)]
        own = np.column_stack(each)
        rows = [own[self.group == g].ravel() for g in range(self.group[-1] + 1)]
        rows = [row[np.isfinite(row)] for row in rows]
        table = np.full((len(rows), max(len(row) for row in rows)), -np.inf)
        for place, row in zip(table, rows, strict=True):
            place[: len(row)] = row
        return table

    def picked(self, at: Positions) -> "Sums":
        """The sums of the groups at the given positions."""
        steps = np.concatenate([np.flatnonzero(self.group == g) for g in at])
        sizes = [int((self.group == g).sum()) for g in at]
        group = np.repeat(np.arange(len(at)), sizes)
        return Sums(self.q.picked(steps), group, self.weight[steps])

    @cached_property
    def _starts(self) -> Positions:
        return np.searchsorted(self.group, np.arange(self.group[-1] + 1))

    def _at_steps(self, x: Array) -> Array:
        return x if len(x) == 1 else x[self.group]

    def _sum(self, values: Array) -> Array:
        return np.add.reduceat(self.weight[:, None] * values, self._starts, axis=0)


def panels(breaks: Array, n_nodes: int) -> tuple[Array, Array]:
    """Nodes and weights (h, p n) of an integral between breaks (h, p + 1), Gauss-Legendre."""
    points, weights = _legendre(n_nodes)
    half = 0.5 * np.diff(breaks, axis=1)[:, :, None]
    nodes, h = breaks[:, :-1, None] + half * (1 + points), len(breaks)
    return nodes.reshape(h, -1), (half * weights).reshape(h, -1)


def normal_density(z: Array) -> Array:
    """That of N(0, 1)."""
    return np.asarray(np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi))


@lru_cache(maxsize=4)
def _legendre(n_nodes: int) -> tuple[Array, Array]:
    points, weights = roots_legendre(n_nodes)
    return points, weights


def _times(weight: Array, values: Array) -> Array:
    """weight * values, 0 where the weight is."""
    if weight.all():
        return np.asarray(weight * values)
    shape = np.broadcast_shapes(weight.shape, values.shape)
    return np.multiply(weight, values, out=np.zeros(shape), where=weight > 0)


def _end(chain: Chain) -> Array:
    """Where the values of a chain end below, (h,); -inf where they do not."""
    with np.errstate(invalid="ignore"):  # straight lines without a slope
        ends = value(chain, np.full((1, 1), -np.inf))[:, 0]
    return np.where(np.isnan(ends), -np.inf, ends)


def _shape_end(chain: Chain) -> int:
    """Number of links up to the last that is a shape of the normal score; 0 for none.

    Sums count as a shape where nothing bounds them, and as a transform else.
    """
    shapes = (i for i, link in enumerate(chain, start=1) if not isinstance(link, Affine | Power))
    last = max(shapes, default=0)
    bounded = last and isinstance(chain[last - 1], Sums) and np.isfinite(_end(chain)).any()
    return 0 if bounded else last


def _closed_form(chain: Chain, used: Flags) -> ClosedForm | None:
    """What a chain that is normal or lognormal has for moments; None of another."""
    first = chain[0]
    if not isinstance(first, Affine):
        return None
    if len(chain) == 1:
        return ClosedForm(np.zeros(len(first.shift)), first.shift, first.scale, None)
    power, *rest = chain[1:]
    if not isinstance(power, Power) or power.transform.power or len(rest) > 1:
        return None
    with np.errstate(over="ignore"):
        mean = np.exp(first.shift + 0.5 * first.scale**2)
    offset = np.full(len(mean), power.transform.lower)
    for after in rest:
        if not isinstance(after, Affine):
            return None
        mean, offset = after.scale * mean, after.shift + after.scale * offset
    # where there is no weight, no exponential of the covariance may overflow
    return ClosedForm(offset, mean, mean * first.scale, np.where(used, first.scale, 0.0))
