"""What tables and pictures ask of a forecast, and forecasts as the tables of other libraries."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from numbers import Real
from typing import Any, Protocol

import numpy as np
import pandas as pd

from forecast_unc._checks import RandomState, check_several, refusal
from forecast_unc._typing import Array


class Bands(Protocol):
    """Times, moments and central intervals of the steps; `Forecast` has them."""

    def __len__(self) -> int: ...

    @property
    def index(self) -> pd.Index[Any]:
        """Times of the steps."""
        ...

    @property
    def name(self) -> Any:
        """Name of the series."""
        ...

    @property
    def mean(self) -> pd.Series[float]:
        """Mean of each step."""
        ...

    @property
    def std(self) -> pd.Series[float]:
        """Standard deviation of each step."""
        ...

    def interval(self, coverage: float = 0.9) -> pd.DataFrame:
        """Central interval of each step, ``lower`` and ``upper``."""
        ...


class Sampled(Bands, Protocol):
    """A forecast that paths can be drawn of."""

    def sample(self, n: int, random_state: RandomState = None) -> pd.DataFrame:
        """Sample paths, (steps, n)."""
        ...


def summary_frame(forecast: Bands, alpha: float) -> pd.DataFrame:
    """Mean, standard error and interval, as :meth:`Forecast.summary_frame` returns them."""
    _check_number("alpha must be a number", alpha, "0.05")
    if not 0 < alpha < 1:
        remedy = "For a 95 % interval pass 0.05."
        raise refusal("alpha", "lie strictly between 0 and 1", f"{alpha}", remedy)
    band = forecast.interval(1 - alpha)
    return pd.DataFrame(
        {
            "mean": forecast.mean,
            "mean_se": forecast.std,
            "mean_ci_lower": band["lower"],
            "mean_ci_upper": band["upper"],
        }
    )


def nixtla_frame(forecast: Bands, levels: Sequence[float], unique_id: str | None) -> pd.DataFrame:
    """Long table of one series, as :meth:`Forecast.to_nixtla` returns it."""
    levels = check_levels(levels)
    if unique_id is None:
        unique_id = _series_name(forecast)
    frame = pd.DataFrame(nixtla_figures(forecast, levels), columns=nixtla_columns(levels))
    frame.insert(0, "unique_id", unique_id)
    frame.insert(1, "ds", first_instants(forecast.index))
    return frame


def darts_series(forecast: Sampled, n_samples: int, random_state: RandomState) -> Any:
    """Sample paths as a TimeSeries, as :meth:`Forecast.to_darts` returns them."""
    darts = _library("darts", "TimeSeries")
    paths = forecast.sample(n_samples, random_state).to_numpy()
    times = first_instants(forecast.index)
    freq = times.step if isinstance(times, pd.RangeIndex) else getattr(times, "freq", None)
    return darts.TimeSeries.from_times_and_values(
        times, paths[:, None, :], freq=freq, columns=[_series_name(forecast)]
    )


def gluonts_forecast(forecast: Sampled, n_samples: int, random_state: RandomState) -> Any:
    """Sample paths as a SampleForecast, as :meth:`Forecast.to_gluonts` returns them."""
    times = forecast.index
    if not isinstance(times, (pd.DatetimeIndex, pd.PeriodIndex)):
        got, remedy = f"a {type(times).__name__}", "Give the series its times."
        raise refusal("index", "hold dates or periods for GluonTS", got, remedy, TypeError)
    gluonts = _library("gluonts.model.forecast", "SampleForecast")
    periods = times if isinstance(times, pd.PeriodIndex) else times.tz_localize(None).to_period()
    paths = forecast.sample(n_samples, random_state).to_numpy().T
    return gluonts.SampleForecast(paths, start_date=periods[0], item_id=_series_name(forecast))


def _library(module: str, name: str) -> Any:
    """A module of a library that is only needed here, or an error that says so."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        library = module.partition(".")[0]
        raise ImportError(f"a {name} needs {library}: install {library}.") from error


def _series_name(forecast: Bands) -> str:
    return "y" if forecast.name is None else str(forecast.name)


def first_instants(times: pd.Index[Any]) -> pd.Index[Any]:
    """Periods as their first instants; other times as they are."""
    return times.to_timestamp() if isinstance(times, pd.PeriodIndex) else times


def nixtla_figures(forecast: Bands, levels: Sequence[float]) -> Array:
    """Figures of :func:`nixtla_frame`, (h, 1 + 2 * levels), for checked levels."""
    bands = [forecast.interval(level / 100) for level in levels]
    lower = [band["lower"].to_numpy() for band in reversed(bands)]
    upper = [band["upper"].to_numpy() for band in bands]
    return np.column_stack([forecast.mean.to_numpy(), *lower, *upper])


def nixtla_columns(levels: Sequence[float]) -> list[str]:
    """Names of these figures."""
    lower = [f"forecast_unc-lo-{level}" for level in reversed(levels)]
    return ["forecast_unc", *lower, *(f"forecast_unc-hi-{level}" for level in levels)]


def check_levels(levels: Sequence[float]) -> tuple[float, ...]:
    """Percentages in ascending order, each once, or an error."""
    levels = check_several("levels", levels, "percentages", "(95,) for one")
    for level in levels:
        _check_number("levels must be percentages", level, "95")
    wrong = [level for level in levels if not 1 <= level < 100]
    if wrong:
        remedy = "For a 95 % interval pass 95."
        raise refusal("levels", "be percentages from 1 to below 100", f"{wrong[0]}", remedy)
    return tuple(sorted(set(levels)))


def _check_number(rule: str, value: object, example: str) -> None:
    if not isinstance(value, Real):
        raise TypeError(f"{rule}; got {value!r}. For a 95 % interval pass {example}.")
