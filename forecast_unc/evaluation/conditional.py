"""Coverage in groups of values that are not independent: shares held, their errors, two tests.

Sources: J. N. K. Rao, A. J. Scott, Journal of the American Statistical Association 76 (1981)
221-230 (https://doi.org/10.1080/01621459.1981.10477633), the chi-square test corrected by the
design effect; H. Huynh, L. S. Feldt, Journal of Educational Statistics 1 (1976) 69-82
(https://doi.org/10.3102/10769986001001069), its degrees of freedom with few units; E. L. Korn,
B. I. Graubard, Survey Methodology 24 (1998) 193-201, the binomial of an effective number of values.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betainc, betaincinv, fdtrc

from forecast_unc._typing import Array


class ShareTests(NamedTuple):
    """Of each group, (g,) each, how many values it has and p of the nominal coverage."""

    n: Array
    n_effective: Array  # as many independent values tell as much
    p_value: Array
    p_equal: float  # of the test that all groups hold the same share


def shares_tested(
    held: Array, groups: NDArray[np.intp], units: NDArray[np.intp], nominal: float
) -> ShareTests:
    r"""Tests of values held (n,), in [0, 1], by groups, and by the units that correlate them.

    With N_ug values of unit u in group g, n of all m units, residuals e from the share p of g and
    their sums E_ug, the correlation of two values of a unit is that of one unit more, all of whose
    values are held or none, beside what was seen:

    .. math::

        \rho = \frac{\frac{m}{m-1} \sum_u E_u^2 - \sum e^2 + c}{s \sum_u N_u (N_u - 1) + c}, \quad
        c = \bar N (\bar N - 1)\,\pi (1 - \pi), \quad s = \frac{1}{n} \sum e^2,

    cut to [0, 1], with :math:`\pi` the nominal coverage and :math:`\bar N = n / m`; the design
    effect is :math:`1 + \rho (\sum_u N_u^2 / n - 1)`, and n over it the effective number.
    """
    # Without the additional unit a test at 5 % rejects 12 to 16 % of right 95 % bands, of ten
    # origins of 24 correlated steps, with it 1 %: misses come in bursts, and few are seen
    # (examples/benchmarks/conditional.py).
    n_groups, n_units = int(groups.max()) + 1, int(units.max()) + 1
    place, size = units * n_groups + groups, n_units * n_groups
    counts = np.bincount(place, minlength=size).reshape(n_units, n_groups)  # N_ug
    n = counts.sum(axis=0)
    share = np.bincount(groups, held) / n
    e = held - share[groups]
    sums = np.bincount(place, e, size).reshape(counts.shape)  # E_ug
    squares, m = np.bincount(groups, e**2), (counts > 0).sum(axis=0)
    pairs, mean = (counts * (counts - 1)).sum(axis=0), n / m
    c = mean * (mean - 1.0) * nominal * (1.0 - nominal)
    between = m / np.maximum(m - 1, 1) * (sums**2).sum(axis=0)
    rho = (between - squares + c) / np.where(pairs, pairs * squares / n + c, 1.0)
    effect = 1.0 + np.clip(rho, 0.0, 1.0) * ((counts**2).sum(axis=0) / n - 1.0)
    effective = np.where(m > 1, n / effect, np.nan)  # of one unit the correlation is unknown
    below, above = _tails(share * effective, effective, nominal)
    p_value = np.minimum(1.0, 2.0 * np.minimum(below, above))
    return ShareTests(n, effective, p_value, _p_equal(held, groups, units, counts))


def _tails(k: Array, n: Array, p: float) -> tuple[Array, Array]:
    """P(K <= k) and P(K >= k) of a binomial of n, neither of them whole numbers."""
    below = np.where(k < n, betainc(np.maximum(n - k, 1e-9), k + 1.0, 1.0 - p), 1.0)
    above = np.where(k > 0, betainc(np.maximum(k, 1e-9), n - k + 1.0, p), 1.0)
    return np.where(np.isnan(n), np.nan, below), np.where(np.isnan(n), np.nan, above)


def _p_equal(
    held: Array, groups: NDArray[np.intp], units: NDArray[np.intp], counts: NDArray[np.intp]
) -> float:
    r"""P value of equal shares: F = \sum_g n_g (p_g - p)^2 / tr V, on \nu and \nu (m - 1).

    V = m / (m - 1) \sum_u z_u z_u' is the covariance of sqrt(n_g) (p_g - p), with z_ug what unit u
    adds to it, and \nu = (tr V)^2 / tr(V^2) without the bias of m units.
    """
    n_units, n_groups = counts.shape
    if n_groups < 2 or n_units < 2:
        return np.nan
    n, mean = counts.sum(axis=0), held.mean()
    differences = np.bincount(groups, held) / n - mean
    # Residuals from the mean of all groups, as if it held: those of groups in few units, from the
    # mean of the group, are too small (ten origins in four groups: 20 % rejected at 5 %).
    place = units * n_groups + groups
    sums = np.bincount(place, held - mean, counts.size).reshape(counts.shape)
    z = np.sqrt(n) * (sums / n - sums.sum(axis=1, keepdims=True) / len(held))
    gram = n_units / (n_units - 1) * (z @ z.T if n_units < n_groups else z.T @ z)
    trace, squared, dof = float(np.trace(gram)), float((gram**2).sum()), n_units - 1
    if trace <= 1e-12:  # all held, or none
        return 1.0
    if dof > 1:
        squared = dof**2 / ((dof - 1) * (dof + 2)) * (squared - trace**2 / dof)
    nu = min(max(trace**2 / squared, 1.0), n_groups - 1.0) if squared > 0.0 else n_groups - 1.0
    return float(fdtrc(nu, nu * dof, n @ differences**2 / trace))


def standard_error(held: ArrayLike, n: ArrayLike) -> Array:
    """Standard error of shares of n values, two held and two not added, so never 0.

    A. Agresti, B. A. Coull, The American Statistician 52 (1998) 119-126,
    https://doi.org/10.1080/00031305.1998.10480550.
    """
    share, size = np.asarray(held, dtype=np.float64), np.asarray(n, dtype=np.float64)
    shifted = (share * size + 2.0) / (size + 4.0)
    return np.asarray(np.sqrt(shifted * (1.0 - shifted) / (size + 4.0)))


def share_interval(held: ArrayLike, n: ArrayLike) -> tuple[Array, Array]:
    """Ends of the 95 % interval of shares of n values, by the binomial (Clopper and Pearson)."""
    share, size = np.asarray(held, dtype=np.float64), np.asarray(n, dtype=np.float64)
    k = share * size
    low = betaincinv(np.maximum(k, 1e-9), size - k + 1.0, 0.025)
    high = betaincinv(k + 1.0, np.maximum(size - k, 1e-9), 0.975)
    return np.where(k > 0.0, low, 0.0), np.where(k < size, high, 1.0)


def holm(p_values: ArrayLike) -> Array:
    """P values of several tests, adjusted so that one of them is wrongly below .05 in 5 %.

    S. Holm, Scandinavian Journal of Statistics 6 (1979) 65-70; NaN stays, and does not count.
    """
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p)[: int((~np.isnan(p)).sum())]
    adjusted = np.full(p.shape, np.nan)
    raised = p[order] * np.arange(len(order), 0, -1)
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(raised))
    return adjusted
