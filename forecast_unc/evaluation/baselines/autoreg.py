"""Autoregression by least squares."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from forecast_unc._checks import check_choice, check_whole, refusal
from forecast_unc._typing import Array
from forecast_unc.evaluation.baselines.baseline import Baseline, accumulated, quiet


@dataclass(eq=False, repr=False)
class AutoReg(Baseline):
    r"""Autoregression by least squares, its order chosen by a criterion.

    Fitted, ``lags_`` is the order, ``coef_`` has the coefficients of lags 1 to p, and
    ``noise_std_`` is the std of a one-step error.

    Parameters
    ----------
    lags : {"aic", "bic", "hqic"} or int, default="aic"
        Criterion that chooses the order p, or p itself. "bic" chooses lower ones.
    trend : {"n", "c", "t", "ct"}, default="c"
        No constant, a constant, a linear trend, or both.
    seasonal : bool, default=False
        Whether every phase of the season has its own constant.
    seasonal_period : int, optional
        As of `SeasonalNaive`; below 60 the search goes up to one lag more, if data suffice.

    Examples
    --------
    >>> from forecast_unc import baselines, datasets
    >>> baselines.AutoReg().fit(datasets.load_sunspots()).lags_
    9
    """

    takes_exog: ClassVar[bool] = True

    lags: Literal["aic", "bic", "hqic"] | int = "aic"
    _: KW_ONLY
    trend: Literal["n", "c", "t", "ct"] = "c"
    seasonal: bool = False
    seasonal_period: int | None = None

    def _learn(self, values: Array, exog: Array) -> float:
        from statsmodels.tsa import ar_model

        check_choice("trend", self.trend, ("c", "n", "t", "ct"))
        X = self._design(0, exog)
        n, k = X.shape
        # Beside a constant an offset changes nothing but the condition of the equations.
        self._center = float(values.mean()) if "c" in self.trend else 0.0
        values = values - self._center
        regressors = X if k else None
        room = (n - k - 2) // 3  # three equations for each lag
        if room < 1:
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
        lags = check_whole("lags", lags, 0, "'aic', 'bic' and 'hqic' choose the number.")
        if lags > room:
            must = f"be at most {room} for {n} values"
            raise refusal("lags", must, f"{lags}", "Give more data, or fewer lags.")
        with quiet():
            fit = ar_model.AutoReg(values, lags, trend="n", exog=regressors).fit()
        self.lags_ = self._least = lags
        self.coef_, self._beta = np.split(np.asarray(fit.params, dtype=np.float64), [lags])
        return float(np.sqrt(fit.sigma2))

    def _design(self, start: int, exog: Array) -> Array:
        """Constant, time, season and regressors from a time counted from the fit, (n, k)."""
        times = start + np.arange(len(exog))
        m = self.seasonal_period_
        columns: list[Any] = [np.ones(len(times))] if "c" in self.trend else []
        columns += [times + 1.0] if "t" in self.trend else []
        if self.seasonal and m > 1:
            phases = range(1 if "c" in self.trend else 0, m)
            columns += [(times % m == phase).astype(np.float64) for phase in phases]
        return np.column_stack([*columns, exog])

    def _joint(self, steps: int, exog: Array) -> tuple[Array, Array]:
        from scipy.signal import lfilter, lfiltic  # kept out of the import: .1 s
        from statsmodels.tsa.arima_process import arma2ma

        y = self.history_.y
        level = self._design(self._offset + len(y), exog) @ self._beta
        past = (y - self._center)[len(y) - self.lags_ :][::-1]
        polynomial = np.append(1.0, -self.coef_)
        path, _ = lfilter([1.0], polynomial, level, zi=lfiltic([1.0], polynomial, past))
        weights = arma2ma(polynomial, [1.0], steps)
        return self._center + path, accumulated(weights, self.noise_std_**2)
