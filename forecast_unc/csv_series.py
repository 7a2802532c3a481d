"""One series from a CSV file, with errors that name its lines."""

from __future__ import annotations

import csv
import warnings
from pathlib import Path
from typing import Any

import pandas as pd

from forecast_unc.series.times import regular_index


def read_series(path: Path, time: str, target: str) -> pd.Series[float]:
    """One series from a CSV file, indexed by its time column.

    Parameters
    ----------
    path : Path
        The file.
    time : str
        Name of the column of times: dates, quarters such as 2024Q1, or whole numbers that count.
    target : str
        Name of the column of values.

    Returns
    -------
    Series

    Raises
    ------
    ValueError
        If the file lacks a column, a value or a time cannot be read, or the times are not regular.
    """
    try:
        frame = pd.read_csv(path)
    except ValueError as error:
        raise ValueError(
            f"data must be a CSV file with a header; got {path}: {error}. Look at its first lines."
        ) from error
    for option, column in (("--time", time), ("--target", target)):
        if column not in frame:
            separated = any(";" in str(name) for name in frame.columns)
            remedy = ": separate the columns by commas, not by semicolons, and write 1.5, not 1,5"
            raise ValueError(
                f"{option} must name a column of {path}; got {column!r}. "
                f"The file has {', '.join(map(repr, frame.columns))}{remedy if separated else ''}."
            )
    if not isinstance(frame.index, pd.RangeIndex):
        raise ValueError(
            "data must have as many values in each row as names in the header; "
            f"got more in {path}. Name every column."
        )
    if frame.empty:
        raise ValueError(f"data must hold rows; got none in {path}. Write one row for each time.")
    values = frame[target]
    numbers = pd.to_numeric(values, errors="coerce")
    wrong = numbers.isna() & values.notna()
    if wrong.any() or pd.api.types.is_bool_dtype(values.dtype):
        row = int(wrong.argmax())
        raise ValueError(
            f"--target must hold numbers; got {values.tolist()[row]!r} in column {target!r} "
            f"on line {_line(path, row)}. Correct the value, or leave out the row."
        )
    index = _times(path, frame[time])
    try:
        index = regular_index(index, f"column {time!r}")
    except (TypeError, ValueError) as error:
        # What to do is said there in terms of pandas.
        problem, _, _ = str(error).partition(". ")
        raise ValueError(
            f"{problem}. Write one row for each time, in order and without a gap."
        ) from error
    return pd.Series(numbers.to_numpy(), index=index, name=target)


def _times(path: Path, column: pd.Series[Any]) -> pd.Index[Any]:
    """Times of a column: dates, quarters, or whole numbers that count."""
    text, name = column.astype(str), str(column.name)
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
        f"on line {_line(path, row)}. Write dates as 2024-01-31."
    )


def _line(path: Path, row: int) -> int:
    """Line of the file that holds a row of its frame; blank lines count, though skipped there."""
    lines = pd.read_csv(
        path,
        sep="\x01",
        names=["text"],
        quoting=csv.QUOTE_NONE,
        dtype=str,
        skip_blank_lines=False,
        keep_default_na=False,
    )["text"]
    return int(lines.index[lines.str.strip() != ""][row + 1]) + 1
