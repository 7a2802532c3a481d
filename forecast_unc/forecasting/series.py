"""What a valid series is: checks at the boundary, and the times that follow it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from forecast_unc._typing import Array


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
    return values, index


def check_is_series(y: object, name: str = "y") -> pd.Series[Any]:
    """The argument, if it is a Series, or an error.

    Parameters
    ----------
    y : object
        What came.
    name : str
        Name of the argument in the message.

    Returns
    -------
    Series
    """
    if not isinstance(y, pd.Series):
        raise TypeError(
            f"{name} must be a pandas Series; got {type(y).__name__}. Wrap it, for example "
            "pd.Series(values, index=times)."
        )
    return y


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
    """Raise if all that was observed is the same.

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
        raise ValueError(
            f"y_new must follow the series without a gap, from {format_time(expected, 0)}; got "
            f"{len(y_new)} values from {format_time(y_new.index, 0) if len(y_new) else None}. "
            "Pass all new values and no others, in order, NaN for missing ones, on the same kind "
            "of index."
        )
    return y_new.set_axis(expected)


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


def check_exog(exog: object, index: pd.Index, columns: pd.Index | None, when: str) -> Array:
    """Values of a frame of regressors aligned with `index`, of shape (len(index), k).

    Parameters
    ----------
    exog : DataFrame or None
        Regressors, one column each; None for none.
    index : Index
        The times it must have.
    columns : Index or None
        The columns it must have; None at the fit, where they are what they are.
    when : str
        What the times are, for the message: "y" or "the 12 steps after the origin".

    Returns
    -------
    ndarray of shape (len(index), k)
    """
    if exog is None:
        if columns is not None and len(columns):
            raise ValueError(
                f"exog must be given for {when}; got None, but the model was fitted with "
                f"{list(columns)}. Pass a DataFrame with their values."
            )
        return np.empty((len(index), 0))
    frame = check_aligned(exog, index, when)
    if columns is not None and not len(columns):
        raise ValueError(
            "exog must be None for a model fitted without regressors; got a DataFrame. Give it to "
            "fit too, or leave it out."
        )
    if not frame.columns.is_unique:
        raise ValueError(
            "exog must have distinct columns; got "
            f"{frame.columns[frame.columns.duplicated()][0]!r} twice. Rename one."
        )
    if columns is not None and list(frame.columns) != list(columns):
        raise ValueError(
            f"exog must have the columns of the fit, {list(columns)}; got {list(frame.columns)}. "
            "Select and order them."
        )
    not_numeric = [c for c in frame.columns if not pd.api.types.is_numeric_dtype(frame[c].dtype)]
    if not_numeric:
        raise TypeError(
            f"exog must be numeric; got column {not_numeric[0]!r} of dtype "
            f"{frame[not_numeric[0]].dtype}. Encode it as numbers."
        )
    # contiguous, so that sums do not depend on the memory layout of the frame
    values: Array = np.array(frame.to_numpy(dtype=np.float64, na_value=np.nan), order="C")
    bad = ~np.isfinite(values)
    if bad.any():
        row, column = np.argwhere(bad)[0]
        raise ValueError(
            f"exog must be finite; got {values[row, column]} at {format_time(index, int(row))} in "
            f"column {frame.columns[column]!r}. Fill or drop it knowingly."
        )
    return values


def check_exog_cov(exog_cov: object, exog: pd.DataFrame | None) -> Array | None:
    """Covariance of future regressors, of shape (h * k, h * k), or None if they are known.

    Parameters
    ----------
    exog_cov : DataFrame, ndarray or None
        A frame like `exog` of standard deviations, for independent errors; or the covariance
        of all of them, step by step: all columns of step 1, then of step 2, and so on.
    exog : DataFrame or None
        The regressors, checked by `check_exog`.

    Returns
    -------
    ndarray of shape (h * k, h * k) or None
    """
    if exog_cov is None:
        return None
    if exog is None:
        raise ValueError(
            "exog_cov must be None without exog; got one. Give the regressors' means as exog."
        )
    size = exog.size
    if not isinstance(exog_cov, (pd.DataFrame, np.ndarray)):
        raise TypeError(
            "exog_cov must be a DataFrame or an array; got "
            f"{type(exog_cov).__name__}. Give stds as a frame like exog."
        )
    stds = (
        isinstance(exog_cov, pd.DataFrame)
        and exog_cov.columns.equals(exog.columns)
        and exog_cov.index.equals(exog.index)
    )
    if not stds and exog_cov.shape != (size, size):
        rule = f"stds with the index and columns of exog, or a covariance of shape {size, size}"
        raise ValueError(
            f"exog_cov must be {rule}; got shape {exog_cov.shape}. "
            "A covariance holds all columns of step 1, then of step 2, and so on."
        )
    try:
        values: Array = np.array(exog_cov, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(
            "exog_cov must be numeric; got other values. Encode it as numbers."
        ) from None
    if not np.isfinite(values).all():
        raise ValueError(
            f"exog_cov must be finite; got {values[~np.isfinite(values)][0]}. Give 0 for a "
            "regressor that is known."
        )
    if stds:
        if values.min() < 0:
            raise ValueError(
                f"exog_cov must hold no negative std; got {values.min():g}. Give 0 for a "
                "regressor that is known."
            )
        values = np.diag(values.ravel() ** 2)
    else:
        # of the correlations, so that the units of the regressors do not matter
        std = np.sqrt(np.maximum(np.diagonal(values), 0.0))
        unit = np.where(std > 0, std, 1.0)
        correlation = values / np.outer(unit, unit)
        if np.abs(correlation - correlation.T).max() > 1e-8:
            raise ValueError(
                "exog_cov must be symmetric; got a matrix that is not. Check the order of its rows."
            )
        lowest = np.linalg.eigvalsh(correlation)[0]
        if lowest < -1e-8:
            raise ValueError(
                "exog_cov must be positive semidefinite; got a smallest eigenvalue of "
                f"{lowest:.2g}, rows and columns in units of their stds. Estimate it from data, or "
                "give stds."
            )
    return values if values.any() else None


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
    if not pd.api.types.is_numeric_dtype(y_std.dtype):
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


def check_aligned(exog: object, index: pd.Index, when: str) -> pd.DataFrame:
    """The regressors, if they are a frame with exactly the given times, or an error.

    Parameters
    ----------
    exog : object
        What came as regressors.
    index : Index
        The times it must have.
    when : str
        What the times are, for the message.

    Returns
    -------
    DataFrame
    """
    if not isinstance(exog, pd.DataFrame):
        raise TypeError(
            f"exog must be a pandas DataFrame; got {type(exog).__name__}. For one regressor use "
            "series.to_frame()."
        )
    if exog.index.equals(index):
        return exog
    absent = index.difference(exog.index)
    if len(absent):
        got, remedy = f"no row at {format_time(absent, 0)}", "Give a value for every time"
    elif len(exog) == len(index):
        got, remedy = "the same times in another order", "Sort them with exog.sort_index()"
    else:
        got, remedy = f"{len(exog)} rows", "Select the times with exog.loc[...]"
    raise ValueError(
        f"exog must have exactly the times of {when}, {len(index)} rows from "
        f"{format_time(index, 0)}; got {got}. {remedy}."
    )


def format_time(index: pd.Index, position: int) -> str:
    """A time of an index as text, a date without its midnight."""
    time = index[position]
    text = str(time)
    if isinstance(time, pd.Timestamp) and time == time.normalize():
        text = str(time.date())
    return text


def prolonged(index: pd.Index, steps: int) -> pd.Index:
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
