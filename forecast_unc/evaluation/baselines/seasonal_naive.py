"""The last season again."""

from __future__ import annotations

import numpy as np

from forecast_unc._typing import Array
from forecast_unc.evaluation.baselines.baseline import Baseline, accumulated


class SeasonalNaive(Baseline):
    r"""The last season again; without a season the last value (a random walk).

    The errors accumulate over the seasons, each phase by itself: :math:`\psi_j = 1` where j is a
    multiple of the period m, else 0, hence

    .. math:: \Sigma_{tu} = s^2 \min(\lceil t/m \rceil, \lceil u/m \rceil)
        \text{ if } t \equiv u \bmod m, \text{ else } 0

    Parameters
    ----------
    seasonal_period : int, optional
        Observations in a season; 1 for none. None takes the shortest that the frequency of the
        index suggests and that fits into the series twice.

    Attributes
    ----------
    seasonal_period_ : int
        The period in use.
    noise_std_ : float
        s, the root mean square of the seasonal differences; no mean is removed.

    Examples
    --------
    >>> from forecast_unc import baselines, datasets
    >>> ahead = baselines.SeasonalNaive(1).fit(datasets.load_nile()).forecast(4)
    >>> float(ahead.std.iloc[3] / ahead.std.iloc[0])
    2.0
    """

    def __init__(self, seasonal_period: int | None = None) -> None:
        self.seasonal_period = seasonal_period

    def _least(self) -> int:
        return self.seasonal_period_

    def _learn(self, values: Array, exog: Array) -> float:
        m = self.seasonal_period_
        return float(np.sqrt(np.mean((values[m:] - values[:-m]) ** 2)))

    def _joint(self, steps: int, exog: Array) -> tuple[Array, Array]:
        m, ahead = self.seasonal_period_, np.arange(steps)
        weights = (ahead % m == 0).astype(np.float64)
        return self._values[-m:][ahead % m], accumulated(weights, self.noise_std_**2)
