"""The test of Diebold and Mariano (1995), as Harvey, Leybourne and Newbold (1997, eq. 9) have it.

Sources: https://doi.org/10.1080/07350015.1995.10524599, 10.1016/S0169-2070(96)00719-4.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import stdtr

from forecast_unc._checks import check_whole, refusal


class DieboldMariano(NamedTuple):
    """Mean difference of the losses, the test's statistic and its two-sided p value."""

    difference: float
    statistic: float
    p_value: float
    kernel: str  # "rectangular", or "Bartlett" where that variance is larger


def diebold_mariano(loss: ArrayLike, reference: ArrayLike, lags: int) -> DieboldMariano:
    r"""Test of equal mean losses (n,) from the same origins, whose horizons overlap with `lags`.

    .. math::

        S = \bar d \sqrt{\frac{n + 1 - 2h + h(h-1)/n}{V}}, \quad
        V = \gamma_0 + 2 \sum_{k=1}^{h-1} w_k \gamma_k, \quad h = \text{lags} + 1

    with d the differences of the losses, :math:`\gamma_k` their autocovariances with divisor n and
    :math:`w_k = 1` or Bartlett's :math:`1 - k/h`, whichever gives the larger V; S is compared with
    Student's t on n - 1 degrees of freedom, and is NaN if the difference is the same at every
    origin, to 12 digits of the losses.
    """
    lags = check_whole("lags", lags, 0, "0 is for horizons that do not overlap.")
    own, other = (np.asarray(x, dtype=np.float64) for x in (loss, reference))
    n = own.size
    if own.shape != (n,) or other.shape != (n,) or not np.isfinite([own, other]).all():
        got = f"shapes {own.shape} and {other.shape}"
        remedy = "Leave out the origins without a loss."
        raise refusal("loss and reference", "be finite and of one shape (n,)", got, remedy)
    if n < lags + 2:
        must = f"hold at least {lags + 2} origins if the horizons of {lags + 1} overlap"
        raise refusal("loss", must, f"{n}", "Take more origins, or set them further apart.")
    d = own - other
    mean = float(d.mean())
    if np.ptp(d) <= 1e-12 * max(np.abs(own).max(), np.abs(other).max()):
        return DieboldMariano(mean, np.nan, np.nan, "rectangular")
    e = d - mean
    gamma = np.array([e[k:] @ e[: n - k] for k in range(lags + 1)]) / n
    h = lags + 1
    # The rectangular variance may be negative or just above 0, which would make any difference
    # significant; where overlaps make neighbors alike, it is the larger one. Share of 20,000
    # samples without a difference that a test at 5 % with 3 lags rejected: 5 % of 20 independent
    # differences (11 % with Bartlett's only where the rectangular is not positive); 11 %, 8 % and
    # 6 % of 20, 40 and 100 moving averages of order 3.
    bartlett_weights = 1 - np.arange(1, h) / h
    rectangular = gamma[0] + 2 * gamma[1:].sum()
    bartlett = gamma[0] + 2 * bartlett_weights @ gamma[1:]
    var, kernel = max((rectangular, "rectangular"), (bartlett, "Bartlett"), key=lambda v: v[0])
    statistic = float(mean * np.sqrt((n + 1 - 2 * h + h * (h - 1) / n) / var))
    return DieboldMariano(mean, statistic, float(2 * stdtr(n - 1, -abs(statistic))), kernel)
