r"""Distributions with a bound that have given moments.

With u the shape before the bound L, and z_0 where y leaves it,

.. math:: y = \max(L, k\, u(z) + b) = L + k \max(u(z) - u(z_0), 0)

Of all z_0 one gives the ratio of the variance to the square of the mean above L, and k the mean. Of
a normal shape, k u + b ~ N(m, s^2), these are the solution of

.. math::

    \mathrm E[y] = L + (m - L) \Phi(a) + s \varphi(a), \quad
    \mathrm E[(y - L)^2] = ((m - L)^2 + s^2) \Phi(a) + (m - L) s \varphi(a), \quad
    a = (m - L) / s
"""

from collections.abc import Callable

import numpy as np
from scipy.special import ndtr

from forecast_unc._typing import Array
from forecast_unc.distributions.component import REACH
from forecast_unc.distributions.marginals import N_HALVINGS, Marginals

_TOLERANCE = 1e-13  # of z, at which a search ends


def with_moments(marginals: Marginals, mean: Array, var: Array) -> Marginals:
    """Distributions moved and stretched before the bound so that mean and variance are these.

    Parameters
    ----------
    marginals : Marginals
        Distributions of h steps with a bound.
    mean, var : ndarray of shape (h,)
        Mean, above the bound, and variance of each step with its bound.

    Returns
    -------
    Marginals
        Those of :func:`moved` by the factors and shifts of :func:`onto_moments`.
    """
    return moved(marginals, *onto_moments(marginals, mean, var))


def onto_moments(marginals: Marginals, mean: Array, var: Array) -> tuple[Array, Array]:
    """Factor k and shift, (h,) each, that give ``max(L, k * y + shift)`` a mean and a variance.

    Where the bound is out of reach they are those without one.
    """
    free = Marginals(marginals.components)
    unit = mean - marginals.lower  # else squares overflow
    ratio = np.log1p((np.sqrt(var) / unit) ** 2)

    def excess(start: Array) -> tuple[Array, Array]:
        nodes, weights = free.nodes(start)
        above = np.maximum(free.quantile(nodes) - free.quantile(start[:, None]), 0.0)
        above /= unit[:, None]
        first = (weights * above).sum(axis=1)
        return first, (weights * above**2).sum(axis=1)

    def too_wide(start: Array) -> tuple[Array, Array]:
        first, second = excess(start)
        steep = free.latent_slope(start[:, None])[:, 0] / unit
        with np.errstate(divide="ignore", invalid="ignore"):  # no digit is left of what is far out
            slope = 2.0 * steep * (ndtr(-start) / first - first / second)
            return np.log(second) - 2.0 * np.log(first) - ratio, slope

    lowest = np.full(len(mean), -REACH)
    within = too_wide(lowest)[0] <= 0.0
    start = _root(too_wide, lowest, np.full(len(mean), 3.0 * REACH))
    stretch = np.sqrt(var / free.variance())
    factor = np.where(within, 1.0 / excess(start)[0], stretch)
    bound = np.where(within, marginals.lower, 0.0) - factor * free.quantile(start[:, None])[:, 0]
    offset = np.where(within, bound, mean - factor * free.mean())
    return factor, offset - factor * marginals.offset


def _root(
    function: Callable[[Array], tuple[Array, Array]],
    low: Array,
    high: Array,
) -> Array:
    """Where an increasing function, of known slope, is 0: Newton's method within brackets.

    An eighth of the evaluations of a bisection. Each entry stays once it has converged, so that it
    does not depend on the others.
    """
    x, last = np.clip(0.0, low, high), high - low
    done = np.zeros(len(x), dtype=np.bool_)
    for _ in range(N_HALVINGS):
        value, slope = function(x)
        low, high = np.where(value <= 0.0, x, low), np.where(value <= 0.0, high, x)
        with np.errstate(divide="ignore", invalid="ignore"):
            newton = x - value / slope
        good = (low <= newton) & (newton <= high) & (np.abs(newton - x) <= 0.5 * last)
        following = np.where(good, newton, 0.5 * (low + high))
        last = np.abs(following - x)
        x = np.where(done, x, following)
        done |= last <= _TOLERANCE * (1.0 + np.abs(x))
        if done.all():
            break
    return np.asarray(x)


def moved(marginals: Marginals, factor: Array, shift: Array) -> Marginals:
    """Distributions of ``factor * y + shift`` before the same bound, (h,) each."""
    parts = [c.scaled(factor) for c in marginals.components]
    return Marginals(parts, factor * marginals.offset + shift, marginals.lower)
