"""The times of a series: what a regular index is, and what follows it."""

from __future__ import annotations

import numpy as np
import pandas as pd


def regular_index(index: pd.Index, name: str) -> pd.Index:
    """The index with its frequency set, or an error that names the first offending time.

    Parameters
    ----------
    index : Index
        Index of a series or frame.
    name : str
        Name of the argument in messages.

    Returns
    -------
    Index
        DatetimeIndex with ``freq``, PeriodIndex, or RangeIndex.
    """
    kinds = "DatetimeIndex, PeriodIndex or evenly spaced whole numbers"
    is_time = isinstance(index, (pd.DatetimeIndex, pd.PeriodIndex))
    if not is_time and not pd.api.types.is_integer_dtype(index.dtype):
        raise TypeError(
            f"{name} must have a {kinds} as index; got {type(index).__name__} of {index.dtype}. "
            "Convert times with pd.to_datetime."
        )
    if index.hasnans:
        raise ValueError(
            f"{name} must have no missing times in its index; got NaT. Drop those rows."
        )
    if not index.is_unique:
        first = format_time(index, int(index.duplicated().argmax()))
        raise ValueError(
            f"{name} must have unique times; got {first} more than once. Aggregate the duplicates, "
            f"for example {name}.groupby(level=0).mean()."
        )
    if not index.is_monotonic_increasing:
        order = np.argsort(index)
        first = format_time(index, int((order != np.arange(len(index))).argmax()))
        raise ValueError(
            f"{name} must be in ascending order of time; got {first} out of place. "
            f"Sort it with {name}.sort_index()."
        )
    if isinstance(index, pd.DatetimeIndex):
        return _with_frequency(index, name)
    if isinstance(index, pd.PeriodIndex):
        if len(index):
            _check_no_gap(index, pd.period_range(index[0], index[-1], freq=index.freq), name)
        return index
    steps = np.diff(index.to_numpy())
    step = int(np.min(steps)) if len(steps) else 1
    full = pd.RangeIndex(index[0], index[-1] + step, step) if len(index) else pd.RangeIndex(0)
    _check_no_gap(index, full, name)
    return full.rename(index.name)


def _with_frequency(index: pd.DatetimeIndex, name: str) -> pd.DatetimeIndex:
    if index.freq is not None:
        return index
    inferred = _inferred(index)
    if inferred.freq is not None:
        return inferred
    # The frequency of some stretch with which the fewest times are missing, if there is one.
    stretches = [index[i : i + k] for k in (3, 6) for i in range(len(index) - k + 1)]
    candidates = {freq for freq in (_inferred(part).freq for part in stretches) if freq is not None}
    grids = [pd.date_range(index[0], index[-1], freq=freq) for freq in candidates]
    grids = [grid for grid in grids if index.isin(grid).all()]
    if grids:
        _check_no_gap(index, min(grids, key=len), name)
    raise ValueError(
        f"{name} must have a regular index; got {len(index)} times without a frequency that "
        f'pandas can infer. Give one, for example {name}.asfreq("D").'
    )


def _inferred(index: pd.DatetimeIndex) -> pd.DatetimeIndex:
    # freq="infer" and not pd.infer_freq, whose result changes its type in pandas 4
    return pd.DatetimeIndex(index, freq="infer") if len(index) > 2 else index


def _check_no_gap(index: pd.Index, full: pd.Index, name: str) -> None:
    missing = full.difference(index)
    if not len(missing):
        return
    if isinstance(index, pd.RangeIndex) or pd.api.types.is_integer_dtype(index.dtype):
        remedy = f"Number the rows without gaps, for example {name}.reset_index(drop=True)"
    else:
        freq = full.freqstr  # type: ignore[attr-defined]
        remedy = (
            f'Reindex with {name}.asfreq("{freq}"): missing values are then uncertain, not filled'
        )
    raise ValueError(
        f"{name} must have a regular index; got {len(missing)} missing timestamps, "
        f"first {format_time(missing, 0)}. {remedy}."
    )


def future_index(index: pd.Index, steps: int) -> pd.Index:
    """Times of the next `steps` values after a regular index, of its kind and time zone.

    Parameters
    ----------
    index : Index
        A result of `regular_index`.
    steps : int
        Number of times.

    Returns
    -------
    Index
    """
    if isinstance(index, pd.DatetimeIndex):
        return pd.date_range(index[-1], periods=steps + 1, freq=index.freq, name=index.name)[1:]
    if isinstance(index, pd.PeriodIndex):
        return pd.period_range(index[-1] + 1, periods=steps, freq=index.freq, name=index.name)
    assert isinstance(index, pd.RangeIndex)
    start = index.start + index.step * len(index)
    return pd.RangeIndex(start, start + index.step * steps, index.step, name=index.name)


def extended_index(index: pd.Index, steps: int) -> pd.Index:
    """A regular index with the times of `steps` more values, its frequency kept.

    Parameters
    ----------
    index : Index
        A result of `regular_index`.
    steps : int
        Number of times to add.

    Returns
    -------
    Index
    """
    if isinstance(index, pd.DatetimeIndex):
        return pd.date_range(index[0], periods=len(index) + steps, freq=index.freq, name=index.name)
    return index.append(future_index(index, steps))


def format_time(index: pd.Index, position: int) -> str:
    """A time of an index as text, a date without its midnight."""
    time = index[position]
    text = str(time)
    if isinstance(time, pd.Timestamp) and time == time.normalize():
        text = str(time.date())
    return text
