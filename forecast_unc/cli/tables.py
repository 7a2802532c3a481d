"""Series, panels, regressors and holidays from CSV, Parquet and pipes; errors name the line."""

from __future__ import annotations

import csv
import importlib
import re
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, fields
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from forecast_unc._checks import refusal
from forecast_unc._typing import Array
from forecast_unc.series.times import (
    MissingTimesError,
    format_time,
    future_index,
    on_grid,
    regular_index,
)

STANDARD = Path("-")  # standard input or output
_NAMES_OF_CSV = ("", ".csv", ".txt")
_COMPRESSED = (".gz", ".bz2", ".xz", ".zip")  # CSV, by pandas
_TAB, _SPACES = "\\t", "\\s+"  # separators, as they are typed
_PARTS = ("year", "month", "day", "hour", "minute", "second")
_JOINED = "ds"  # name of times that are made of several columns


@dataclass(frozen=True)
class Layout:
    """Which columns of a file hold what, and how CSV is written; called as the options are."""

    time: str = "ds"  # or several columns, with commas between them
    target: str = "y"
    exog: Sequence[str] = ()
    id: str | None = None
    freq: str | None = None  # of the times, where rows may be missing
    sep: str = ","
    decimal: str = "."
    comment: str | None = None
    missing: Sequence[str] = ()  # beside an empty field and pandas' own

    @classmethod
    def of(cls, options: Any) -> Layout:
        """What the options say."""
        given = {field.name: vars(options)[field.name] for field in fields(cls)}
        return cls(**{name: value for name, value in given.items() if value is not None})

    @property
    def time_column(self) -> str:
        """Name of the times in a result."""
        return _JOINED if "," in self.time else self.time


@dataclass(frozen=True, eq=False)
class _Table:
    """The columns of a file, with what errors say of it."""

    frame: pd.DataFrame  # rows numbered from 0
    layout: Layout
    name: str
    source: Path | bytes  # the file, or what standard input or a pipe held
    is_csv: bool

    def column(self, option: str, name: str) -> pd.Series[Any]:
        """A column that an option names, or an error that lists those there are."""
        if name in self.frame:
            return self.frame[name]
        names = ", ".join(map(repr, self.frame.columns))
        hint = _hint(self.frame, self.layout) if self.is_csv else ""
        must = f"name a column of {self.name}"
        raise refusal(option, must, repr(name), f"The file has {names}. {hint}".rstrip())

    def numbers(self, option: str, name: str) -> Array:
        """Values of a column that an option names, (n,), NaN where missing; or an error."""
        column, missing = self.column(option, name), self.layout.missing
        values = pd.to_numeric(column, errors="coerce")
        text = column.astype(str).str.strip()
        gone = column.isna() | text.isin(missing)
        numbers = pd.to_numeric(pd.Series(missing, dtype=object), errors="coerce").dropna()
        gone |= values.isin(numbers.astype(float))
        wrong = values.isna() & ~gone
        if wrong.any() or pd.api.types.is_bool_dtype(column.dtype):
            row = int(wrong.to_numpy().argmax())
            got = f"{column.tolist()[row]!r} in column {name!r} {self.place(row)}"
            remedy = f"Correct the value, or pass --missing {text[row]} if it stands for none."
            raise refusal(option, "hold numbers", got, remedy)
        given: Array = values.to_numpy(dtype=np.float64, na_value=np.nan)
        return np.where(gone, np.nan, given)

    def regressors(self) -> dict[str, Array]:
        """The columns of --exog."""
        return {name: self.numbers("--exog", name) for name in self.layout.exog}

    def times(self) -> pd.Index[Any]:
        """The times of all rows, in any order: dates, periods or whole numbers; or an error."""
        time = self.layout.time
        if time in self.frame or "," not in time:
            return _from_one(self, self.column("--time", time))
        names = [name.strip() for name in time.split(",")]
        columns = pd.concat([self.column("--time", name) for name in names], axis=1)
        if all(pd.api.types.is_numeric_dtype(dtype) for dtype in columns.dtypes):
            return _from_parts(self, columns)
        text = columns.astype(str).agg(" ".join, axis=1)
        return _from_one(self, text.rename(_JOINED))

    def rows(self) -> pd.DataFrame:
        """The id, the time and the regressors of all rows of a panel."""
        id_col = self.layout.id
        assert id_col is not None
        ids = self.column("--id", id_col)
        if ids.isna().any():
            must = "name the series of each row"
            got = f"none in column {id_col!r} {self.place(int(ids.isna().argmax()))}"
            raise refusal("--id", must, got, "Fill it in, or drop the row.")
        columns = {id_col: ids.array, self.layout.time_column: self.times().array}
        return pd.DataFrame({**columns, **self.regressors()})

    def place(self, row: int) -> str:
        """Where a row stands: the line of a CSV file, where blank ones and comments count."""
        if not self.is_csv:
            return f"in row {row + 1}"
        lines = pd.read_csv(
            _opened(self.source),
            sep="\x01",
            names=["text"],
            quoting=csv.QUOTE_NONE,
            dtype=str,
            skip_blank_lines=False,
            keep_default_na=False,
        )["text"].str.strip()
        skipped = lines == ""
        if self.layout.comment is not None:
            skipped |= lines.str.startswith(self.layout.comment)
        return f"on line {int(lines.index[~skipped][row + 1]) + 1}"


def read_series(path: Path, layout: Layout) -> tuple[pd.Series[float], pd.DataFrame | None]:
    """One series on a regular index, NaN in rows that --freq adds, and its regressors."""
    table = _read("data", path, layout)
    times, name = table.times(), f"column {layout.time!r}"
    values = pd.Series(table.numbers("--target", layout.target), times)
    frame = pd.DataFrame(table.regressors()).set_axis(times) if layout.exog else None
    index = _regular(times, name) if layout.freq is None else on_grid(times, layout.freq, name)
    y = values.reindex(index).rename(layout.target)
    return y, None if frame is None else frame.reindex(index)


def read_ahead(path: Path, layout: Layout, index: pd.Index[Any], steps: int) -> pd.DataFrame:
    """The regressors of the steps after a series, from a file that may hold other times too."""
    table = _read("--exog-future", path, layout)
    times, ahead = table.times(), future_index(index, steps)
    if isinstance(times, pd.DatetimeIndex) and isinstance(ahead, pd.DatetimeIndex):
        times = times.as_unit(ahead.unit)
    absent = ~ahead.isin(times)
    if absent.any() or times.has_duplicates:
        got = f"none at {format_time(ahead, int(absent.argmax()))}"
        if times.has_duplicates:
            got = f"several at {format_time(times, int(times.duplicated().argmax()))}"
        must = f"have one row for each of the {steps} steps after {format_time(index, -1)}"
        raise refusal("--exog-future", must, got, "Write the times as in data.")
    return pd.DataFrame(table.regressors(), index=times).reindex(ahead)


def read_panel(path: Path, layout: Layout) -> pd.DataFrame:
    """A long frame: id, time, regressors, target; rows that --freq adds hold NaN."""
    table = _read("data", path, layout)
    frame, time = table.rows(), layout.time_column
    frame[layout.target] = table.numbers("--target", layout.target)
    if layout.freq is None:
        return frame
    parts = []
    name: Any
    for name, rows in frame.groupby(layout.id, sort=False):
        grid = on_grid(pd.Index(rows[time]), layout.freq, f"column {layout.time!r} of {name!r}")
        whole = rows.set_index(time).reindex(grid).rename_axis(time).reset_index()
        whole[layout.id] = name
        parts.append(whole[frame.columns])
    return pd.concat(parts, ignore_index=True)


def read_panel_ahead(path: Path, layout: Layout, panel: pd.DataFrame, steps: int) -> pd.DataFrame:
    """The regressors of the steps after each series of a panel, long; other times are left out."""
    frame, time = _read("--exog-future", path, layout).rows(), layout.time_column
    last = panel.groupby(layout.id, sort=False)[time].last()
    later = frame[frame[time] > frame[layout.id].map(last)]
    return later.groupby(layout.id, sort=False).head(steps)


def read_holidays(path: Path) -> pd.DatetimeIndex:
    """The dates of a file, one a line; blank lines and those that begin with # are skipped."""
    dates = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        try:
            dates.append(pd.to_datetime(text, format="%Y-%m-%d"))
        except ValueError as error:
            must = "hold one date a line"
            got = f"{text!r} on line {number} of {path}"
            raise refusal("--holidays", must, got, "Write dates as 2024-12-25.") from error
    if not dates:
        raise refusal("--holidays", "hold dates", f"none in {path}", "Write one a line.")
    return pd.DatetimeIndex(dates)


def is_parquet(path: Path) -> bool:
    """Whether the name of a file says that it is Parquet."""
    return path.suffix.lower() in (".parquet", ".pq")


def check_table(option: str, path: Path) -> None:
    """Raise unless the name of a file is that of a table that can be written."""
    if is_parquet(path):
        _check_pyarrow(option, str(path))
        return
    suffix = path.suffix.lower()
    plain = Path(path.stem).suffix.lower() if suffix in _COMPRESSED else suffix
    if plain not in _NAMES_OF_CSV:
        must = "end in .csv, .csv.gz, .txt or .parquet, or in no suffix"
        raise refusal(option, must, path.name, "Use .csv, which spreadsheets open.")


def _check_pyarrow(option: str, name: str) -> None:
    try:
        importlib.import_module("pyarrow")  # which has no types
    except ImportError as error:
        must = "be CSV where pyarrow is missing"
        got = f"{name}, which is Parquet"
        raise refusal(option, must, got, "Install forecast_unc[dataframes].") from error


def _read(option: str, path: Path, layout: Layout) -> _Table:
    """The table of a file, which errors call by the option that names it."""
    name = str(path)
    source: Path | bytes = path
    if path == STANDARD:
        name, source = "standard input", sys.stdin.buffer.read()
    elif not path.is_file():  # such as <(...) of a shell, which can be read once
        source = path.read_bytes()
    is_csv = not (_begins_with(source, b"PAR1") or is_parquet(path))
    read = _from_csv if is_csv else _from_parquet
    frame = read(option, source, name, layout)
    if frame.empty:
        raise refusal(option, "hold rows", f"none in {name}", "Write one row for each time.")
    return _Table(frame, layout, name, source, is_csv)


def _from_parquet(option: str, source: Path | bytes, name: str, layout: Layout) -> pd.DataFrame:
    _check_pyarrow(option, name)
    try:
        frame = pd.read_parquet(_opened(source), engine="pyarrow")
    except (ValueError, OSError, NotImplementedError) as error:
        raise refusal(option, "be a Parquet file", f"{name}: {error}", "Write it anew.") from error
    named = [level is not None for level in frame.index.names]
    return frame.reset_index(drop=not all(named))


def _from_csv(option: str, source: Path | bytes, name: str, layout: Layout) -> pd.DataFrame:
    for character in ("sep", "decimal", "comment"):
        value = vars(layout)[character]
        longer = (None, _TAB, _SPACES) if character == "sep" else (None,)
        if value not in longer and len(value) != 1:
            also = ", \\t or \\s+" if character == "sep" else ""
            must = f"be one character{also}"
            raise refusal(f"--{character}", must, repr(value), "Quote it for the shell.")
    try:
        frame = pd.read_csv(
            _opened(source),
            sep="\t" if layout.sep == _TAB else layout.sep,
            decimal=layout.decimal,
            comment=layout.comment,
            skipinitialspace=True,
            low_memory=False,  # types of whole columns
        )
    except (ValueError, EOFError) as error:
        remedy = "Look at its first lines."
        if layout.comment is None and _begins_with(source, b"#"):
            remedy = "Skip its comments with --comment '#'."
        elif source == b"":
            remedy = "Look at what should have come through the pipe."
        raise refusal(option, "be a CSV file with a header", f"{name}: {error}", remedy) from error
    if not isinstance(frame.index, pd.RangeIndex):
        must = "have as many values in each row as names in the header"
        raise refusal(option, must, f"more in {name}", _hint(frame, layout) or "Name every column.")
    return frame


def _hint(frame: pd.DataFrame, layout: Layout) -> str:
    """What to do where the names of columns look as if they were not told apart."""
    names = "".join(map(str, frame.columns))
    if names.startswith("#"):
        return "Skip its comments with --comment '#'."
    if layout.sep == "," and ";" in names:
        return "If semicolons separate the columns, pass --sep ';', and --decimal , for 1,5."
    if layout.sep == "," and "\t" in names:
        return "If tabs separate the columns, pass --sep '\\t'."
    return ""


def _begins_with(source: Path | bytes, start: bytes) -> bool:
    if isinstance(source, bytes):
        return source.startswith(start)
    with source.open("rb") as file:
        return file.read(len(start)) == start


def _opened(source: Path | bytes) -> Any:
    return BytesIO(source) if isinstance(source, bytes) else source


def _from_parts(table: _Table, columns: pd.DataFrame) -> pd.Index[Any]:
    """Times from numbers: the year, the month and so on in this order, or year and quarter."""
    names = list(columns.columns)
    quarterly = len(names) == 2 and bool(re.match(r"(?i)q(tr|uarter)?s?$", names[1]))
    if len(names) > len(_PARTS):
        must = f"name at most {len(_PARTS)} columns, {', '.join(_PARTS)}"
        raise refusal("--time", must, str(len(names)), "Leave some out.")
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
        got = f"{given} in columns {', '.join(map(repr, names))} {table.place(row)}"
        raise refusal("--time", f"hold {kind}", got, "Name the columns in the order of these.")
    times = pd.DatetimeIndex(dates, name=_JOINED)
    return times.to_period("Q") if quarterly else times


def _from_one(table: _Table, column: pd.Series[Any]) -> pd.Index[Any]:
    """Times from one column: dates with the year first, quarters, or whole numbers that count."""
    text, name = column.astype(str), str(column.name)

    def refused(must: str, got: str, remedy: str) -> Exception:
        return refusal("--time", must, f"{got} in column {name!r}", remedy)

    if pd.api.types.is_datetime64_any_dtype(column.dtype):
        return pd.DatetimeIndex(column)
    if isinstance(column.dtype, pd.PeriodDtype):
        return pd.PeriodIndex(column)
    if pd.api.types.is_integer_dtype(column.dtype):
        for form, pattern in (("%Y-%m-%d", r"\d{8}"), ("%Y-%m", r"\d{6}")):
            dates = pd.to_datetime(text, format=form.replace("-", ""), errors="coerce")
            if text.str.fullmatch(pattern).all() and dates.notna().all():
                must = "hold dates with dashes, or whole numbers that count"
                raise refused(must, text[0], f"Write {dates[0]:{form}}.")
        counts: pd.Index[Any] = pd.Index(column)
        return counts
    if text.str.fullmatch(r"\d{4}-?Q[1-4]").all():
        return pd.PeriodIndex(text, freq="Q", name=name)
    offsets = text.str.extract(r":\d\d\S*([+-]\d\d:?\d\d)$")[0].dropna().unique()
    if len(offsets) > 1:
        remedy = "Write all times in UTC, such as 2024-01-31T12:00Z."
        raise refused("keep to one offset from UTC", f"{offsets[0]} and {offsets[1]}", remedy)
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
    got = f"{column.tolist()[row]!r} in column {name!r} {table.place(row)}"
    raise refusal("--time", f"hold {rule}", got, "Write dates as 2024-01-31.")


def _regular(times: pd.Index[Any], name: str) -> pd.Index[Any]:
    """The times with their frequency, or an error in terms of the shell."""
    try:
        return regular_index(times, name)
    except MissingTimesError as error:
        raise ValueError(
            f"{error.problem}. Pass --freq {error.freq}: rows that are missing are then missing "
            "values, which are uncertain, not filled."
        ) from error
    except (TypeError, ValueError) as error:
        # What to do is said there in terms of pandas.
        problem, _, _ = str(error).partition(". ")
        raise ValueError(
            f"{problem}. Write one row for each time, in order and without a gap."
        ) from error
