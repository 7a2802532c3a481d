"""Times from the columns of a table: dates, quarters, or whole numbers that count."""

from __future__ import annotations

import re
import warnings
from typing import Any

import pandas as pd

from forecast_unc.cli.tables import Table

_PARTS = ("year", "month", "day", "hour", "minute", "second")
JOINED = "ds"  # name of times that are made of several columns


def read_times(table: Table, time: str) -> pd.Index[Any]:
    """The times of all rows, in any order, or an error that names the first line that has none.

    Parameters
    ----------
    table : Table
        The file.
    time : str
        The column of times; or several, parted by commas: the year, the month and so on in this
        order, the year and the quarter, or texts that make a date together.

    Returns
    -------
    Index
        DatetimeIndex, PeriodIndex or whole numbers.

    Raises
    ------
    ValueError
        If a column is not there, or a time cannot be read.
    """
    if time in table.frame or "," not in time:
        return _from_one(table, table.column("--time", time))
    names = [name.strip() for name in time.split(",")]
    columns = pd.concat([table.column("--time", name) for name in names], axis=1)
    if all(pd.api.types.is_numeric_dtype(dtype) for dtype in columns.dtypes):
        return _from_parts(table, columns)
    text = columns.astype(str).agg(" ".join, axis=1)
    return _from_one(table, text.rename(JOINED))


def _from_parts(table: Table, columns: pd.DataFrame) -> pd.Index[Any]:
    """Times from their parts as numbers."""
    names = list(columns.columns)
    quarterly = len(names) == 2 and bool(re.match(r"(?i)q(tr|uarter)?s?$", names[1]))
    if len(names) > len(_PARTS):
        raise ValueError(
            f"--time must name at most {len(_PARTS)} columns, {', '.join(_PARTS)}; got "
            f"{len(names)}. Leave some out."
        )
    parts = columns.set_axis(_PARTS[: len(names)], axis=1)
    wrong = (parts % 1 != 0).any(axis=1) | ~parts["year"].between(1000, 9999)  # NaN too
    if quarterly:
        wrong |= ~parts["month"].between(1, 4)
        parts["month"] = 3 * parts["month"] - 2
    whole = parts.where(~wrong, 0).astype(int).assign(day=parts.get("day", 1))
    dates = pd.to_datetime(whole, errors="coerce")
    wrong |= dates.isna()
    if wrong.any():
        row = int(wrong.to_numpy().argmax())
        given = ", ".join(f"{value:g}" for value in columns.iloc[row])
        kind = "years and quarters" if quarterly else f"{', '.join(parts.columns)}, in this order"
        raise ValueError(
            f"--time must hold {kind}; got {given} in columns {', '.join(map(repr, names))} "
            f"{table.place(row)}. Name the columns in the order of these."
        )
    times = pd.DatetimeIndex(dates, name=JOINED)
    return times.to_period("Q") if quarterly else times


def _from_one(table: Table, column: pd.Series[Any]) -> pd.Index[Any]:
    """Times from one column."""
    text, name = column.astype(str), str(column.name)
    if pd.api.types.is_datetime64_any_dtype(column.dtype):
        return pd.DatetimeIndex(column)
    if isinstance(column.dtype, pd.PeriodDtype):
        return pd.PeriodIndex(column)
    if pd.api.types.is_integer_dtype(column.dtype):
        for form, pattern in (("%Y-%m-%d", r"\d{8}"), ("%Y-%m", r"\d{6}")):
            dates = pd.to_datetime(text, format=form.replace("-", ""), errors="coerce")
            if text.str.fullmatch(pattern).all() and dates.notna().all():
                raise ValueError(
                    "--time must hold dates with dashes, or whole numbers that count; "
                    f"got {text[0]} in column {name!r}. Write {dates[0]:{form}}."
                )
        counts: pd.Index[Any] = pd.Index(column)
        return counts
    if text.str.fullmatch(r"\d{4}-?Q[1-4]").all():
        return pd.PeriodIndex(text, freq="Q", name=name)
    offsets = text.str.extract(r":\d\d\S*([+-]\d\d:?\d\d)$")[0].dropna().unique()
    if len(offsets) > 1:
        raise ValueError(
            f"--time must keep to one offset from UTC; got {offsets[0]} and {offsets[1]} in column "
            f"{name!r}. Write all times in UTC, such as 2024-01-31T12:00Z."
        )
    rule, wrong = "dates or whole numbers", text.str.match(r"\d{1,2}\D\d{1,2}\D\d")
    if wrong.any():  # of 01/02/2024 nobody knows which is the month
        rule = "dates with the year first, or whole numbers"
    elif pd.api.types.is_numeric_dtype(column.dtype):
        wrong = column % 1 != 0  # NaN too
    else:
        with warnings.catch_warnings(record=True) as guesses:
            warnings.simplefilter("always")
            dates = pd.to_datetime(column, errors="coerce")
        wrong = dates.isna() & column.notna()
        if not guesses and not wrong.any():  # where pandas warns, it guesses
            return pd.DatetimeIndex(dates, name=name)
    row = int(wrong.argmax())
    raise ValueError(
        f"--time must hold {rule}; got {column.tolist()[row]!r} in column {name!r} "
        f"{table.place(row)}. Write dates as 2024-01-31."
    )
