"""Common part of the baselines: checks, the history, its place in time since the fit."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from scipy.linalg import toeplitz
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from forecast_unc import _checks
from forecast_unc._checks import check_whole, refusal
from forecast_unc._threads import blas_threads
from forecast_unc._typing import Array
from forecast_unc.distributions.forecast import Forecast
from forecast_unc.forecasting.models.smoothing_filter import least_std
from forecast_unc.series.calendar import seasonal_periods
from forecast_unc.series.history import History
from forecast_unc.series.times import InterpolatedWarning
from forecast_unc.series.values import check_is_series, check_varies, is_constant

_NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}  # in each unit of an index


@dataclass(eq=False, repr=False)
class Baseline(BaseEstimator):  # type: ignore[misc]  # scikit-learn ships no types
    """Common part of the baselines: checks, history, and its place in time since the fit."""

    takes_exog: ClassVar[bool] = False
    _takes_missing: ClassVar[bool] = False
    _takes_constants: ClassVar[bool] = False  # with the least std of a constant
    _seasons: ClassVar[int] = 2  # least number in a series

    seasonal_period: int | None = None

    _least = 1  # number of values that a forecast with fitted parameters needs
    _offset: int = field(init=False)  # steps from the start of the fit to that of the history

    def _learn(self, values: Array, exog: Array) -> float:
        """Estimate the parameters; the std of a one-step error, in units of y."""
        raise NotImplementedError

    def _joint(self, steps: int, exog: Array) -> tuple[Array, Array]:
        """Mean (h,) and covariance (h, h) of the next steps, in units of y."""
        raise NotImplementedError

    def fit(
        self,
        y: pd.Series[float] | pd.DataFrame,
        exog: pd.DataFrame | None = None,
        *,
        time: Hashable | None = None,
        target: Hashable | None = None,
    ) -> Self:
        """Estimate the model's parameters; return it.

        `y`, `exog`, `time` and `target` as in `Forecaster.fit`; regressors are for SARIMAX and
        AutoReg. AutoReg, ETS and Theta interpolate values that are missing between two others
        linearly, with an ``InterpolatedWarning``; the others leave them missing.
        """
        history = self._checked(History.checked, check_is_series(y, "y", time, target), exog)
        learned_from = self._observed(history)
        known = history.y[~np.isnan(history.y)]
        if len(known) < 10:
            remedy = "Fewer are not enough to estimate the errors of a forecast."
            raise refusal("y", "have at least 10 values", f"{len(known)}", remedy)
        constant = self._takes_constants and is_constant(known)
        if not constant:
            check_varies(learned_from.y)
        n, m = len(learned_from.y), self.seasonal_period
        if m is None:
            periods = seasonal_periods(history.index)
            m = next((period for period in periods if self._seasons * period <= n), 1)
        m = check_whole("seasonal_period", m, 1, "1 is no season.")
        if self._seasons * m > n:
            must = f"have at least {self._seasons * m} values for a seasonal_period of {m}"
            remedy = f"Give {self._seasons} whole seasons, or 1 for none."
            raise refusal("y", must, f"{n}", remedy)
        self.seasonal_period_ = m
        self.history_ = history
        self._offset = 0
        self.exog_columns_ = history.columns
        self.converged_ = True
        noise_std = self._learn(learned_from.y, learned_from.exog)
        self.noise_std_ = least_std(known) if constant else noise_std
        if not self.noise_std_ > 1e-12 * np.abs(known).max():
            got = f"a series that {type(self).__name__} predicts exactly"
            remedy = "It needs no intervals, or has a large offset to be subtracted."
            raise refusal("y", "leave an error to learn from", got, remedy)
        return self

    def update(self, y_new: pd.Series[float], exog: pd.DataFrame | None = None) -> Self:
        """Take in what followed, in place; `y_new` and `exog` as in `Forecaster.update`."""
        check_is_fitted(self)
        series = check_is_series(y_new, "y_new")
        self.history_ = self._checked(self.history_.followed_by, series, exog, "y_new")
        return self

    def apply(self, y: pd.Series[float], exog: pd.DataFrame | None = None) -> Self:
        """Return the fitted model at the end of another stretch of the series, a new one.

        `y` has the frequency of the fit and begins with it or later: states, phases of the season
        and trends are counted from the start of the fit. `exog` as in `Forecaster.apply`.
        """
        check_is_fitted(self)
        history = self._checked(self.history_.alike, check_is_series(y), exog)
        known = int((~np.isnan(history.y)).sum())
        if known < self._least:
            must = f"have at least {self._least} values for the fitted {type(self).__name__}"
            raise refusal("y", must, f"{known}", "Give more history.")
        later = steps_between(self.history_.index, history.index)
        if later is None or self._offset + later < 0:
            first = self.history_.time(0)
            must = f"have the frequency of the fit and begin with it or later, at {first} or after"
            raise refusal("y", must, history.time(0), "Fit anew for another series.")
        applied = copy.copy(self)
        applied._offset += later
        applied.history_ = history
        applied._carry(self)
        return applied

    def _carry(self, before: Self) -> None:
        """Take over what a model before `apply` knows of the time before the new history."""

    def forecast(self, steps: int, exog: pd.DataFrame | None = None, **options: Any) -> Forecast:
        """Joint forecast of the next values; `steps` and `exog` as in `Forecaster.forecast`.

        Its other `options` are refused: a `Combination` passes them to every member.
        """
        check_is_fitted(self)
        for name, value in options.items():
            must = f"be left out for {type(self).__name__}"
            remedy = "A choice of propagation and uncertain regressors are for Forecasters."
            raise refusal(name, must, f"{value!r}", remedy, TypeError)
        steps = _checks.check_steps(steps)
        self._check_takes_exog(exog)
        ahead = self.history_.future(steps, exog)
        model = copy.copy(self)
        model.history_ = self._observed(self.history_)
        n = len(model.history_.y)
        late = len(self.history_.y) - n  # steps after the last value
        mean, cov = model._joint(late + steps, np.vstack([self.history_.exog[n:], ahead.exog]))
        return Forecast(ahead.index, mean[late:], cov[late:, late:], name=self.history_.name)

    def _checked(
        self, made: Callable[..., History], y: object, exog: object, name: str = "y"
    ) -> History:
        """The history of a series, or an error where it holds what the model does not take."""
        self._check_takes_exog(exog)
        history = made(y, exog)
        known = ~np.isnan(history.y)
        if self._takes_missing or not known.any():
            return history
        history = history.part(int(known.argmax()))
        at = np.flatnonzero(~np.isnan(history.y))
        within = np.interp(np.arange(len(history.y)), at, history.y[at], right=np.nan)
        if len(at) <= at[-1]:
            text = f"missing values are interpolated for {type(self).__name__}, whose intervals "
            warnings.warn(f"{text}may be too narrow", InterpolatedWarning, stacklevel=3)
        return replace(history, y=within)

    def _observed(self, history: History) -> History:
        """The history to its last value for a model that takes no missing values."""
        return history if self._takes_missing else history.to_last_value()

    def _check_takes_exog(self, exog: object) -> None:
        if exog is not None and not self.takes_exog:
            must, got = f"be None for {type(self).__name__}", f"a {type(exog).__name__}"
            raise refusal("exog", must, got, "It takes no regressors; AutoReg and SARIMAX do.")


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


def steps_between(first: pd.Index[Any], second: pd.Index[Any]) -> int | None:
    """Steps from the start of an index to another's of its frequency; None on another grid."""
    start: Any = first[:1]
    other: Any = second[:1]
    freq: Any = getattr(first, "freq", None)
    if getattr(first, "tz", None) != getattr(second, "tz", None):
        return None
    if isinstance(first, pd.RangeIndex):
        distance, step = other[0] - start[0], first.step
    elif isinstance(first, pd.PeriodIndex):
        distance, step = other[0].ordinal - start[0].ordinal, freq.n
    elif isinstance(freq, pd.offsets.Day | pd.offsets.Tick):
        if isinstance(freq, pd.offsets.Day):  # of 23 to 25 hours where the clock changes
            start, other = start.tz_localize(None), other.tz_localize(None)
        # As Python's whole numbers: a Timedelta ends at 292 years.
        begin, end = (int(index.asi8[0]) * _NANOSECONDS[index.unit] for index in (start, other))
        distance, step = end - begin, freq.nanos
    else:  # of business hours or longer steps
        a, b = sorted((start[0], other[0]))
        grid = pd.date_range(a, b, freq=freq)
        if not len(grid) or grid[-1] != b:
            return None
        distance, step = (len(grid) - 1) * (1 if a == start[0] else -1), 1
    steps, rest = divmod(distance, step)
    return None if rest else int(steps)
