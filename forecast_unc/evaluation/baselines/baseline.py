"""What the baselines share: checks, history, its place in time, and the covariance of sums."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from scipy.linalg import toeplitz
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from forecast_unc._checks import check_steps, check_whole, refusal
from forecast_unc._threads import blas_threads
from forecast_unc._typing import Array
from forecast_unc.distributions.forecast import Forecast
from forecast_unc.series.calendar import seasonal_periods
from forecast_unc.series.exog import check_exog
from forecast_unc.series.times import extended_index, format_time, future_index
from forecast_unc.series.values import check_follows, check_is_series, check_series, check_varies

_NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}  # in each unit of an index


class Baseline(BaseEstimator):  # type: ignore[misc]  # scikit-learn ships no types
    """What the five share: the checks, the history, and its place in time since the fit."""

    takes_exog: ClassVar[bool] = False
    _takes_missing: ClassVar[bool] = False

    _offset: int  # steps from the start of the fit to that of the history
    _earlier: Array  # the first values of those steps, as far as they are known

    def __init__(self, seasonal_period: int | None = None) -> None:
        self.seasonal_period = seasonal_period

    def _learn(self, values: Array, exog: Array) -> float:
        """Estimate the parameters; the std of a one-step error, in units of y."""
        raise NotImplementedError

    def _joint(self, steps: int, exog: Array) -> tuple[Array, Array]:
        """Mean (h,) and covariance (h, h) of the next steps, in units of y."""
        raise NotImplementedError

    def _least(self) -> int:
        """Number of values that a forecast with fitted parameters needs."""
        return 1

    def fit(self, y: pd.Series[float], exog: pd.DataFrame | None = None) -> Self:
        """Estimate the model's parameters from a series.

        Parameters
        ----------
        y : Series
            Numbers on a regular index: DatetimeIndex with a frequency set or inferable,
            PeriodIndex, or evenly spaced integers. Finite; SARIMAX also accepts missing
            values and does not fill them.
        exog : DataFrame, optional
            Regressors with the index of y, for AutoReg and SARIMAX; `forecast` then needs them for
            the future.

        Returns
        -------
        Itself
        """
        y = check_is_series(y)
        values, index = self._checked(y, "y")
        known = values[~np.isnan(values)]
        if len(known) < 10:
            remedy = "Give more data: fewer are not enough to estimate the errors of a forecast."
            raise refusal("y", "have at least 10 values", f"{len(known)}", remedy)
        check_varies(values)
        exog_values = self._regressors(exog, index, None, "y")
        self.seasonal_period_ = self._period(index)
        self.exog_columns_ = pd.Index([]) if exog is None else exog.columns
        self._offset, self._earlier = 0, np.empty(0)
        self._values, self._index, self._exog, self._name = values, index, exog_values, y.name
        self.converged_ = True
        self.noise_std_ = self._learn(values, exog_values)
        if not self.noise_std_ > 1e-12 * np.abs(known).max():
            got = f"a series that {type(self).__name__} predicts exactly"
            remedy = (
                "It needs no intervals, or has an offset so large that its variation is lost to "
                "roundoff: subtract it."
            )
            raise refusal("y", "leave an error to learn from", got, remedy)
        return self

    def update(self, y_new: pd.Series[float], exog: pd.DataFrame | None = None) -> Self:
        """Take in the values that followed, with the same parameters.

        Parameters
        ----------
        y_new : Series
            The next values; its index starts where the series ended.
        exog : DataFrame, optional
            Regressors at the times of `y_new`, if the model was fitted with some.

        Returns
        -------
        Itself
        """
        check_is_fitted(self)
        y_new = check_follows(y_new, self._index)
        values, _ = self._checked(y_new, "y_new")
        new = self._regressors(exog, y_new.index, self.exog_columns_, "y_new")
        self._values = np.concatenate([self._values, values])
        self._exog = np.vstack([self._exog, new])
        self._index = extended_index(self._index, len(values))
        return self

    def apply(self, y: pd.Series[float], exog: pd.DataFrame | None = None) -> Self:
        """The fitted model at the end of another stretch of the series, nothing estimated anew.

        Parameters
        ----------
        y : Series
            A series of the frequency of the fit that begins with it or later. A state at its start
            (level, trend, season) is that of the fitted model there, and the phase of a season
            and the value of a trend are counted from the start of the fit.
        exog : DataFrame, optional
            Regressors with the index of y, if the model was fitted with some.

        Returns
        -------
        A new one; this one is unchanged.
        """
        check_is_fitted(self)
        y = check_is_series(y)
        values, index = self._checked(y, "y")
        known = int((~np.isnan(values)).sum())
        if known < self._least():
            must = f"have at least {self._least()} values for the fitted {type(self).__name__}"
            raise refusal("y", must, f"{known}", "Give more history.")
        exog_values = self._regressors(exog, index, self.exog_columns_, "y")
        later = _steps_between(self._index, index)
        start = None if later is None else self._offset + later
        if start is None or start < 0:
            must = (
                "have the frequency of the fit and begin with it or later, at "
                f"{format_time(self._index, 0)} or a whole number of steps on"
            )
            raise refusal("y", must, format_time(index, 0), "Fit anew for another series.")
        applied = copy.copy(self)
        applied._offset, applied._earlier = start, self._since_fit(start)
        applied._values, applied._index, applied._name = values, index, y.name
        applied._exog = exog_values
        return applied

    def forecast(self, steps: int, exog: pd.DataFrame | None = None, **options: Any) -> Forecast:
        """Joint forecast of the next values.

        Parameters
        ----------
        steps : int
            Steps ahead, from 1.
        exog : DataFrame, optional
            Regressors at the forecast times, if the model was fitted with some.
        **options
            Refused: a `Combination` passes the options of `Forecaster.forecast` to every member.

        Returns
        -------
        Forecast
        """
        check_is_fitted(self)
        for name, value in options.items():
            must, got = f"be left out for {type(self).__name__}", f"{value!r}"
            remedy = (
                "A baseline has one joint distribution, in closed form or simulated; only "
                "Forecasters have a choice of propagation and take uncertain regressors."
            )
            raise refusal(name, must, got, remedy, TypeError)
        check_steps(steps)
        index = future_index(self._index, steps)
        when = f"the {steps} steps after the origin"
        mean, cov = self._joint(steps, self._regressors(exog, index, self.exog_columns_, when))
        return Forecast(index, mean, cov, name=self._name)

    def _checked(self, y: Any, name: str) -> tuple[Array, pd.Index[Any]]:
        values, index = check_series(y, name, all_missing=True)
        missing = np.isnan(values)
        if missing.any() and not self._takes_missing:
            first = format_time(index, int(missing.argmax()))
            got = f"{missing.sum()} missing value(s), first at {first}"
            remedy = "Fill them, or take SARIMAX, which needs no filling."
            raise refusal(name, "be finite", got, remedy)
        return values, index

    def _regressors(
        self, exog: Any, index: pd.Index[Any], columns: pd.Index[Any] | None, when: str
    ) -> Array:
        if exog is not None and not self.takes_exog:
            must, got = f"be None for {type(self).__name__}", f"a {type(exog).__name__}"
            raise refusal("exog", must, got, "It takes no regressors; AutoReg and SARIMAX do.")
        return check_exog(exog, index, columns, when)

    def _period(self, index: pd.Index[Any]) -> int:
        if self.seasonal_period is None:
            fitting = [m for m in seasonal_periods(index) if 2 * m <= len(index)]
            return fitting[0] if fitting else 1
        check_whole("seasonal_period", self.seasonal_period, 1, "1 is no season.")
        m = int(self.seasonal_period)
        if 2 * m > len(index):
            must = f"have at least {2 * m} values for a seasonal_period of {m}"
            remedy = "Give two whole seasons, or 1 for none."
            raise refusal("y", must, f"{len(index)}", remedy)
        return m

    def _since_fit(self, stop: int | None = None) -> Array:
        """Values from the start of the fit on, NaN between the earlier ones and the history."""
        unknown = np.full(self._offset - len(self._earlier), np.nan)
        return np.concatenate([self._earlier, unknown, self._values])[:stop]


def accumulated(weights: Array, var: float | Array) -> Array:
    """Covariance (h, h) of errors that are sums of one-step errors with the weights psi."""
    psi = toeplitz(weights, np.zeros(len(weights)))
    return np.asarray((psi * var) @ psi.T)


def aicc(log_likelihood: float, k: int, n: int) -> float:
    """Corrected Akaike criterion of k parameters; infinite where n values are too few for them."""
    return 2 * k - 2 * log_likelihood + 2 * k * (k + 1) / (n - k - 1) if n > k + 1 else np.inf


@contextmanager
def quiet() -> Iterator[None]:
    """Statsmodels on one BLAS thread, its warnings left to `converged_`."""
    # On two threads the Kalman filter's tiny products took 22 times as long (busy machine).
    with warnings.catch_warnings(), np.errstate(all="ignore"), blas_threads(0):
        import_module("statsmodels.tools.sm_exceptions")  # sets filters, hence before ours
        warnings.simplefilter("ignore")
        yield


def _steps_between(first: pd.Index[Any], second: pd.Index[Any]) -> int | None:
    """How many steps later a regular index starts than another; None on another grid."""
    if type(first) is not type(second):
        return None
    if isinstance(first, pd.RangeIndex) and isinstance(second, pd.RangeIndex):
        same = second.step == first.step
        return _whole(second.start - first.start, first.step) if same else None
    freq: Any = first.freq  # type: ignore[attr-defined]
    if freq != second.freq or getattr(first, "tz", None) != getattr(second, "tz", None):  # type: ignore[attr-defined]
        return None
    if isinstance(first, pd.PeriodIndex) and isinstance(second, pd.PeriodIndex):
        return _whole(second[0].ordinal - first[0].ordinal, freq.n)
    if isinstance(freq, pd.offsets.Day):  # calendar days, of 23 to 25 hours where the clock changes
        first, second = (index[:1].tz_localize(None) for index in (first, second))  # type: ignore[attr-defined]
    if isinstance(freq, pd.offsets.Day | pd.offsets.Tick):
        # As Python's whole numbers: a Timedelta ends at 292 years.
        start, end = (
            int(index.asi8[0]) * _NANOSECONDS[index.unit]  # type: ignore[attr-defined]
            for index in (first, second)
        )
        return _whole(end - start, freq.nanos)
    a, b = first[0], second[0]
    grid = pd.date_range(min(a, b), max(a, b), freq=freq)  # of business hours or longer steps
    if not len(grid) or grid[-1] != max(a, b):
        return None
    return (len(grid) - 1) * (1 if b >= a else -1)


def _whole(distance: int, step: int) -> int | None:
    steps, rest = divmod(distance, step)
    return None if rest else int(steps)
