"""Baselines in closed form: the last season again, autoregression, the Theta method."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np

from forecast_unc._checks import check_whole, refusal
from forecast_unc._typing import Array
from forecast_unc.evaluation.baselines.baseline import Baseline, accumulated, quiet


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

    def _least(self) -> int:
        return self.seasonal_period_

    def _learn(self, values: Array, exog: Array) -> float:
        m = self.seasonal_period_
        return float(np.sqrt(np.mean((values[m:] - values[:-m]) ** 2)))

    def _joint(self, steps: int, exog: Array) -> tuple[Array, Array]:
        m, ahead = self.seasonal_period_, np.arange(steps)
        weights = (ahead % m == 0).astype(np.float64)
        return self._values[-m:][ahead % m], accumulated(weights, self.noise_std_**2)


class AutoReg(Baseline):
    r"""Autoregression by least squares, its order chosen by a criterion.

    .. math:: y_t = \sum_{i=1}^{p} \phi_i y_{t-i} + x_t^\top \beta + e_t, \qquad
        \psi_j = \sum_{i=1}^{\min(j, p)} \phi_i \psi_{j-i}, \quad \psi_0 = 1

    Parameters
    ----------
    lags : {"aic", "bic", "hqic"} or int, default="aic"
        Criterion that chooses the order p, or p itself. "bic" chooses lower ones.
    trend : {"n", "c", "t", "ct"}, default="c"
        No constant, a constant, a linear trend, or both.
    seasonal : bool, default=False
        Whether every phase of the season has its own constant.
    seasonal_period : int, optional
        Observations in a season, which the search also tries as a lag; 1 for none. None takes the
        shortest that the frequency of the index suggests and that fits into the series twice.

    Attributes
    ----------
    lags_ : int
        The order p.
    coef_ : ndarray of shape (p,)
        Coefficients of lags 1 to p.
    noise_std_ : float
        Standard deviation of a one-step error, in units of y.

    Examples
    --------
    >>> from forecast_unc import baselines, datasets
    >>> baselines.AutoReg().fit(datasets.load_sunspots()).lags_
    9
    """

    takes_exog: ClassVar[bool] = True

    def __init__(
        self,
        lags: Literal["aic", "bic", "hqic"] | int = "aic",
        *,
        trend: Literal["n", "c", "t", "ct"] = "c",
        seasonal: bool = False,
        seasonal_period: int | None = None,
    ) -> None:
        self.lags = lags
        self.trend = trend
        self.seasonal = seasonal
        self.seasonal_period = seasonal_period

    def _least(self) -> int:
        return self.lags_

    def _learn(self, values: Array, exog: Array) -> float:
        from statsmodels.tsa import ar_model

        if self.trend not in ("n", "c", "t", "ct"):
            must = "be 'n', 'c', 't' or 'ct'"
            raise refusal("trend", must, f"{self.trend!r}", "'c' is a constant.")
        n, X = len(values), self._design(0, exog)
        # Beside a constant an offset changes nothing but the condition of the equations.
        self._center = float(values.mean()) if "c" in self.trend else 0.0
        values = values - self._center
        regressors = X if X.size else None
        room = (n - X.shape[1] - 2) // 3  # three equations for each lag
        if room < 1:
            k = X.shape[1]
            must = f"have at least {k + 5} values for {k} regressors, seasons and trends counted"
            raise refusal("y", must, f"{n}", "Give more data, or fewer of them.")
        lags: Any = self.lags
        if lags in ("aic", "bic", "hqic"):
            # Schwert's rule, and a season where least squares on so many lags is still cheap
            season = self.seasonal_period_ + 1 if self.seasonal_period_ < 60 else 0
            most = min(int(max(10 * np.log10(n), season)), room)
            with quiet():
                order = ar_model.ar_select_order(values, most, ic=lags, trend="n", exog=regressors)
            lags = max(order.ar_lags or [0])
        elif isinstance(lags, str):
            must = "be 'aic', 'bic', 'hqic' or a whole number"
            raise refusal("lags", must, f"{lags!r}", "'aic' chooses the number.")
        else:
            check_whole("lags", lags, 0, "12 takes the last twelve values.")
            if lags > room:
                must = f"be at most {room} for {n} values"
                raise refusal("lags", must, f"{lags}", "Give more data, or fewer lags.")
        with quiet():
            fit = ar_model.AutoReg(values, lags, trend="n", exog=regressors).fit()
        self.lags_, params = int(lags), np.asarray(fit.params, dtype=np.float64)
        self.coef_, self._beta = params[:lags], params[lags:]
        return float(np.sqrt(fit.sigma2))

    def _design(self, start: int, exog: Array) -> Array:
        """Constant, time, season and regressors from a time counted from the fit, (n, k)."""
        times, m = start + np.arange(len(exog)), self.seasonal_period_
        columns: list[Any] = [np.ones(len(times))] if "c" in self.trend else []
        columns += [times + 1.0] if "t" in self.trend else []
        if self.seasonal and m > 1:
            phases = range(1 if "c" in self.trend else 0, m)
            columns += [(times % m == phase).astype(np.float64) for phase in phases]
        return np.column_stack([*columns, exog])

    def _joint(self, steps: int, exog: Array) -> tuple[Array, Array]:
        p, start = self.lags_, self._offset + len(self._values)
        level = self._design(start, exog) @ self._beta
        past = self._values[len(self._values) - p :] - self._center
        path = np.concatenate([past, np.zeros(steps)])
        weights = np.zeros(p + steps)
        weights[p] = 1.0
        for t in range(p, p + steps):
            path[t] = level[t - p] + self.coef_ @ path[t - p : t][::-1]
            if t > p:
                weights[t] = self.coef_ @ weights[t - p : t][::-1]
        return self._center + path[p:], accumulated(weights[p:], self.noise_std_**2)


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
            error = adjusted[t] - level - drift
            errors[t] = 0.0 if np.isnan(error) else error
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
