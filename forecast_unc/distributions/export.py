"""Forecasts as the tables and objects of other libraries."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from numbers import Real
from typing import Any, Protocol, runtime_checkable

import numpy as np
import pandas as pd

from forecast_unc._checks import RandomState, check_several, refusal
from forecast_unc._typing import Array


class Steps(Protocol):
    """What tables and pictures ask of a forecast."""

    @property
    def index(self) -> pd.Index[Any]:
        """Times of the steps."""

    @property
    def name(self) -> Any:
        """Name of the series."""

    @property
    def aggregated(self) -> str | None:
        """What an aggregate is, in words; None of steps."""

    @property
    def mean(self) -> pd.Series[float]:
        """Mean of each step."""

    def __len__(self) -> int: ...

    def interval(self, coverage: float) -> pd.DataFrame:
        """Central interval of each step."""


@runtime_checkable
class ShapedSteps(Steps, Protocol):
    """What a picture of highest densities asks."""

    @property
    def paths(self) -> pd.DataFrame | None:
        """Sample paths, if it has some."""

    def highest_density(self, coverage: float) -> pd.DataFrame:
        """Pieces of the shortest region of each step."""


class SampledSteps(Steps, Protocol):
    """What objects of other libraries ask of a forecast."""

    def sample(self, n: int, random_state: RandomState = None) -> pd.DataFrame:
        """Sample paths, steps by paths."""


def nixtla_frame(
    forecast: Steps, levels: Sequence[float] = (80, 95), unique_id: str | None = None
) -> pd.DataFrame:
    """Return the forecast as the long table that Nixtla's libraries exchange.

    Its columns are ``unique_id``, ``ds`` (a period as its first instant), ``forecast_unc`` (the
    mean), then ``forecast_unc-lo-95``, ``-lo-80``, ``-hi-80``, ``-hi-95``.

    Parameters
    ----------
    levels : sequence of float, default=(80, 95)
        Coverages in percent, from 1 to below 100, as these libraries count them.
    unique_id : str, optional
        Name of the series in the table; by default its own, or "y".
    """
    levels = check_levels(levels)
    frame = pd.DataFrame(nixtla_figures(forecast, levels), columns=nixtla_columns(levels))
    frame.insert(0, "unique_id", series_name(forecast) if unique_id is None else unique_id)
    frame.insert(1, "ds", first_instants(forecast.index))
    return frame


def nixtla_figures(forecast: Steps, levels: Sequence[float]) -> Array:
    """Figures of :func:`nixtla_frame`, (h, 1 + 2 * levels), for checked levels."""
    bands = [forecast.interval(level / 100).to_numpy() for level in levels]
    lower, upper = [band[:, 0] for band in reversed(bands)], [band[:, 1] for band in bands]
    return np.column_stack([forecast.mean.to_numpy(), *lower, *upper])


def nixtla_tails(levels: Sequence[float]) -> Array:
    """Probabilities of the bounds among these figures, (2 * levels,)."""
    lower = [0.5 - level / 200 for level in reversed(levels)]
    return np.array([*lower, *(0.5 + level / 200 for level in levels)])


def nixtla_columns(levels: Sequence[float]) -> list[str]:
    """Names of these figures."""
    lower = [f"forecast_unc-lo-{level}" for level in reversed(levels)]
    return ["forecast_unc", *lower, *(f"forecast_unc-hi-{level}" for level in levels)]


def darts_series(
    forecast: SampledSteps, n_samples: int = 500, random_state: RandomState = None
) -> Any:
    """Return sample paths as a ``TimeSeries`` of darts, one component, a sample a path.

    ``n_samples`` and ``random_state`` are those of :meth:`Forecast.sample`. Periods become their
    first instants; an ImportError says if the forecast cannot be made one for want of darts.
    """
    darts = library("darts", "TimeSeries")
    paths = forecast.sample(n_samples, random_state).to_numpy()
    times = first_instants(forecast.index)
    freq = times.step if isinstance(times, pd.RangeIndex) else getattr(times, "freq", None)
    return darts.TimeSeries.from_times_and_values(
        times, paths[:, None, :], freq=freq, columns=[series_name(forecast)]
    )


def gluonts_forecast(
    forecast: SampledSteps, n_samples: int = 500, random_state: RandomState = None
) -> Any:
    """Return sample paths as a ``SampleForecast`` of GluonTS, or an ImportError without it.

    ``n_samples`` and ``random_state`` are those of :meth:`Forecast.sample`. Dates of the forecast
    become periods of their frequency, without a time zone; whole numbers are refused.
    """
    times = forecast.index
    if not isinstance(times, (pd.DatetimeIndex, pd.PeriodIndex)):
        got, remedy = f"a {type(times).__name__}", "Give the series its times."
        raise refusal("index", "hold dates or periods for GluonTS", got, remedy, TypeError)
    gluonts = library("gluonts.model.forecast", "SampleForecast")
    periods = times if isinstance(times, pd.PeriodIndex) else times.tz_localize(None).to_period()
    paths = forecast.sample(n_samples, random_state).to_numpy().T
    return gluonts.SampleForecast(paths, start_date=periods[0], item_id=series_name(forecast))


def described(name: Any, aggregated: str | None) -> Any:
    """Name of a series, and what is forecast of it, if that is an aggregate."""
    return name if aggregated is None else ", ".join(map(str, filter(None, [name, aggregated])))


def first_instants(times: pd.Index[Any]) -> pd.Index[Any]:
    """Periods as their first instants; other times as they are."""
    return times.to_timestamp() if isinstance(times, pd.PeriodIndex) else times


def check_levels(levels: Sequence[float]) -> tuple[float, ...]:
    """Percentages in ascending order, each once, or an error."""
    levels = check_several("levels", levels, "percentages", "(95,) for one")
    remedy = "For a 95 % interval pass 95."
    for level in levels:
        if not isinstance(level, Real) or isinstance(level, np.timedelta64):
            raise refusal("levels", "be percentages", repr(level), remedy, TypeError)
        if not 1 <= level < 100:
            raise refusal("levels", "be percentages from 1 to below 100", f"{level}", remedy)
    return tuple(sorted(set(levels)))


def library(module: str, name: str) -> Any:
    """A module of a library that is only needed here, or an error that says so."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        library = module.partition(".")[0]
        raise ImportError(f"a {name} needs {library}: install {library}.") from error


def series_name(forecast: Steps) -> str:
    """Name of the series as text, or "y"."""
    return "y" if forecast.name is None else str(forecast.name)
