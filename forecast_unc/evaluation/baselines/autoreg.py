"""Autoregression by least squares."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np

from forecast_unc._checks import check_whole
from forecast_unc._typing import Array
from forecast_unc.evaluation.baselines.baseline import Baseline, accumulated, quiet


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
            raise ValueError(
                f"trend must be 'n', 'c', 't' or 'ct'; got {self.trend!r}. 'c' is a constant."
            )
        n, X = len(values), self._design(0, exog)
        # Beside a constant an offset changes nothing but the condition of the equations.
        self._center = float(values.mean()) if "c" in self.trend else 0.0
        values = values - self._center
        room = (n - X.shape[1] - 2) // 3  # three equations for each lag
        if room < 1:
            raise ValueError(
                f"y must have at least {X.shape[1] + 5} values for {X.shape[1]} regressors, "
                f"seasons and trends counted; got {n}. Give more data, or fewer of them."
            )
        lags: Any = self.lags
        if lags in ("aic", "bic", "hqic"):
            # Schwert's rule, and a season where least squares on so many lags is still cheap
            most = max(
                10 * np.log10(n), self.seasonal_period_ + 1 if self.seasonal_period_ < 60 else 0
            )
            with quiet():
                order = ar_model.ar_select_order(
                    values, min(int(most), room), ic=lags, trend="n", exog=X if X.size else None
                )
            lags = max(order.ar_lags or [0])
        elif isinstance(lags, str):
            raise ValueError(
                f"lags must be 'aic', 'bic', 'hqic' or a whole number; got {lags!r}. 'aic' chooses "
                "the number."
            )
        else:
            check_whole("lags", lags, 0, "12 takes the last twelve values.")
            if lags > room:
                raise ValueError(
                    f"lags must be at most {room} for {n} values; got {lags}. Give more data, or "
                    "fewer lags."
                )
        with quiet():
            fit = ar_model.AutoReg(values, lags, trend="n", exog=X if X.size else None).fit()
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
