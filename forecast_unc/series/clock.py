"""The grid of local times: seasons and lags of a time zone follow the clock on the wall."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from pandas.tseries.offsets import Tick

from forecast_unc._typing import Array, Positions

_START = pd.Timestamp(0)
_DAY = pd.Timedelta(days=1)
_LONGEST_CHANGE = pd.Timedelta(hours=1)  # by which clocks go back


def has_clock(index: pd.Index[Any]) -> bool:
    """Whether times have a zone and equal steps, a whole number of which is a day."""
    freq = getattr(index, "freq", None)
    if not isinstance(index, pd.DatetimeIndex) or index.tz is None or not isinstance(freq, Tick):
        return False
    step = _step(index)
    return bool(step < _DAY and not _DAY % step)


def local_slots(index: pd.Index[Any]) -> Positions:
    """Whole steps (n,) from 1970 to each time by the local clock."""
    assert isinstance(index, pd.DatetimeIndex)
    since: Any = index.tz_localize(None) - _START
    return np.asarray(since // _step(index), dtype=np.intp)


def steps_a_day(index: pd.Index[Any]) -> int:
    """Steps of a day of 24 hours."""
    return int(_DAY / _step(index))


def steps_of_change(index: pd.Index[Any]) -> int:
    """Steps until an hour that clocks repeat begins again, at most."""
    return max(1, int(_LONGEST_CHANGE / _step(index)))


def _step(index: pd.Index[Any]) -> Any:
    freq: Any = getattr(index, "freq", None)
    return pd.Timedelta(freq)


def local_grid(index: pd.Index[Any], n: int) -> pd.DatetimeIndex:
    """The n local times, one a step, from the earliest of an index on."""
    assert isinstance(index, pd.DatetimeIndex)
    start = index.tz_localize(None).min()
    return pd.date_range(start, periods=n, freq=index.freq, name=index.name, unit=index.unit)


def means(values: Array, at: Positions, n: int) -> Array:
    """Means (n, ...) of the values (m, ...) at each of n places, NaN where there are none."""
    known = ~np.isnan(values)
    sums, counts = np.zeros((n, *values.shape[1:])), np.zeros((n, *values.shape[1:]))
    np.add.at(sums, at, np.where(known, values, 0.0))
    np.add.at(counts, at, known)
    return np.divide(sums, counts, out=np.full_like(sums, np.nan), where=counts > 0)


def filled(values: Array, at: Positions, n: int) -> Array:
    """Means (n, ...) as of `means`; a place without values has those of the next one."""
    taken = np.where(np.bincount(at, minlength=n) > 0, np.arange(n), n - 1)
    later = np.minimum.accumulate(taken[::-1])[::-1]
    return np.asarray(means(values, at, n)[later])
