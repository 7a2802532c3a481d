"""Sums of steps that are not normal: of the same transform, with exact mean and covariance."""

from dataclasses import replace

import numpy as np

from forecast_unc._typing import Array
from forecast_unc.distributions.bounded import with_moments
from forecast_unc.distributions.component import Component
from forecast_unc.distributions.marginals import Flags, Marginals, bisect


def aggregate(marginals: Marginals, cor: Array, matrix: Array) -> tuple[Marginals, Array]:
    r"""Distributions of ``matrix @ y`` and the correlations of their normal scores.

    Each component is aggregated on its own, to that of the same transform, mean and variance: of
    logs a lognormal (Fenton-Wilkinson), of identities the exact distribution, or with heavy tails
    that of the same degrees of freedom. The widths of an average are then scaled so that its
    variance is exact, or where steps have a bound within reach all is moved and stretched before
    the bound so that mean and variance are, and the correlations are those that
    give the exact covariance of the aggregates. Rows of a single step need no approximation.

    Parameters
    ----------
    marginals : Marginals
        Distributions of the h steps.
    cor : ndarray of shape (h, h)
        Correlations of their normal scores.
    matrix : ndarray of shape (g, h)
        Nonnegative weights, no row all zero.

    Returns
    -------
    marginals : Marginals
        Distributions of the g aggregates: mean and variance exact, the shape approximate.
    cor : ndarray of shape (g, g)
        A covariance that no correlation of these distributions can give is brought to the nearest
        that one can; correlations that do not form a positive semidefinite matrix are mixed with
        those of the aggregates until they do.

    References
    ----------
    L. F. Fenton, "The sum of log-normal probability distributions in scatter transmission
    systems", IRE Transactions on Communications Systems 8 (1960) 57-67,
    https://doi.org/10.1109/TCOM.1960.1097606
    """
    if (np.count_nonzero(matrix, axis=1) == 1).all():
        at = matrix.argmax(axis=1)
        factor = matrix[np.arange(len(matrix)), at]
        alone = marginals.picked(at)
        parts = [c.scaled(factor) for c in alone.components]
        bounded = Marginals(parts, factor * alone.offset, factor * alone.lower)
        return bounded, cor[np.ix_(at, at)]
    exact = matrix @ marginals.covariance(cor) @ matrix.T
    exact = 0.5 * (exact + exact.T)
    var = exact.diagonal()
    parts = [_matched(c, cor, matrix) for c in marginals.components]
    bitten = marginals.bitten.any()
    if len(parts) > 1 and not bitten:

        def too_narrow(factor: Array) -> Flags:
            return Marginals([_stretched(c, factor) for c in parts]).variance() <= var

        # Below 1, as the parts do not move as one; above by as little as their shapes differ.
        factor = bisect(too_narrow, np.full(len(var), 1e-6), np.full(len(var), 2.0))
        parts = [_stretched(c, factor) for c in parts]
    result = Marginals(parts, matrix @ marginals.offset, bounds(matrix, marginals.lower))
    if bitten:
        result = with_moments(result, matrix @ marginals.mean(), var)
    return result, score_correlations(result, exact)


def score_correlations(marginals: Marginals, cov: Array) -> Array:
    """Correlations of the normal scores that give the steps a covariance.

    Parameters
    ----------
    marginals : Marginals
        Distributions of the h steps, with the variances of the diagonal.
    cov : ndarray of shape (h, h)
        Covariance of the steps.

    Returns
    -------
    ndarray of shape (h, h)
        The nearest where none gives it; where they do not form a positive semidefinite matrix
        they are mixed with the correlations of the steps until they do.
    """
    coupling = marginals.coupling()
    one = np.ones_like(cov)
    # The covariance of two increasing functions increases with the correlation.
    joint = bisect(lambda rho: coupling(rho) <= cov, -one, one)
    np.fill_diagonal(joint, 1.0)
    lowest = float(np.linalg.eigvalsh(joint)[0])
    if lowest < 0:
        std = np.sqrt(cov.diagonal())
        plain = cov / np.outer(std, std)  # the product of variances can overflow
        # The lowest eigenvalue is concave: the mixture's is at least the mixture of the two.
        share = lowest / (lowest - max(float(np.linalg.eigvalsh(plain)[0]), 0.0))
        joint = (1 - share) * joint + share * plain
        np.fill_diagonal(joint, 1.0)
    return joint


def _matched(component: Component, cor: Array, matrix: Array) -> Component:
    """Component of the aggregates with the mean and variance of its own part of them."""
    own = matrix * component.weight  # (g, h)
    weight = own.sum(axis=1) / matrix.sum(axis=1)
    used = weight > 0
    own = own / np.where(used, weight, 1.0)[:, None]
    alone = replace(component, weight=np.ones(len(cor)))
    var = (own @ Marginals([alone]).covariance(cor) @ own.T).diagonal()
    mean = own @ alone.expectation()
    # Where there is no weight, any moments do.
    tail = None if component.tail is None else component.tail.of_groups(len(matrix))
    group = replace(component, weight=np.ones(len(matrix)), tail=tail)
    group = _of_moments(group, np.where(used, mean, 1.0), np.where(used, var, 1.0))
    return replace(group, weight=weight)


def bounds(matrix: Array, lower: Array) -> Array:
    """Lower bounds (g,) of ``matrix @ y``, matrix (g, h) not negative; -inf where there is none."""
    free = np.isneginf(lower)
    total = matrix @ np.where(free, 0.0, lower)
    return np.where((matrix > 0) @ free, -np.inf, total)


def _of_moments(component: Component, mean: Array, var: Array) -> Component:
    """Component on the same scale with the given mean and variance of y, (h,) each."""
    power = component.transform.power
    if power is None:
        unit = 1.0 if component.tail is None else component.tail.var
        return component.like(mean, np.sqrt(var / unit))
    ratio = (np.sqrt(var) / mean) ** 2  # the square of the mean can overflow
    if power == 0:
        log_var = np.log1p(ratio)
        return component.like(np.log(mean) - 0.5 * log_var, np.sqrt(log_var))

    # Up to its unit, y = (cos a + sin a z)^(1 / power), from no spread at a = 0 on.
    def shape(angle: Array) -> Component:
        return component.like((np.cos(angle) - 1) / power, np.sin(angle) / power)

    def too_narrow(angle: Array) -> Flags:
        tried = Marginals([shape(angle)])
        return tried.variance() <= ratio * tried.mean() ** 2

    with np.errstate(over="ignore", invalid="ignore"):
        best = shape(bisect(too_narrow, np.zeros(len(mean)), np.full(len(mean), np.pi)))
        return best.scaled(mean / best.expectation())


def _stretched(component: Component, factor: Array) -> Component:
    """Component with ``factor`` (h,) times the std on its scale, and the same mean of y."""
    wider = component.like(component.mean, factor * component.std)
    if component.transform.power is None:
        return wider
    return wider.scaled(component.expectation() / wider.expectation())
