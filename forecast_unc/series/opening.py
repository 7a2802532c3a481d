"""Closed times, by a regressor of 1 where open and 0 where closed: their values are known zeros."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from pandas.tseries.offsets import CustomBusinessDay, CustomBusinessHour, Hour

from forecast_unc._checks import first_true, refusal
from forecast_unc._typing import Array, Flags, Positions
from forecast_unc.series import times

_LEAST_HOURS = 14 * 24  # in which hours that were always closed are left out
_LEAST_OPEN = 0.8  # of the other hours


@dataclass(frozen=True, eq=False)
class Opening:
    """The regressor that tells closed times from open ones, and all times that were given."""

    column: Any
    at: int  # its place among the regressors
    index: pd.Index  # with its frequency
    opened: Flags  # of these times

    def since(self, time: Any) -> Opening:
        """Times from one on."""
        n = int((self.index < time).sum())
        return replace(self, index=self.index[n:], opened=self.opened[n:])


@dataclass(frozen=True, eq=False)
class Closures:
    """All steps, with the closed ones, of which a forecast has those of its own grid."""

    index: pd.Index[Any]  # of length h
    closed: Flags  # (h,)
    places: Positions  # (h,), on the grid; 0 of those beside it


def check_name(column: object) -> None:
    """Raise unless it may be the name of a regressor."""
    if not pd.api.types.is_hashable(column):
        must, got = "be the name of a regressor", type(column).__name__
        remedy = 'Give the column in exog, and its name as open="open".'
        raise refusal("open", must, got, remedy, TypeError)


def place_of(column: Hashable, columns: pd.Index) -> int:
    """The place of the regressor, or an error."""
    check_name(column)
    at = int(columns.get_indexer(pd.Index([column]))[0]) if columns.is_unique else -1
    if at < 0:
        remedy = "Give it as a column of exog, 1 where open and 0 where closed."
        raise refusal("open", f"name a regressor, of {list(columns)}", repr(column), remedy)
    return at


def is_open(column: Hashable, values: Array, index: pd.Index[Any]) -> Flags:
    """Which times are open, (n,), or an error."""
    if (at := first_true((values != 0.0) & (values != 1.0))) is not None:
        must, got = (
            f"have 0 or 1 as {column!r}",
            f"{values[at]:g} at {times.format_time(index, at)}",
        )
        raise refusal("exog", must, got, "It is 1 where open and 0 where closed.")
    return np.asarray(values == 1.0)


def check_zeros(column: Hashable, y: Array, opened: Flags, index: pd.Index[Any], name: str) -> None:
    """Raise unless values of closed times are 0 or missing."""
    if (at := first_true(~opened & (y != 0.0) & ~np.isnan(y))) is not None:
        got = f"{y[at]:g} at {times.format_time(index, at)}"
        remedy = "Correct the value, or the column."
        raise refusal(name, f"be 0 or missing where {column!r} is 0", got, remedy)


def open_grid(index: pd.Index[Any], opened: Flags) -> pd.Index[Any]:
    """The times without weekdays, or hours of the day, that are always closed."""
    freq = getattr(index, "freq", None)
    if not isinstance(index, pd.DatetimeIndex):
        return index
    if freq == Hour() and index.tz is None and len(index) >= _LEAST_HOURS and opened.any():
        days = [
            day for i, day in enumerate(times.WEEKDAYS) if (index[opened].day_of_week == i).any()
        ]
        by_day = np.unique(index[opened].hour)
        if by_day[-1] - by_day[0] == 23:  # through midnight, or all day
            return index
        shifts = np.split(by_day, np.flatnonzero(np.diff(by_day) > 1) + 1)
        starts = [f"{shift[0]:02}:00" for shift in shifts]
        ends = [f"{(shift[-1] + 1) % 24:02}:00" for shift in shifts]
        words: Any = {"weekmask": " ".join(days), "start": starts, "end": ends}
        hours = CustomBusinessHour(**words)
        is_regular = opened[_holds(hours, index)].mean() >= _LEAST_OPEN
        return on_grid_of(index, hours) if is_regular else index
    closed, mask = times.closed_days(index[opened], freq, len(index))
    return on_grid_of(index, CustomBusinessDay(weekmask=mask)) if closed else index


def _holds(freq: Any, index: pd.DatetimeIndex) -> Flags:
    """Which times are of weekdays, and hours, of a frequency without holidays."""
    days = np.asarray(freq.calendar.weekmask)[index.day_of_week]
    if isinstance(freq, CustomBusinessDay):
        return np.asarray(days)
    hours = [
        (index.hour >= start.hour) & (index.hour < (end.hour or 24))
        for start, end in zip(freq.start, freq.end, strict=True)
    ]
    return np.asarray(days & np.any(hours, axis=0))


def on_grid_of(index: pd.Index[Any], freq: Any) -> pd.Index[Any]:
    """The times of an index at a frequency of open days or hours; all, if it is their own."""
    own = freq == getattr(index, "freq", None)
    if own or not isinstance(freq, CustomBusinessDay | CustomBusinessHour):
        return index
    assert isinstance(index, pd.DatetimeIndex)
    none: Any = None  # pandas 2 infers some
    return pd.DatetimeIndex(pd.DatetimeIndex(index[_holds(freq, index)], freq=none), freq=freq)


def check_on_grid(
    column: Hashable, opened: Flags, index: pd.Index[Any], grid: pd.Index[Any], name: str
) -> Positions:
    """Places (n,) of times on a grid, -1 beside it, where none may be open."""
    at: Positions = np.asarray(grid.get_indexer(index), dtype=np.intp)
    if (first := first_true(opened & (at < 0))) is not None:
        time = times.format_time(index, first)
        must = f"have {column!r} 0 on weekdays and at hours that were always closed"
        raise refusal(name, must, f"1 at {time}", "Nothing is known of an open one.")
    return at
