r"""Correlated normal scores at fixed points: no seed, and the same answer every time.

The probability that all of them stay within a reach is found by separation of variables. With L the
lower triangular root of the correlations and :math:`z = L x`,

.. math::

    P(|z_t| \le c \;\forall t) = \int_{[0, 1]^h} \prod_t (e_t - d_t)\, dw, \qquad
    d_t, e_t = \Phi\Bigl(\frac{\mp c - \sum_{j<t} L_{tj} x_j}{L_{tt}}\Bigr), \quad
    x_t = \Phi^{-1}\bigl(d_t + w_t (e_t - d_t)\bigr),

averaged over the points w of a scrambled Sobol' sequence.

References
----------
A. Genz, "Numerical computation of multivariate normal probabilities", Journal of Computational and
Graphical Statistics 1 (1992) 141-149, https://doi.org/10.1080/10618600.1992.10477010
"""

from functools import cache

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri
from scipy.stats import qmc

from forecast_unc._random import lower_root
from forecast_unc._typing import Array

# 2^13 points: probabilities of .5 to .98 were right to .0006 over 24 steps, to .003 over 400.
_LOG_POINTS = 13
# 2^16 draws of up to 128 steps, of more as many as fit into 64 MB: with 2^14 probabilities of the
# largest of 24 steps were off by up to .006.
_LOG_DRAWS, _LOG_SIZE = 16, 23
_LEAST_PIVOT = 1e-12  # of a score that those before it determine
_REACH_ERROR = 1e-4


def fixed_scores(cor: Array) -> Array:
    """Scores (h, n) that are spread evenly over N(0, cor), the same every time.

    Parameters
    ----------
    cor : ndarray of shape (h, h)
        Correlations, of any rank.

    Returns
    -------
    ndarray of shape (h, n)
    """
    log_n = min(_LOG_DRAWS, int(_LOG_SIZE - np.log2(len(cor))))
    return np.asarray(lower_root(cor) @ ndtri(_points(len(cor), log_n)))


def reach_of_all(cor: Array, coverage: float) -> float:
    r"""The reach within which all scores stay with a given probability.

    It lies between that of one score and that of independent ones, since
    :math:`P(|z_t| \le c \;\forall t) \ge \prod_t P(|z_t| \le c)` whatever the correlations (Sidak).

    Parameters
    ----------
    cor : ndarray of shape (h, h)
        Correlations, of any rank.
    coverage : float
        The probability.

    Returns
    -------
    float

    References
    ----------
    Z. Sidak, "Rectangular confidence regions for the means of multivariate normal distributions",
    JASA 62 (1967) 626-633, https://doi.org/10.1080/01621459.1967.10482935
    """
    h = len(cor)
    one, independent = -ndtri(0.5 * (1 - coverage)), -ndtri(-0.5 * np.expm1(np.log(coverage) / h))
    root, points = lower_root(cor), _points(h, _LOG_POINTS)

    @cache
    def excess(reach: float) -> float:
        return probability_within(root, reach, points) - coverage

    if excess(one) >= 0.0:  # all are one and the same
        return float(one)
    if excess(independent) <= 0.0:  # independent, but for the error of the quadrature
        return float(independent)
    return float(brentq(excess, one, independent, xtol=_REACH_ERROR))


def probability_within(root: Array, reach: float, points: Array | None = None) -> float:
    """Probability that all scores lie between -reach and reach.

    Parameters
    ----------
    root : ndarray of shape (h, h)
        Lower triangular root of the correlations.
    reach : float
        Positive.
    points : ndarray of shape (h, n), optional
        Where the integrand is averaged.

    Returns
    -------
    float
    """
    w = _points(len(root), _LOG_POINTS) if points is None else points
    x, product = np.empty_like(w), np.ones(w.shape[1])
    for t, row in enumerate(root):
        center, scale = row[:t] @ x[:t], max(row[t], _LEAST_PIVOT)
        low, high = (-reach - center) / scale, (reach - center) / scale
        below, within = ndtr(low), ndtr(high) - ndtr(low)
        product *= within
        x[t] = np.clip(ndtri(below + w[t] * within), low, high)  # finite where nothing is within
    return float(product.mean())


def _points(h: int, log_n: int) -> Array:
    """Points (h, 2^log_n) of the unit cube, none of them on its surface."""
    sequence = qmc.Sobol(h, seed=np.random.default_rng(0))  # scipy < 1.15 has no `rng`
    points = sequence.random_base2(log_n).T
    return np.ascontiguousarray(np.clip(points, 2.0**-53, 1.0 - 2.0**-53))
