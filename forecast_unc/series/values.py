"""Checks of a series at the boundary, and frames of other libraries by narwhals."""

from __future__ import annotations

from collections.abc import Hashable
from decimal import Decimal
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from forecast_unc._checks import LARGEST, SMALLEST, first_true, refusal
from forecast_unc._text import counted
from forecast_unc._typing import Array
from forecast_unc.series.times import (
    AS_NUMBERS,
    epoch_unit,
    foreign_months,
    format_time,
    future_index,
    native_times,
    regular_index,
)

_Data = TypeVar("_Data", "pd.Series[Any]", pd.DataFrame)
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_LIBRARIES = ("polars.", "pyarrow.", "modin.", "cudf.")  # that narwhals reads, eagerly


def check_series(
    y: pd.Series[Any], name: str = "y", all_missing: bool = False
) -> tuple[Array, pd.Index]:
    """A copy of the values (n,), NaN where missing, and the regular index of a series.

    `all_missing`: whether all values may be missing.
    """
    index = regular_index(y.index, name)
    values = numeric_values(y, name)
    if len(values) and np.isnan(values).all() and not all_missing:
        raise refusal(name, "hold numbers", "only missing values", "Check how it was read.")
    infinite = np.isinf(values)
    if (at := first_true(infinite)) is not None:
        got = f"{infinite.sum()} infinite value(s), first at {format_time(index, at)}"
        raise refusal(name, "be finite or missing", got, "Replace or remove them first.")
    if (at := first_true(np.abs(values) > LARGEST)) is not None:
        must = f"lie within {LARGEST:g} of 0, so that squares are finite"
        got = f"{values[at]:g} at {format_time(index, at)}"
        raise refusal(name, must, got, "Divide the series by a constant.")
    return values, index


def check_is_series(
    y: object, name: str = "y", time: Any = None, target: Any = None
) -> pd.Series[Any]:
    """A Series, a DataFrame's one column, or that of a frame beside its column of times.

    `time`, `target`: their names, if there are others.
    """
    if time is not None or target is not None:
        y = _chosen(y, name, time, target)
    if isinstance(y, pd.Series):
        return native(y)
    is_pandas = isinstance(y, pd.DataFrame)
    given = y if isinstance(y, pd.DataFrame) else _by_time(y, name)
    frame = native(given)
    if is_pandas and isinstance(frame.index, pd.RangeIndex) and len(frame.columns) == 2:
        texts = _columns_of_text(frame) or _columns_of_text(given)  # decimals are no times
        frame = _on_times(frame, texts, name)
    if len(frame.columns) == 1:
        return frame.iloc[:, 0]
    got = f"a frame of {len(frame.columns)} columns of values"
    numbers = [column for column, dtype in frame.dtypes.items() if is_real(dtype)]
    times = _columns_of_times(frame)
    remedy = f"Pass one of numbers, for example pd.Series(values, index={name}.index)."
    if is_pandas and (line := _line_of_wide(frame, name)):
        remedy = line
    elif numbers and not is_pandas:
        remedy = f"Take one, for example {name}[{[frame.index.name, numbers[0]]}]."
    elif numbers:
        at = f".set_index({times[0]!r})" if times else ""
        remedy = f"Take one, for example {name}{at}[{numbers[:1]}], "
        remedy += "or name time= and target= in fit; forecast_panel takes many series."
    raise refusal(name, "be one series", got, remedy, TypeError)


def numeric_values(y: pd.Series[Any], name: str = "y") -> Array:
    """A copy of the values (n,) of a numeric series with any index, NaN where missing."""
    types = pd.api.types
    y = native(y)
    real = types.is_integer_dtype(y.dtype) or types.is_float_dtype(y.dtype)
    if not real and (len(y) or types.is_complex_dtype(y.dtype)):
        remedy = f"Convert it with pd.to_numeric({name}), truth values with {name}.astype(float)."
        if types.is_timedelta64_dtype(y.dtype):  # to_numeric would count its own units
            remedy = f"Convert it with {name}.dt.total_seconds()."
        raise refusal(name, "be numeric", f"dtype {y.dtype}", remedy, TypeError)
    return y.to_numpy(dtype=np.float64, na_value=np.nan, copy=True)


def check_two(values: Array) -> None:
    """Raise unless two values (n,) or more are observed, whose changes have squares above 0."""
    observed = values[~np.isnan(values)]
    spread = np.ptp(observed) if observed.size else 0.0
    if observed.size < 2:
        got = f"{observed[0]:g} alone" if observed.size else "none"
        raise refusal("y", "have more than one value", got, "Give more history.")
    if 1e-12 * np.abs(observed).max() < spread < SMALLEST:
        must = f"vary by at least {SMALLEST:g}, so that squares are above 0"
        raise refusal("y", must, f"a range of {spread:g}", "Multiply the series by a constant.")


def is_constant(observed: Array) -> bool:
    """Whether all of some values (n,) are the same to 12 digits."""
    return bool(np.ptp(observed) <= 1e-12 * np.abs(observed).max())


def check_varies(values: Array) -> None:
    """Raise if all observed values (n,) are the same, or hardly differ."""
    check_two(values)
    observed = values[~np.isnan(values)]
    if is_constant(observed):
        got = f"the constant {observed[0]:g} throughout, to 12 digits"
        remedy = "There is nothing to learn; subtract a large offset if there is one."
        raise refusal("y", "vary", got, remedy)


def check_follows(y_new: pd.Series[Any], index: pd.Index) -> pd.Series[Any]:
    """New values on the times that follow a regular index, or an error if they leave a gap."""
    expected = future_index(index, max(1, len(y_new)))
    if not y_new.index.equals(expected):
        ours, theirs = (str(getattr(times, "tz", None)) for times in (expected, y_new.index))
        must = f"follow the series without a gap, from {format_time(expected, 0)}"
        start = f" from {format_time(y_new.index, 0)}" if len(y_new) else ""
        got = f"{counted(len(y_new), 'value')}{start}"
        if ours != theirs:
            must, got = f"{must}, time zone {ours}", f"{got}, time zone {theirs}"
        remedy = "Pass all new values and no others, in order, NaN for missing ones, on the same "
        remedy += "kind of index."
        raise refusal("y_new", must, got, remedy)
    return y_new.set_axis(expected)


def check_y_std(y_std: object, values: Array, index: pd.Index, name: str = "y") -> Array:
    """Stds (n,) of the errors of observations: 0 for None, and where the series is missing."""
    if y_std is None:
        return np.zeros(len(values))
    y_std = check_is_series(y_std, "y_std")
    if not y_std.index.equals(index):
        must = f"have the index of {name}, {len(index)} times from {format_time(index, 0)}"
        got = f"{counted(len(y_std), 'value')} with another"
        raise refusal("y_std", must, got, f"Use y_std.reindex({name}.index).")
    if not is_real(y_std.dtype):
        remedy = "Convert it with pd.to_numeric(y_std)."
        raise refusal("y_std", "be numeric", f"dtype {y_std.dtype}", remedy, TypeError)
    stds = np.where(np.isnan(values), 0.0, y_std.to_numpy(dtype=np.float64, na_value=np.nan))
    if (first := first_true(~((stds >= 0.0) & (stds <= LARGEST)))) is not None:
        must = f"be from 0 to {LARGEST:g} where {name} is observed"
        remedy = f"Give 0 for an exact value, or make {name} missing there."
        raise refusal("y_std", must, f"{stds[first]} at {format_time(index, first)}", remedy)
    return stds


def is_real(dtype: Any) -> bool:
    """Whether values of a type are numbers or truth values, and not complex."""
    types = pd.api.types
    return types.is_numeric_dtype(dtype) and not types.is_complex_dtype(dtype)


def native(data: _Data) -> _Data:
    """Times of Arrow as those of pandas, decimals as floats; other data as they are."""
    if (index := native_times(data.index)) is not data.index:
        data = data.set_axis(index)
    if isinstance(data, pd.Series):
        return data.astype(np.float64) if _is_decimal(data) else data
    changed: dict[Any, Any] = {}
    for at, (_, column) in enumerate(data.items()):
        if _is_decimal(column):
            changed[at] = column.astype(np.float64)
        elif isinstance(column.dtype, pd.ArrowDtype):
            times = native_times(pd.Index(column))
            if isinstance(times, pd.DatetimeIndex):
                changed[at] = pd.Series(times, data.index)
    if not changed:
        return data
    columns = [changed.get(at, data.iloc[:, at]) for at in range(data.shape[1])]
    frame: pd.DataFrame = pd.concat(columns, axis=1).set_axis(data.columns, axis=1)
    return frame


def _is_decimal(column: pd.Series[Any]) -> bool:
    """Whether a column holds decimal numbers, as databases give them."""
    if isinstance(column.dtype, pd.ArrowDtype):
        return column.dtype.type is Decimal
    return column.dtype == object and pd.api.types.infer_dtype(column) == "decimal"


def to_pandas(frame: object, name: str) -> pd.DataFrame:
    """A frame of pandas itself, or of an eager one that narwhals reads (polars, pyarrow)."""
    if isinstance(frame, pd.DataFrame):
        return native(frame)
    nw = narwhals(frame, name)
    try:
        table = nw.from_native(frame, eager_only=True)
    except TypeError as error:
        must = "be a DataFrame of pandas, polars, pyarrow or another library that narwhals reads"
        remedy = "Collect a lazy frame first; docs/how_to/panels.md shows how Dask forecasts one "
        remedy += "part after the other."
        raise refusal(name, must, kind(frame), remedy, TypeError) from error
    # pandas has no dates but those with a time of day
    dates = [
        nw.col(c).cast(nw.Datetime("us")) for c, dtype in table.schema.items() if dtype == nw.Date
    ]
    pandas: pd.DataFrame = table.with_columns(dates).to_pandas()
    return native(pandas)


def _by_time(data: object, name: str) -> pd.DataFrame:
    """A frame of another library with its one column of dates or times as the index."""
    must = "be a pandas Series"
    if not kind(data).startswith(_LIBRARIES):
        remedy = "Wrap it, for example pd.Series(values, index=times)."
        raise refusal(name, must, type(data).__name__, remedy, TypeError)
    if not hasattr(type(data), "columns"):
        remedy = 'Pass the frame with its times instead, such as df[["ds", "y"]], or take df["y"] '
        remedy += 'and make an index: pd.Series(df["y"].to_numpy(), '
        remedy += 'index=pd.DatetimeIndex(df["ds"].to_numpy())).'
        raise refusal(name, must, f"{kind(data)}, which has no index of times", remedy, TypeError)
    frame = to_pandas(data, name)
    times = _columns_of_times(frame)
    if len(times) != 1:
        got = f"{times or 'none'} in a {kind(data)} of columns {list(frame.columns)}"
        remedy = "Select it and the values, and convert text to dates first."
        raise refusal(name, "have one column of dates or times", got, remedy, TypeError)
    return frame.set_index(times[0])


def _columns_of_times(frame: pd.DataFrame) -> list[Any]:
    types = pd.api.types
    return [c for c, dtype in frame.dtypes.items() if types.is_datetime64_any_dtype(dtype)]


def _columns_of_text(frame: pd.DataFrame) -> list[Any]:
    return [c for c, dtype in frame.dtypes.items() if not is_real(dtype)]


def _chosen(y: object, name: str, time: Any, target: Any) -> pd.DataFrame:
    """The column of values of a frame, with that of times if it is named."""
    if target is None:
        remedy = "Or pass a frame of two columns, times and values."
        raise refusal("target", "name the column of values beside time", "None", remedy)
    if isinstance(y, pd.Series) or not hasattr(type(y), "columns"):
        must, remedy = "be a frame if its columns are named", "Leave out time and target."
        raise refusal(name, must, kind(y), remedy, TypeError)
    frame, columns = to_pandas(y, name), [target] if time is None else [time, target]
    lacks = [c for c in columns if not isinstance(c, Hashable) or c not in frame.columns]
    if lacks:
        got = f"no {lacks[0]!r} in {list(frame.columns)}"
        raise refusal("time and target", f"name columns of {name}", got, "Check the spelling.")
    if time is not None:
        return frame[columns].reset_index(drop=True)
    if isinstance(frame.index, pd.RangeIndex):  # its times may be a column
        others = frame.drop(columns=target)
        found = _columns_of_times(others) or _columns_of_text(others)
        columns = [*found, target] if len(found) == 1 else columns
    return frame[columns]


def _on_times(frame: pd.DataFrame, texts: list[Any], name: str) -> pd.DataFrame:
    """A frame of a column of times and one of numbers by the times, else as it is."""
    times = _columns_of_times(frame)
    if not times and len(texts) == 1:  # only in ISO 8601 is nothing of a date guessed
        text = frame[texts[0]].astype(str)
        parsed = pd.to_datetime(text, format="ISO8601", errors="coerce")
        if parsed.isna().any():
            is_foreign = foreign_months(text)
            if is_foreign.any():
                got = f"{text[is_foreign].iloc[0]!r} in column {texts[0]!r}"
                must = "have dates with months in English or as numbers"
                raise refusal("y", must, got, f"{AS_NUMBERS}, and convert them, pd.to_datetime.")
            got = f"{text[parsed.isna()].iloc[0]!r} in column {texts[0]!r}"
            remedy = f"Convert it, pd.to_datetime(frame[{texts[0]!r}], dayfirst=True) if the day "
            raise refusal("y", "have dates with the year first", got, f"{remedy}comes first.")
        frame, times = frame.assign(**{str(texts[0]): parsed}), [str(texts[0])]
    for column, dtype in frame.dtypes.items():
        is_whole = pd.api.types.is_integer_dtype(dtype)
        if not times and is_whole and (unit := epoch_unit(pd.Index(frame[column]))):
            got = f"{frame[column].tolist()[0]} in column {column!r}, in {unit} since 1970"
            code = f'{name}[{column!r}] = pd.to_datetime({name}[{column!r}], unit="{unit}")'
            raise refusal(name, "have dates as times", got, f"Convert it, {code}.", code="epochs")
    if len(times) != 1:
        return frame
    column = frame[times[0]]
    if column.is_unique and not column.is_monotonic_increasing:
        first = format_time(pd.DatetimeIndex(column), 0)
        got = f"{first} first in column {times[0]!r}, which is not the earliest"
        remedy = f"Sort it with {name}.sort_values({times[0]!r})."
        raise refusal(name, "be in ascending order of time", got, remedy, code="order")
    return frame.set_index(times[0])


def _line_of_wide(frame: pd.DataFrame, name: str) -> str:
    """The line of pandas for a frame whose columns are months or dates, as a sentence, or ""."""
    names = frame.columns.astype(str)
    months = [c for c in frame.columns if str(c)[:3].lower() in MONTHS]
    if len(months) == len(MONTHS):
        years = [c for c in frame.columns if c not in months and is_real(frame[c].dtype)]
        at = f".set_index({years[0]!r})" if years else ""
        form = "%Y %b" if str(months[0])[3:] == "" else "%Y %B"
        return (
            f"Its columns are months: values = {name}{at}[{list(months)}].stack(); values.index = "
            f"pd.to_datetime([f'{{year}} {{month}}' for year, month in values.index], "
            f"format='{form}')."
        )
    dates = pd.to_datetime(names, format="ISO8601", errors="coerce")
    if np.sum(dates.notna()) > 2:
        ids = [str(c) for c, date in zip(frame.columns, dates, strict=True) if pd.isna(date)]
        return (
            f"Its columns are dates: long = {name}.melt({ids}, var_name='ds', value_name='y'); "
            "long['ds'] = pd.to_datetime(long['ds']); forecast_panel takes it."
        )
    return ""


def narwhals(frame: object, name: str) -> Any:
    """The library narwhals, or an error that says what needs it."""
    try:
        import narwhals as nw
    except ImportError as error:
        remedy = "Other dataframes need narwhals: install forecast_unc[dataframes]."
        raise refusal(name, "be a pandas DataFrame", kind(frame), remedy, TypeError) from error
    return nw


def kind(frame: object) -> str:
    """The library and the type of an object, such as polars.DataFrame."""
    found = type(frame)
    return f"{found.__module__.partition('.')[0]}.{found.__name__}"
