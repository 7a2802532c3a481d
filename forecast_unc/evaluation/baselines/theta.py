"""The Theta method with the covariance of its integrated moving average."""

from __future__ import annotations

import numpy as np

from forecast_unc._typing import Array
from forecast_unc.evaluation.baselines.baseline import Baseline, accumulated, quiet


class Theta(Baseline):
    r"""The Theta method: a seasonally adjusted series smoothed with half its trend as drift.

    With the smoothing constant :math:`\alpha` and season factors treated as known, the adjusted
    series is an integrated moving average with :math:`\psi_j = \alpha` for j > 0, so that the
    variance of step h is :math:`s^2 (1 + (h-1) \alpha^2)`, times the squared factor of a
    multiplicative season.

    Parameters
    ----------
    seasonal_period : int, optional
        Observations in a season; 1 for none. None takes the shortest that the frequency of the
        index suggests and that fits into the series twice. A season is adjusted for if the
        autocorrelation at its lag is significant at 10 %.

    Attributes
    ----------
    alpha_, slope_ : float
        Smoothing constant, and the slope of the line through the adjusted series.
    season_ : ndarray of shape (m,)
        Factors or summands of the season, from the first value of the fit on.
    multiplicative_ : bool
        Whether they are factors, as they are where y > 0.
    noise_std_ : float
        Standard deviation of a one-step error of the adjusted series.

    Notes
    -----
    The mean is that of ``statsmodels.tsa.forecasting.theta.ThetaModel``. Its intervals are not:
    they take :math:`1 + (\alpha - 1)^2` for :math:`\alpha^2`, and the variance of the series before
    seasonal adjustment.

    References
    ----------
    R. J. Hyndman, B. Billah, "Unmasking the Theta method", International Journal of Forecasting 19
    (2003) 287-290, https://doi.org/10.1016/S0169-2070(01)00143-1

    Examples
    --------
    >>> from forecast_unc import baselines, datasets
    >>> ahead = baselines.Theta().fit(datasets.load_nile()).forecast(3)
    >>> bool(ahead.std.is_monotonic_increasing)
    True
    """

    def __init__(self, seasonal_period: int | None = None) -> None:
        self.seasonal_period = seasonal_period

    def _learn(self, values: Array, exog: Array) -> float:
        from statsmodels.tsa.forecasting.theta import ThetaModel

        m = self.seasonal_period_
        model = ThetaModel(values, period=m, deseasonalize=m > 1)
        with quiet():
            fit = model.fit()
            self.slope_, self.alpha_ = (float(value) for value in np.asarray(fit.params))
            season = np.asarray(fit.forecast_components(m)["seasonal"])
        self.multiplicative_ = model.method.startswith("mul")
        self.season_ = np.roll(season, len(values) % m)
        _, errors = self._smooth(values)
        return float(np.sqrt(errors[1:] @ errors[1:] / (len(values) - 3)))  # alpha, slope known

    def _smooth(self, values: Array) -> tuple[float, Array]:
        """Level at the end, and the one-step errors, (n,), of the seasonally adjusted series."""
        season = self.season_[np.arange(len(values)) % self.seasonal_period_]
        adjusted = values / season if self.multiplicative_ else values - season
        level, errors = float(adjusted[0]), np.zeros(len(values))
        for t in range(1, len(values)):
            drift = 0.5 * self.slope_ * self._memory(t)
            errors[t] = adjusted[t] - level - drift
            if np.isnan(errors[t]):
                errors[t] = 0.0
                level += self.alpha_ * drift
            else:
                level += self.alpha_ * (errors[t] + drift)
        return level, errors

    def _memory(self, n: int) -> float:
        """How many steps the level of smoothing n values lags behind a line."""
        return (1 - (1 - self.alpha_) ** n) / self.alpha_ if self.alpha_ > 0 else float(n)

    def _joint(self, steps: int, exog: Array) -> tuple[Array, Array]:
        values, ahead = self._since_fit(), np.arange(steps)
        level, _ = self._smooth(values)
        season = self.season_[(len(values) + ahead) % self.seasonal_period_]
        mean = level + 0.5 * self.slope_ * (ahead + self._memory(len(values)))
        cov = accumulated(np.where(ahead > 0, self.alpha_, 1.0), self.noise_std_**2)
        if self.multiplicative_:
            return mean * season, cov * np.outer(season, season)
        return mean + season, cov
