"""Regression with seasonal ARIMA errors."""

from __future__ import annotations

import reprlib
from dataclasses import KW_ONLY, dataclass
from itertools import accumulate
from typing import Any, ClassVar

import numpy as np

from forecast_unc._checks import is_whole, refusal
from forecast_unc._typing import Array
from forecast_unc.evaluation.baselines.baseline import Baseline, accumulated, quiet
from forecast_unc.regression.kernels import symmetric


@dataclass(eq=False, repr=False)
class SARIMAX(Baseline):
    r"""Regression with seasonal ARIMA errors of stated orders, by maximum likelihood.

    The model is statsmodels', with a constant where nothing is differenced. Its default orders are
    those of the airline model. Missing values are not filled.

    Fitted, ``order_`` is (p, d, q) and ``seasonal_order_`` (P, D, Q, m), zeros without a season;
    ``noise_std_`` and ``converged_`` are as of `ETS`.

    Parameters
    ----------
    seasonal_period : int, optional
        Steps of a season, 1 for none; by default the shortest period of the index that fits three
        times into the series. A season longer than 12 is refused: a state space of 24 lags took
        4 s a fit of 700 values.
    order : tuple of three ints, default=(0, 1, 1)
        Autoregressive order p, number of differences d, order q of the moving average. A larger p
        or q finds longer memories, at a cost.
    seasonal_order : tuple of three ints, default=(0, 1, 1)
        The same at multiples of the season: P, D, Q. Without a season they have no effect; with
        zeros there is none, of any length.

    Examples
    --------
    >>> from forecast_unc import baselines, datasets
    >>> baselines.SARIMAX(order=(1, 1, 1)).fit(datasets.load_nile()).seasonal_order_
    (0, 0, 0, 0)
    """

    takes_exog: ClassVar[bool] = True
    _takes_missing: ClassVar[bool] = True
    _seasons: ClassVar[int] = 3  # two hold no more than one seasonal difference a step

    _: KW_ONLY
    order: tuple[int, int, int] = (0, 1, 1)
    seasonal_order: tuple[int, int, int] = (0, 1, 1)

    def _learn(self, values: Array, exog: Array) -> float:
        self._set_orders(int(np.isfinite(values).sum()), exog.shape[1])
        self._center, self._unit = float(np.nanmean(values)), float(np.nanstd(values))
        self._exog_center, self._exog_unit = exog.mean(axis=0), exog.std(axis=0)
        flat = ~(self._exog_unit > 1e-12 * np.abs(exog).max(axis=0, initial=0.0))
        if flat.any():
            got = f"column {self.exog_columns_[int(flat.argmax())]!r} constant"
            raise refusal("exog", "vary", got, "Leave it out: the level is learned without it.")
        with quiet():
            fit = self._model(values, exog).fit(disp=False, maxiter=100, cov_type="none")
        self._params = np.asarray(fit.params, dtype=np.float64)
        self.converged_ = bool(fit.mle_retvals["converged"])
        return float(np.sqrt(self._params[-1])) * self._unit

    def _set_orders(self, n_known: int, n_regressors: int) -> None:
        """Orders with the season that they are for, or an error if values are too few for them."""
        p, d, q = self.order_ = _check_order("order", self.order)
        seasonal = _check_order("seasonal_order", self.seasonal_order)
        m = self.seasonal_period_ if any(seasonal) else 1
        if m > 12:
            must = "be (0, 0, 0) for a season of more than 12 steps"
            got = f"{seasonal} and {m} steps"
            remedy = "Use Fourier terms as exog in its place, or a shorter seasonal_period."
            raise refusal("seasonal_order", must, got, remedy, code="long season")
        P, D, Q = seasonal if m > 1 else (0, 0, 0)
        self.seasonal_order_ = P, D, Q, m if m > 1 else 0
        if (P and p >= m) or (Q and q >= m):
            must = f"have p and q below {m}, the season, beside P and Q"
            remedy = "A lag is in one of the two polynomials."
            raise refusal("order", must, f"{self.order_}", remedy)
        self._least = d + D * m + max(p + P * m, q + Q * m) + 1
        least = self._least + p + q + P + Q + n_regressors + 2  # constant and variance
        if n_known < least:
            must = f"have at least {least} values for these orders and regressors"
            raise refusal("y", must, f"{n_known}", "Give more data, or fewer of them.")

    def _regressors(self, exog: Array) -> Array | None:
        return (exog - self._exog_center) / self._exog_unit if exog.size else None

    def _model(self, values: Array, exog: Array) -> Any:
        """The model of statsmodels in standardized units."""
        from statsmodels.tsa.statespace import sarimax

        return sarimax.SARIMAX(
            (values - self._center) / self._unit,
            exog=self._regressors(exog),
            order=self.order_,
            seasonal_order=self.seasonal_order_,
            trend="n" if self.order_[1] + self.seasonal_order_[1] else "c",
            use_exact_diffuse=True,  # an approximate one leaves roundoff of 1e6 eps
        )

    def _joint(self, steps: int, exog: Array) -> tuple[Array, Array]:
        with quiet():
            # Not apply() of the fit's results: it forgets use_exact_diffuse (statsmodels 0.15).
            end = self._model(self.history_.y, self.history_.exog).filter(self._params)
            mean = np.asarray(end.forecast(steps, exog=self._regressors(exog)))
            psi = np.reshape(end.impulse_responses(steps), -1)
        T, Z = end.model.ssm["transition"], end.model.ssm["design"]
        # Z T^j, (h, k)
        rows = np.array(list(accumulate(range(1, steps), lambda row, _: row @ T, initial=Z[0])))
        cov = rows @ end.predicted_state_cov[:, :, -1] @ rows.T
        # The first step has the state's covariance alone.
        weights = np.append(0.0, psi[: steps - 1])
        cov += accumulated(weights, self._params[-1])
        return self._center + self._unit * mean, self._unit**2 * symmetric(cov)


def _check_order(name: str, order: object) -> tuple[int, int, int]:
    """Three orders as ints."""
    given = tuple(order) if isinstance(order, (tuple, list)) else ()
    if len(given) != 3 or not all(is_whole(one) and one >= 0 for one in given):
        must, remedy = "be three whole numbers, at least 0", "(0, 1, 1) is enough for most series."
        raise refusal(name, must, reprlib.repr(order), remedy)
    p, d, q = map(int, given)
    return p, d, q
