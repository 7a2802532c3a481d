"""One-step forecasts of the past: what `fitted()` of a model returns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, overload

import numpy as np
import pandas as pd

from forecast_unc._typing import Array, Flags
from forecast_unc.distributions.forecast import Forecast, forecast_of
from forecast_unc.distributions.prediction import PastSteps
from forecast_unc.series.times import format_time


class Fitted:
    """One-step forecasts of the past, each from the values before it; immutable.

    Every quantity is that of an observation, noise included, in units of y, and NaN at times that
    have no forecast: the first ones, whose lagged values are before the series. Closed times are 0
    (``Forecaster(open=...)``).

    Examples
    --------
    >>> from forecast_unc import Forecaster, datasets
    >>> fitted = Forecaster(lags=3).fit(datasets.load_nile()).fitted()
    >>> fitted
    Fitted(name='nile', 1871-01-01 to 1970-01-01, 97 of 100 times)
    """

    __slots__ = ("_actual", "_closed", "_parts")

    def __init__(self, actual: pd.Series[float], parts: Sequence[PastSteps], closed: Flags) -> None:
        """Take a series, forecasts of some of its times, and times (n,) of 0 for certain."""
        self._actual, self._parts, self._closed = actual, tuple(parts), closed

    def __len__(self) -> int:
        return len(self._actual)

    def __repr__(self) -> str:
        known, name = self._closed.copy(), self._actual.name
        for part in self._parts:
            known[part.places[part.known]] = True
        first, last = format_time(self.index, 0), format_time(self.index, -1)
        return f"Fitted(name={name!r}, {first} to {last}, {known.sum()} of {len(self)} times)"

    @property
    def index(self) -> pd.Index[Any]:
        """The times of the series."""
        return self._actual.index

    @property
    def mean(self) -> pd.Series[float]:
        """Mean at each time."""
        return self._series(attrgetter("mean"))

    @property
    def median(self) -> pd.Series[float]:
        """Median at each time."""
        return self._series(attrgetter("median"))

    @property
    def std(self) -> pd.Series[float]:
        """Standard deviation at each time."""
        return self._series(attrgetter("std"))

    @property
    def residuals(self) -> pd.Series[float]:
        """The series less the mean."""
        return self._actual - self.mean

    def interval(self, coverage: float = 0.9) -> pd.DataFrame:
        """Central interval of a coverage at each time, as :meth:`Forecast.interval`."""
        return self._frame(["lower", "upper"], lambda forecast: forecast.interval(coverage))

    @overload
    def quantile(self, q: float) -> pd.Series[float]: ...
    @overload
    def quantile(self, q: Sequence[float] | Array) -> pd.DataFrame: ...
    def quantile(self, q: float | Sequence[float] | Array) -> pd.Series[float] | pd.DataFrame:
        """Quantiles at each time for one q or several, as :meth:`Forecast.quantile`."""
        if isinstance(q, (Sequence, np.ndarray)):
            return self._frame(list(q), lambda forecast: forecast.quantile(q))
        return self._series(lambda forecast: forecast.quantile(q))

    def _series(self, ask: Callable[[Forecast], Any]) -> pd.Series[float]:
        return self._frame([self._actual.name], ask).iloc[:, 0]

    def _frame(self, columns: list[Any], ask: Callable[[Forecast], Any]) -> pd.DataFrame:
        values = np.full((len(self), len(columns)), np.nan)
        for part in self._parts:
            forecast = forecast_of(self.index[part.places], part.prediction)
            values[part.places[part.known]] = pd.DataFrame(ask(forecast))[part.known]
        values[self._closed] = 0.0
        return pd.DataFrame(values, self.index, columns)
