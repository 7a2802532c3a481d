r"""Steps that are not normal: transformed normals, and averages of their quantiles.

All steps hang on one normal vector z ~ N(0, R), a Gaussian copula, through increasing functions

.. math:: y_t = q_t(z_t) = \max\Bigl(L_t,\;
    b_t + \sum_k w_{kt}\, g_k^{-1}(\mu_{kt} + \sigma_{kt} z_t)\Bigr)

in which component k is a normal forecast on its own scale, g_k the identity, log or Box-Cox, and
the weights of each step add up to 1; a weight may be 0 at some steps. The bound L, if there is one,
has all the probability that would lie below it; b is what logs and powers are measured from. An
identity may have the tails of Student's t, T(z_t) in the place of z_t. The quantile of y_t at
probability p is q_t at the normal quantile of p. Moments and scores of identity and log are closed
forms; those of Box-Cox, of heavy tails and at a bound within reach come from Gauss-Legendre
quadrature over z and from Mehler's series over the steps.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from scipy.special import log_ndtr, ndtr

from forecast_unc._typing import Array
from forecast_unc.distributions.component import (
    FEW_NODES,
    REACH,
    Component,
    divided,
    panels,
)
from forecast_unc.distributions.tail import Positions, StudentTail, Tail

Flags = np.ndarray[tuple[int, ...], np.dtype[np.bool_]]

N_TERMS = 100  # of Mehler's series: 200 nodes a panel resolve Hermite functions up to there
N_HALVINGS = 64  # of a bisection: 2^-64 is 5e-20


class Marginals:
    """Distributions of the steps: the functions q_t, and what follows from them.

    Parameters
    ----------
    components : sequence of Component
        What is averaged, some of it at each step. Identities without heavy tails are merged into
        one, which loses nothing; the weights of each step are scaled to add up to 1; and what has
        no weight at a step is replaced there, whatever it was.
    offset : ndarray of shape (h,), optional
        b, what is added to the average; nothing by default.
    lower : ndarray of shape (h,), optional
        L, -inf where there is no bound; by default that of the components: b without identities.
    """

    __slots__ = ("components", "lower", "offset", "start")

    def __init__(
        self,
        components: Sequence[Component],
        offset: Array | None = None,
        lower: Array | None = None,
    ) -> None:
        total = sum(c.weight for c in components)
        used = [_known(c, c.weight / total) for c in components if c.weight.any()]
        plain = [c for c in used if c.transform.power is None and c.tail is None]
        others = [c for c in used if c.transform.power is not None or c.tail is not None]
        if len(plain) > 1:
            weight = np.asarray(sum(c.weight for c in plain))
            shares = [c.weight / np.where(weight > 0, weight, 1.0) for c in plain]
            mean = sum((w * c.mean for w, c in zip(shares, plain, strict=True)), np.zeros(1))
            std = sum((w * c.std for w, c in zip(shares, plain, strict=True)), np.zeros(1))
            plain = [_known(Component(weight, plain[0].transform, mean, std), weight)]
        self.components = (*plain, *others)
        self.offset = np.zeros(len(self)) if offset is None else offset
        own = np.where(self._any(lambda c: c.transform.power is None), -np.inf, self.offset)
        self.lower = own if lower is None else np.maximum(own, lower)
        # The z at which q_t leaves a bound that its components do not have.
        self.start = np.full(len(self), -np.inf)
        if (bounded := self.lower > own).any():
            scores = self.normal_score(np.where(bounded, self.lower, 0.0))
            self.start = np.where(bounded, scores, -np.inf)

    def __len__(self) -> int:
        return len(self.components[0].mean)

    @property
    def normal(self) -> bool:
        """Whether every step is normal."""
        only = self.components[0]
        plain = len(self.components) == 1 and only.transform.power is None and only.tail is None
        return plain and bool(np.isneginf(self.lower).all())

    @property
    def closed(self) -> Flags:
        """Whether the moments of each step need no quadrature, (h,)."""
        return ~(self._any(lambda c: not c.closed) | self.bitten)

    @property
    def bitten(self) -> Flags:
        """Whether the bound of each step has a probability that counts, (h,)."""
        return np.asarray(self.start > -REACH)

    def quantile(self, z: Array) -> Array:
        """Values q_t(z) at normal scores z, (h or 1, n); the same for all steps if of one row."""
        return self.bounded(self.latent_quantile(z))

    def bounded(self, values: Array) -> Array:
        """Values (h, n) moved to the bound where they are below it."""
        return np.maximum(values, self.lower[:, None])

    def latent_quantile(self, z: Array) -> Array:
        """The same without the bound."""
        return self.offset[:, None] + self._average(lambda c: c.quantile(z))

    def latent_slope(self, z: Array) -> Array:
        """Derivative of :meth:`latent_quantile` in z, (h, n)."""
        return self._average(lambda c: c.slope(z))

    def normal_score(self, y: Array) -> Array:
        """Largest z with q_t(z) <= y, of one y a step, (h,): the inverse of q_t.

        -inf where no value is as low, NaN where y is.
        """
        return np.where(y < self.lower, -np.inf, self._latent_score(y - self.offset))

    def _latent_score(self, y: Array) -> Array:
        """The same of the average alone, without offset and bound."""
        scores = np.array([c.normal_score(y) for c in self.components])  # (k, h)
        used = np.array([c.weight > 0 for c in self.components])
        # Each component is at most y at the least of its scores, so their average is, too.
        low = np.where(used, scores, np.inf).min(axis=0)
        high = np.where(used, scores, -np.inf).max(axis=0)
        if (same := (low == high) | np.isnan(y)).all():
            return np.asarray(high)
        unbounded = self._any(lambda c: c.transform.power is None)
        nothing = (high == -np.inf) | (np.isneginf(low) & ~unbounded) | np.isnan(y)
        end = np.where(nothing, 0.0, high)
        step = np.ones(len(y))

        def average(z: Array) -> Array:
            return self._average(lambda c: c.quantile(z[:, None]))[:, 0]

        low = np.where(nothing, -1.0, np.where(np.isneginf(low), end - step, low))
        # An identity takes every value, if far enough below what the others add.
        while (above := ~nothing & ~same & (average(low) > y)).any():
            step = np.where(above, 2 * step, step)
            low = np.where(above, end - step, low)
        z = bisect(lambda z: average(z) <= y, low, end)
        return np.where(same, high, np.where(nothing, -np.inf, z))

    def mean(self) -> Array:
        """Mean of each step, (h,); not finite where it is too large for a float."""
        with np.errstate(over="ignore"):
            latent = self.offset + self._average(Component.expectation)
            if not self.bitten.any():
                return latent
            nodes, weights = self.nodes(self.start)
            bitten = self._base + (weights * self._above(nodes)).sum(axis=1)
            return np.where(self.bitten, bitten, latent)

    def covariance(self, cor: Array) -> Array:
        r"""Joint covariance of the steps, given the correlations R of z, (h, h).

        .. math::

            \operatorname{Cov}[e^{x}, e^{x'}] = m m' (e^{\rho\sigma\sigma'} - 1), \quad
            \operatorname{Cov}[e^{x}, x'] = m \rho\sigma\sigma', \quad
            m = e^{\mu + \sigma^2/2}

        With a Box-Cox component it is Mehler's series over the Hermite coefficients
        :math:`c_n = \mathrm E[q(z) h_n(z)]`, h_n normalized,

        .. math:: \operatorname{Cov}[y_t, y_u] = \sum_{n \ge 1} \rho^n c_n(t) c_n(u)

        What the N = 100 terms leave of the variance is taken for one more term, so that the
        diagonal is the variance whatever N is. That is nothing unless a y has a probability; then
        the covariance is off by 1e-4 of the product of the stds at correlations of .99 in absolute
        value, by a few more beyond, and by 3e-3 if nearly all the probability is at that y.

        Parameters
        ----------
        cor : ndarray of shape (h, h)
            Correlations of z, with a diagonal of ones.

        Returns
        -------
        ndarray of shape (h, h)
            Not finite where it is too large for a float.

        References
        ----------
        M. G. Kendall, "Proof of relations connected with the tetrachoric series and its
        generalization", Biometrika 32 (1941) 196-198, https://doi.org/10.1093/biomet/32.2.196
        """
        return self.coupling()(cor)

    def variance(self) -> Array:
        """Variance of each step, (h,)."""
        closed = self.closed
        parts = []
        with np.errstate(over="ignore", invalid="ignore"):
            if closed.any():
                one = np.eye(len(self))
                total = sum((pair(one) for pair in self._closed_forms()), np.zeros_like(one))
                parts.append(total.diagonal())
            if not closed.all():
                _, weighted, deviation = self._quadrature()
                parts.append((weighted * deviation).sum(axis=1))
        return np.where(closed, parts[0], parts[-1])

    def coupling(self) -> Callable[[Array], Array]:
        """:meth:`covariance` as a function, entry by entry, to be called many times."""
        closed = self.closed
        with np.errstate(over="ignore", invalid="ignore"):
            pairs = self._closed_forms() if closed.any() else []
            series = None if closed.all() else self._mehler()
        both = np.outer(closed, closed)

        def covariance(cor: Array) -> Array:
            with np.errstate(over="ignore", invalid="ignore"):
                total = sum((pair(cor) for pair in pairs), np.zeros_like(cor))
                if series is not None:
                    total = np.where(both, total, series(cor))
                # symmetric but for roundoff; not finite where it is too large for a float
                return np.asarray(0.5 * (total + total.T))

        return covariance

    def atom(self, y: Array) -> Flags:
        """Whether each y, (h,), is a single value of positive probability: at the bound."""
        return np.asarray((y == self.lower) & np.isfinite(self.normal_score(y)))

    def pit(self, y: Array) -> Array:
        """Probability of a value up to y, of one y a step, (h,)."""
        return np.asarray(ndtr(self.normal_score(y)))

    def nlpd(self, y: Array) -> Array:
        r"""Negative log density at y, of one y a step, (h,).

        .. math:: -\log\bigl(\varphi(z) / q'(z)\bigr), \quad q(z) = y

        inf where y is impossible. At the bound the probability takes the place of the density if it
        is positive: not after a logarithm.
        """
        z = self.normal_score(y)
        finite = np.where(np.isfinite(z), z, 0.0)
        slope = self.latent_slope(finite[:, None])[:, 0]
        with np.errstate(divide="ignore"):
            density = 0.5 * np.log(2 * np.pi) + 0.5 * finite**2 + np.log(slope)
        loss = np.where(self.atom(y), -log_ndtr(z), density)
        return np.where(np.isnan(z), np.nan, np.where(np.isneginf(z), np.inf, loss))

    def crps(self, y: Array) -> Array:
        r"""Continuous ranked probability score at y, of one y a step, (h,).

        .. math::

            \mathrm E|Y - y| - \tfrac12 \mathrm E|Y - Y'|
            = y (2F(y) - 1) + \mathrm E[Y] - 2\,\mathrm E[Y; Y \le y] - \mathrm E[Y (2F(Y) - 1)]

        Every expectation is linear in q, hence the average of those of the components; from where q
        leaves the bound on.

        References
        ----------
        S. Baran and S. Lerch, "Log-normal distribution based EMOS models for probabilistic wind
        speed forecasting", QJRMS 141 (2015) 2289-2299, https://doi.org/10.1002/qj.2521
        """
        z = self.normal_score(y)
        base = self._base

        def partial(z: Array) -> Array:
            own = self._average(lambda c: c.partial_mean(z))
            return np.asarray(own + (self.offset - base) * ndtr(z))

        below, spread = partial(z), self._average(Component.mean_difference)
        if self.bitten.any():
            from_start = partial(np.fmax(z, self.start)) - partial(self.start)
            nodes, weights = self.nodes(self.start)
            apart = (weights * self._above(nodes) * (2 * ndtr(nodes) - 1)).sum(axis=1)
            below = np.where(self.bitten, from_start, below)
            spread = np.where(self.bitten, apart, spread)
        score = (y - base) * (2 * ndtr(z) - 1) + (self.mean() - base) - 2 * below - spread
        return np.where(np.isnan(y), np.nan, score)

    def latent_scores(self, paths: Array) -> Array:
        """Normal scores (n, h) of values of one component alone, before the bound."""
        (component,) = self.components
        return component.normal_score(paths - self.offset)

    def affine(self, factor: float, shift: float) -> "Marginals":
        """Distributions of ``factor * y + shift``, factor positive."""
        parts = [c.scaled(np.full(len(self), factor)) for c in self.components]
        return Marginals(parts, factor * self.offset + shift, factor * self.lower + shift)

    def picked(self, at: Positions) -> "Marginals":
        """Distributions of the steps at the given positions."""
        parts = [c.picked(at) for c in self.components]
        return Marginals(parts, self.offset[at], self.lower[at])

    def conditioned(self, mean: Array, std: Array) -> "Marginals":
        """Distributions once z is ``mean + std`` times a standard normal, (h,) each."""
        return self._with([c.conditioned(mean, std) for c in self.components])

    def widened(self, factor: Array) -> "Marginals":
        """Distributions of ``factor`` (h,) times the stds."""
        return self._with([c.widened(factor) for c in self.components])

    def with_dof(self, dof: float) -> "Marginals":
        """Distributions with these tails of Student's t where there are others, or none."""

        def changed(component: Component) -> Component:
            tail = component.tail
            if component.transform.power is not None:
                return component
            if tail is None:
                return component.shaped(StudentTail.of(dof, len(self)))
            if isinstance(tail, StudentTail):
                return replace(component, tail=StudentTail(dof, tail.mean, tail.std))
            return component

        return self._with([changed(component) for component in self.components])

    def shaped(self, tail: Tail) -> "Marginals":
        """Distributions with T(z) in the place of z."""
        return self._with([c.shaped(tail) for c in self.components])

    def censored(self, lower: Array) -> "Marginals":
        """Distributions with what lies below a bound (h,) at it."""
        return Marginals(self.components, self.offset, np.maximum(lower, self.lower))

    def _with(self, components: Sequence[Component]) -> "Marginals":
        return Marginals(components, self.offset, self.lower)

    def _average(self, part: Callable[[Component], Array]) -> Array:
        """Weighted average over the components of ``part``, (h,) or (h, n)."""
        values = [part(c) for c in self.components]
        weights = [c.weight.reshape(-1, *(1,) * (values[0].ndim - 1)) for c in self.components]
        first, *rest = (w * value for w, value in zip(weights, values, strict=True))
        return np.asarray(sum(rest, first))

    def _any(self, kind: Callable[[Component], bool]) -> Flags:
        """Whether a component of that kind has a weight at each step, (h,)."""
        found = [c.weight > 0 for c in self.components if kind(c)]
        return np.any(found, axis=0) if found else np.zeros(len(self), dtype=np.bool_)

    def _closed_forms(self) -> list[Callable[[Array], Array]]:
        """Covariances of each pair of identities and logs, in their correlations."""

        def pair(a: Component, b: Component) -> Callable[[Array], Array]:
            if a.transform.power is None or b.transform.power is None:
                slopes = np.outer(a.weight * a.gradient(), b.weight * b.gradient())
                return lambda cor: slopes * cor
            means = np.outer(a.weight * a.expectation(), b.weight * b.expectation())
            exponent = np.outer(a.std, b.std)
            return lambda cor: means * np.expm1(exponent * cor)

        closed = [c for c in self.components if c.closed]
        return [pair(a, b) for a in closed for b in closed]

    def _quadrature(self) -> tuple[Array, Array, Array]:
        """Nodes z, and q(z) less its mean there, with the weights of N(0, 1) and without."""
        nodes, weights = self.nodes(self.start)
        deviation = self.quantile(nodes) - self.mean()[:, None]
        return nodes, weights * deviation, deviation

    @property
    def _base(self) -> Array:
        return np.where(self.bitten, self.lower, self.offset)

    def _above(self, z: Array) -> Array:
        """How far above the bound within reach, or the offset, the values at z are, (h, n)."""
        return self.quantile(z) - self._base[:, None]

    def nodes(self, start: Array) -> tuple[Array, Array]:
        """Nodes and weights (h, n) of the integral over N(0, 1), between the kinks of each q.

        One of them is at ``start`` (h,), -inf for none.
        """
        bounds = (c.bounds() for c in self.components)
        starts, peaks = (np.array(b) for b in zip(*bounds, strict=True))  # (k, h)
        used = np.array([c.weight > 0 for c in self.components])
        starts, peaks = np.where(used, starts, -np.inf), np.where(used, peaks, -np.inf)
        end = np.maximum(peaks.max(axis=0), start) + REACH
        if np.isfinite(start).any():
            starts = np.vstack([starts, start])
        kinks, low = np.sort(np.clip(starts, -REACH, end), axis=0).T, np.full_like(end, -REACH)
        corners = [c.tail.corners() for c in self.components if c.tail is not None]
        jumps = [each for each in corners if each is not None]
        if jumps:
            breaks = divided(low, end, np.column_stack([kinks, *jumps]))
            return panels(breaks, FEW_NODES)
        return panels(np.column_stack([low, kinks, end]))

    def _mehler(self) -> Callable[[Array], Array]:
        """Covariance of the average as a power series in the correlations."""
        nodes, weighted, deviation = self._quadrature()
        var = (weighted * deviation).sum(axis=1)
        left = var
        before, hermite = np.zeros_like(nodes), np.ones_like(nodes)
        coefficients = []
        for n in range(N_TERMS):
            before, hermite = hermite, (nodes * hermite - np.sqrt(n) * before) / np.sqrt(n + 1)
            coefficients.append((weighted * hermite).sum(axis=1))
            left = left - coefficients[-1] ** 2
            if (left <= 1e-13 * var).all():
                break
        # Below 0 by roundoff only: Bessel's inequality.
        coefficients.append(np.sqrt(np.maximum(left, 0.0)))

        def series(cor: Array) -> Array:
            total = np.zeros_like(cor)
            for c in reversed(coefficients):
                total = cor * (np.outer(c, c) + total)
            return total

        return series


def _known(component: Component, weight: Array) -> Component:
    """Component of another weight, with a standard normal in place of what has none."""
    used = weight > 0
    mean, std = np.where(used, component.mean, 0.0), np.where(used, component.std, 1.0)
    return replace(component, weight=weight, mean=mean, std=std)


def bisect(
    below: Callable[[Array], Flags],
    low: Array,
    high: Array,
) -> Array:
    """Largest x between low and high at which ``below``, true first and then false, is true."""
    for _ in range(N_HALVINGS):
        middle = 0.5 * (low + high)
        inside = below(middle)
        low, high = np.where(inside, middle, low), np.where(inside, high, middle)
    return low
