"""What a valid series is: checks at the boundary."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from forecast_unc._checks import LARGEST, SMALLEST
from forecast_unc._typing import Array
from forecast_unc.series.frames import by_time
from forecast_unc.series.times import format_time, future_index, regular_index


def check_series(y: object, name: str = "y", all_missing: bool = False) -> tuple[Array, pd.Index]:
    """Values and regular index of a series, or an error in terms of the user's data.

    Parameters
    ----------
    y : Series
        Numbers, missing ones as NaN, on a regular, ascending index: DatetimeIndex
        (frequency set or inferable), PeriodIndex, or evenly spaced integers.
    name : str
        Name of the argument in messages.
    all_missing : bool
        Whether all values may be missing.

    Returns
    -------
    values : ndarray of shape (n,)
        A copy, with NaN where a value is missing.
    index : Index
        With its frequency set.
    """
    y = check_is_series(y, name)
    index = regular_index(y.index, name)
    types = pd.api.types
    if not (types.is_integer_dtype(y.dtype) or types.is_float_dtype(y.dtype)):
        raise TypeError(
            f"{name} must be numeric; got dtype {y.dtype}. Convert it with pd.to_numeric({name}), "
            f"truth values with {name}.astype(float)."
        )
    values = y.to_numpy(dtype=np.float64, na_value=np.nan, copy=True)
    if len(values) and np.isnan(values).all() and not all_missing:
        raise ValueError(
            f"{name} must hold numbers; got only missing values. Check how it was read."
        )
    infinite = np.isinf(values)
    if infinite.any():
        first = format_time(index, int(infinite.argmax()))
        raise ValueError(
            f"{name} must be finite or missing; got {infinite.sum()} infinite value(s), first at "
            f"{first}. Replace or remove them first."
        )
    huge = np.abs(values) > LARGEST
    if huge.any():
        at = int(huge.argmax())
        raise ValueError(
            f"{name} must lie within {LARGEST:g} of 0, so that squares are finite; got "
            f"{values[at]:g} at {format_time(index, at)}. Divide the series by a constant."
        )
    return values, index


def check_is_series(y: object, name: str = "y") -> pd.Series[Any]:
    """The argument as a Series, or an error.

    Parameters
    ----------
    y : object
        A Series; a DataFrame of one column, whose name the series gets; or a frame of polars,
        pyarrow or another library with a column of times and one of values.
    name : str
        Name of the argument in the message.

    Returns
    -------
    Series
    """
    if isinstance(y, pd.Series):
        return y
    frame = y if isinstance(y, pd.DataFrame) else by_time(y, name)
    if len(frame.columns) != 1:
        raise TypeError(
            f"{name} must be one series; got a frame of {len(frame.columns)} columns of values. "
            f"{_one_series(frame, name, frame is y)}"
        )
    return frame.iloc[:, 0]


def _one_series(frame: pd.DataFrame, name: str, of_pandas: bool) -> str:
    """What to do with a frame of several columns, or none."""
    types = pd.api.types
    dtypes = list(frame.dtypes.items())
    values = [column for column, dtype in dtypes if types.is_numeric_dtype(dtype)]
    if not values:
        return f"Pass one of numbers, for example pd.Series(values, index={name}.index)."
    if not of_pandas:
        return f"Take one, for example {name}[{[frame.index.name, values[0]]}]."
    times = [column for column, dtype in dtypes if types.is_datetime64_any_dtype(dtype)]
    at = f".set_index({times[0]!r})" if times else ""
    return f"Take one, for example {name}{at}[{values[:1]}]."


def numeric_values(y: object, name: str = "y") -> Array:
    """Values of a numeric Series with any index, or an error.

    Parameters
    ----------
    y : object
        What came.
    name : str
        Name of the argument in the message.

    Returns
    -------
    ndarray of shape (n,)
        A copy, with NaN where a value is missing.
    """
    y = check_is_series(y, name)
    types = pd.api.types
    if len(y) and not (types.is_integer_dtype(y.dtype) or types.is_float_dtype(y.dtype)):
        raise TypeError(
            f"{name} must be numeric; got dtype {y.dtype}. Convert it with pd.to_numeric({name}), "
            f"truth values with {name}.astype(float)."
        )
    return y.to_numpy(dtype=np.float64, na_value=np.nan, copy=True)


def check_varies(values: Array) -> None:
    """Raise if all observed values are the same, or hardly differ.

    Parameters
    ----------
    values : ndarray of shape (n,)
        The series, NaN where missing.
    """
    observed = values[~np.isnan(values)]
    if observed.size == 1:
        raise ValueError(
            f"y must have more than one value; got {observed[0]:g} alone. Give more history."
        )
    if observed.size and np.ptp(observed) <= 1e-12 * np.abs(observed).max():
        raise ValueError(
            f"y must vary; got the constant {observed[0]:g} throughout, to 12 digits. There is "
            "nothing to learn; subtract a large offset if there is one."
        )
    if observed.size and np.ptp(observed) < SMALLEST:
        raise ValueError(
            f"y must vary by at least {SMALLEST:g}, so that squares are above 0; got a range of "
            f"{np.ptp(observed):g}. Multiply the series by a constant."
        )


def check_follows(y_new: object, index: pd.Index) -> pd.Series[Any]:
    """New values, on an index with its frequency set, or an error if they leave a gap.

    Parameters
    ----------
    y_new : Series
        The values that followed.
    index : Index
        The times before them, a result of `regular_index`.

    Returns
    -------
    Series
    """
    y_new = check_is_series(y_new, "y_new")
    expected = future_index(index, max(1, len(y_new)))
    if not y_new.index.equals(expected):
        ours, theirs = (str(getattr(times, "tz", None)) for times in (expected, y_new.index))
        zones = ("", "") if ours == theirs else (f", time zone {ours}", f", time zone {theirs}")
        first = format_time(y_new.index, 0) if len(y_new) else None
        raise ValueError(
            f"y_new must follow the series without a gap, from {format_time(expected, 0)}"
            f"{zones[0]}; got {len(y_new)} values from {first}{zones[1]}. "
            "Pass all new values and no others, in order, NaN for missing ones, on the same kind "
            "of index."
        )
    return y_new.set_axis(expected)


def check_y_std(y_std: object, values: Array, index: pd.Index, name: str = "y") -> Array:
    """Standard deviations of the observations' errors, of shape (n,); zeros for None.

    Parameters
    ----------
    y_std : Series or None
        Nonnegative numbers with the index of the series, NaN only where it is missing.
    values : ndarray of shape (n,)
        The series.
    index : Index
        Its regular index.
    name : str
        Name of the series in messages.

    Returns
    -------
    ndarray of shape (n,)
        Zero where the series is missing.
    """
    if y_std is None:
        return np.zeros(len(values))
    y_std = check_is_series(y_std, "y_std")
    if not y_std.index.equals(index):
        raise ValueError(
            f"y_std must have the index of {name}, {len(index)} times from "
            f"{format_time(index, 0)}; got {len(y_std)} values with another. Use "
            f"y_std.reindex({name}.index)."
        )
    if not is_real(y_std.dtype):
        raise TypeError(
            f"y_std must be numeric; got dtype {y_std.dtype}. Convert it with pd.to_numeric(y_std)."
        )
    stds = np.where(np.isnan(values), 0.0, y_std.to_numpy(dtype=np.float64, na_value=np.nan))
    bad = ~((stds >= 0.0) & np.isfinite(stds))
    if bad.any():
        first = int(bad.argmax())
        raise ValueError(
            f"y_std must be finite and not negative where {name} is observed; got {stds[first]} at "
            f"{format_time(index, first)}. Give 0 for an exact value, or make {name} missing there."
        )
    return stds


def is_real(dtype: Any) -> bool:
    """Whether values of a type are numbers or truth values, and not complex.

    Parameters
    ----------
    dtype : dtype
        Of pandas or numpy.

    Returns
    -------
    bool
    """
    types = pd.api.types
    return types.is_numeric_dtype(dtype) and not types.is_complex_dtype(dtype)
