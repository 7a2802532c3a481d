"""Tables of CSV, Parquet and pipes, read and written; errors name the line."""

from __future__ import annotations

import csv
import importlib
import re
import sys
import warnings
from contextlib import nullcontext
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import is_numeric_dtype

from forecast_unc._checks import first_true, refusal
from forecast_unc._files import whole_file
from forecast_unc._typing import Array
from forecast_unc.distributions.export import first_instants
from forecast_unc.errors import InvalidArgument
from forecast_unc.series.times import format_time, future_index, on_grid, regular_index

STANDARD = Path("-")  # standard input or output
_WORKBOOKS = (b"PK\x03\x04", b"\xd0\xcf\x11\xe0")  # how .xlsx and .xls start
_PARTS = ("year", "month", "day", "hour", "minute", "second")
_JOINED = "ds"  # name of times that are made of several columns
_GROUPED = r"[+-]?\d{{1,3}}({0}\d{{3}})+({1}\d*)?"  # 1,234.50, of two marks
_NUMBER = r"([^\d+-]*?)\s*[+-]?\d[\d.,'\s]*?\s*(\D*?)\.?"  # of any style, beside a unit
_MINUS = {0x2212: "-", 0x2013: "-"}  # a minus and an en dash of typesetting
_WITH_COMMA = r"[+-]?(\d{1,3}(\.\d{3})*|\d+),\d*"  # 1.234,50


class _Table:
    """The columns of a file, which errors call by the option that names it."""

    def __init__(self, option: str, path: Path, options: Any) -> None:
        self.options = options
        self.option = option
        self.name = str(path)
        self.source: Path | bytes = path
        if path == STANDARD:
            self.name, self.source = "standard input", sys.stdin.buffer.read()
        elif not path.is_file():  # such as <(...) of a shell, which can be read once
            self.source = path.read_bytes()
        if isinstance(self.source, bytes):
            self.start = self.source[:4]
        else:
            with path.open("rb") as file:
                self.start = file.read(4)
        if self.start in _WORKBOOKS and path.suffix.lower() != ".zip":
            got = f"{self.name}, an Excel workbook"
            raise refusal(option, "be a CSV file", got, "Save it as CSV UTF-8.")
        self.is_csv = self.start != b"PAR1" and not is_parquet(path)
        self.frame = self._from_csv(option) if self.is_csv else self._from_parquet(option)
        if self.frame.empty:
            got = f"none in {self.name}"
            raise refusal(option, "hold rows", got, "Write one row for each time.")

    def _opened(self) -> Any:
        return BytesIO(self.source) if isinstance(self.source, bytes) else self.source

    def _from_parquet(self, option: str) -> pd.DataFrame:
        _check_pyarrow(option, self.name)
        try:
            frame = pd.read_parquet(self._opened(), engine="pyarrow")
        except (ValueError, OSError, NotImplementedError) as error:
            got = f"{self.name}: {error}"
            raise refusal(option, "be a Parquet file", got, "Write it anew.") from error
        return frame.reset_index(drop=None in frame.index.names)

    def _from_csv(self, option: str) -> pd.DataFrame:
        sep = self.options.sep
        decimal = self.options.decimal
        comment = self.options.comment
        for name, value, longer, also in (
            ("--sep", sep, ("\\t", "\\s+"), ", \\t or \\s+"),
            ("--decimal", decimal, (), ""),
            ("--comment", comment, (None,), ""),
            ("--thousands", self.options.thousands, (None,), ""),
        ):
            if value not in longer and len(value) != 1:
                must = f"be one character{also}"
                raise refusal(name, must, repr(value), "Quote it for the shell.")
        if self.options.thousands == decimal:
            got, remedy = f"{decimal!r} for both", "Leave one out."
            if decimal == ".":  # by default
                got, remedy = "'.', the default of --decimal", "Give --decimal , as well."
            raise refusal("--thousands", "be another mark than --decimal", got, remedy)
        read: Any = partial(
            pd.read_csv,
            sep="\t" if sep == "\\t" else sep,
            decimal=decimal,
            comment=comment,
            skipinitialspace=True,
            low_memory=False,  # types of whole columns
        )
        self._read = read
        try:
            frame: pd.DataFrame = read(self._opened())
            if frame.isna().all(axis=1).any():  # such as ;; below the table of a spreadsheet
                lines = self._lines()
                self._read = partial(read, skiprows=lines.index[lines == ""])
                frame = self._read(self._opened())
        except (ValueError, EOFError) as error:
            remedy, got = "Look at its first lines.", f"{self.name}: {str(error).strip()}"
            if comment is None and self.start.startswith(b"#"):
                remedy = "Skip its comments with --comment '#'."
            elif isinstance(error, UnicodeDecodeError):
                got = f"{self.name}, not in UTF-8"
                remedy = "Save it as UTF-8, which is called CSV UTF-8 in Excel."
            elif not self.start:
                got = f"{self.name}, which is empty"
                remedy = "Look at the program that should have written it."
            raise refusal(option, "be a CSV file with a header", got, remedy) from error
        if not isinstance(frame.index, pd.RangeIndex):
            must = "have as many values in each row as names in the header"
            remedy = self._hint(frame) or "Name every column."
            raise refusal(option, must, f"more {self.place(0)}", remedy)
        frame = frame.rename(columns=str.strip)
        first = frame.columns.str.extract(r"(.*)\.\d+$", expand=False)
        if first.isin(frame.columns).any():  # y and y.1, as pandas calls the second y
            header = self._read(self._opened(), header=None, nrows=1, dtype=str).iloc[0].dropna()
            if header.duplicated().any():
                got = f"{header[header.duplicated()].iloc[0]!r} twice in {self.name}"
                raise refusal(option, "have distinct columns", got, "Rename one.")
        return frame

    def _text(self, name: str) -> pd.Series[Any]:
        """A column of a CSV file as it is written; empty cells alone are missing."""
        at, as_text = self.frame.columns.get_loc(name), {"dtype": str, "keep_default_na": False}
        text: pd.Series[Any] = self._read(self._opened(), usecols=[at], **as_text).iloc[:, 0]
        return text.mask(text == "")

    def _hint(self, frame: pd.DataFrame) -> str:
        """The remedy for names of columns that look as if a wrong character separated them."""
        names = "".join(map(str, frame.columns))
        if self.is_csv and names.startswith("#"):
            return "Skip its comments with --comment '#'."
        if self.is_csv and self.options.sep == ",":
            if ";" in names:
                return (
                    "If semicolons separate the columns, pass --sep ';', and --decimal , for 1,5."
                )
            if "\t" in names:
                return "If tabs separate the columns, pass --sep '\\t'."
        return ""

    def column(self, option: str, name: str) -> pd.Series[Any]:
        """A column that an option names, or an error that lists those there are."""
        if name in self.frame:
            return self.frame[name]
        remedy = f"The file has {', '.join(map(repr, self.frame.columns))}. "
        must = f"name a column of {self.name}"
        raise refusal(option, must, repr(name), (remedy + self._hint(self.frame)).rstrip())

    def numbers(self, option: str, name: str) -> Array:
        """Values (n,) of a column that an option names, NaN where missing; or an error."""
        column = self.column(option, name)
        missing = [word.translate(_MINUS) for word in self.options.missing]
        text, is_text = column.astype(str).str.strip(), not is_numeric_dtype(column.dtype)
        text = text.str.translate(_MINUS) if is_text else text
        values = pd.to_numeric(self._with_points(text) if is_text else column, errors="coerce")
        numbers = pd.to_numeric(pd.Series(missing, dtype=object), errors="coerce").dropna()
        gone = column.isna() | text.isin(missing) | values.isin(numbers.astype(float))
        wrong = values.isna() & ~gone
        if wrong.any() or pd.api.types.is_bool_dtype(column.dtype):
            row = int(wrong.to_numpy().argmax())
            got = f"{column.tolist()[row]!r} in column {name!r} {self.place(row)}"
            remedy = f"Correct the value, or pass --missing {text[row]} if it stands for none."
            if beside := re.fullmatch(_NUMBER, str(text[row])):
                unit = beside[1] or beside[2]
                remedy = f"Remove the unit {unit}." if unit else "Correct the value."
            mark = "," if self.options.decimal == "." else "."
            if re.fullmatch(self._grouped(mark), str(text[row])):
                remedy = f"If {mark} separates thousands, pass --thousands {mark}"
            elif self.options.decimal == "." and re.fullmatch(self._grouped("."), str(text[row])):
                remedy = "If . separates thousands, pass --thousands . --decimal ,"
            elif re.fullmatch(_WITH_COMMA, str(text[row])) and self.options.decimal == ".":
                remedy = "If the comma is the decimal mark, pass --decimal ,"
                remedy += " --thousands ." if "." in str(text[row]) else ""
            elif option == "--exog" and text[~gone].nunique() == 2:
                remedy = "Write the column as 0 and 1."
            raise refusal(option, "hold numbers", got, remedy)
        given: Array = values.to_numpy(dtype=np.float64, na_value=np.nan)
        if not is_text:
            self._warn_of_thousands(name, values[~gone])
        return np.where(gone, np.nan, given)

    def _warn_of_thousands(self, name: str, values: pd.Series[float]) -> None:
        """Warn of numbers that all look like 1.360 or 980, of which pandas makes 1.36 and 980."""
        marks = self.options.thousands, self.options.decimal
        if not self.is_csv or marks != (None, ".") or not values.round(3).equals(values):
            return
        text: Any = self._text(name)[values.index].str.strip()
        grouped = text.str.fullmatch(r"[+-]?[1-9]\d{0,2}\.\d{3}")
        if 0 < grouped.sum() < len(text) and text[~grouped].str.fullmatch(r"[+-]?\d{1,3}").all():
            row = int(grouped.idxmax())
            warnings.warn(
                f"column {name!r} holds {text[row]} {self.place(row)} and numbers of three digits "
                f"or fewer, as if points separated thousands; it is read as {values[row]:g}. Pass "
                "--thousands . --decimal , if they do.",
                stacklevel=2,
            )

    def _grouped(self, mark: str) -> str:
        """The pattern of a number with a mark between its thousands."""
        return _GROUPED.format(re.escape(mark), re.escape(self.options.decimal))

    def _with_points(self, text: pd.Series[str]) -> pd.Series[str]:
        """Numbers as text, with a point before decimals and no mark between thousands."""
        mark, decimal = self.options.thousands, self.options.decimal
        if mark is not None:
            grouped = text.str.fullmatch(self._grouped(mark), na=False)
            text = text.mask(grouped, text.str.replace(mark, "", regex=False))
        if decimal == "." or not self.is_csv:
            return text
        # of 1.720 with a decimal comma nobody knows whether it is 1720
        return text.str.translate({ord("."): "?", ord(decimal): "."})

    def regressors(self) -> dict[str, Array]:
        """The columns of --exog."""
        return {name: self.numbers("--exog", name) for name in self.options.exog}

    def times(self) -> pd.Index[Any]:
        """The times of all rows, in any order: dates, periods or whole numbers; or an error."""
        columns = [self.column("--time", name) for name in self.options.time]
        if len(columns) == 1:
            return _from_one(self, columns[0])
        if all(is_numeric_dtype(column.dtype) for column in columns):
            return _from_parts(self, columns)
        text = pd.concat(columns, axis=1).astype(str).agg(" ".join, axis=1)
        return _from_one(self, text.rename(_JOINED))

    def rows(self) -> pd.DataFrame:
        """The id, the time and the regressors of all rows of a panel."""
        id_col = self.options.id
        ids = self.column("--id", id_col)
        if self.is_csv:  # 007 is not 7
            ids = self._text(id_col)
        if ids.isna().any():
            got = f"none in column {id_col!r} {self.place(int(ids.isna().argmax()))}"
            must = "name the series of each row"
            raise refusal("--id", must, got, "Fill it in, or drop the row.")
        columns = {id_col: ids.array, time_column(self.options): self.times().array}
        return pd.DataFrame({**columns, **self.regressors()})

    def _lines(self) -> pd.Series[str]:
        """Lines of a CSV file, from 0; "" for lines of separators only."""
        marks = " \t" + (self.options.sep if len(self.options.sep) == 1 else "")
        lines: pd.Series[str] = pd.read_csv(
            self._opened(),
            sep="\x01",
            names=["text"],
            quoting=csv.QUOTE_NONE,
            dtype=str,
            skip_blank_lines=False,
            keep_default_na=False,
        )["text"].str.strip(marks)
        return lines

    def place(self, row: int) -> str:
        """Place of a row: the line of a CSV file, blank ones and comments counted."""
        of = "" if self.option == "data" else f" of {self.name}"
        if not self.is_csv:
            return f"in row {row + 1}{of}"
        lines = self._lines()
        skipped = lines == ""
        if self.options.comment is not None:
            skipped |= lines.str.startswith(self.options.comment)
        return f"on line {int(lines.index[~skipped][row + 1]) + 1}{of}"


def time_column(options: Any) -> str:
    """Name of the times in a result."""
    return _JOINED if len(options.time) > 1 else str(options.time[0])


def _named_times(options: Any) -> str:
    """The times in messages."""
    return f"column {','.join(options.time)!r}"


def read_series(options: Any) -> tuple[pd.Series[float], pd.DataFrame | None]:
    """One series on a regular index, NaN in rows that --freq adds, and its regressors."""
    table = _Table("data", options.data, options)
    times, name = table.times(), _named_times(options)
    values = pd.Series(table.numbers("--target", options.target), times)
    frame = pd.DataFrame(table.regressors()).set_axis(times) if options.exog else None
    index = _regular(times, name) if options.freq is None else on_grid(times, options.freq, name)
    y = values.reindex(index).rename(options.target)
    if frame is not None and (at := first_true(~index.isin(times))) is not None:
        got = f"no row for {format_time(index, at)}"
        remedy = "Add it, with the target left empty if it is not known."
        raise refusal("--exog", "have a value at each time of --freq", got, remedy)
    return y, None if frame is None else frame.reindex(index)


def read_ahead(options: Any, index: pd.Index[Any]) -> pd.DataFrame:
    """The regressors of the steps after a series, from a file that may hold other times too."""
    table = _Table("--exog-future", options.exog_future, options)
    times, ahead = table.times(), future_index(index, options.steps)
    if isinstance(times, pd.DatetimeIndex) and isinstance(ahead, pd.DatetimeIndex):
        times = times.as_unit(ahead.unit)
    absent = ~ahead.isin(times)
    if absent.any() or times.has_duplicates:
        got = f"none at {format_time(ahead, int(absent.argmax()))}"
        if times.has_duplicates:
            got = f"several at {format_time(times, int(times.duplicated().argmax()))}"
        must = f"have one row for each of the {options.steps} steps after {format_time(index, -1)}"
        remedy = "Write one row for each, with times as in data, or take fewer --steps."
        raise refusal("--exog-future", must, got, remedy)
    return pd.DataFrame(table.regressors(), index=times).reindex(ahead)


def read_panel(options: Any) -> pd.DataFrame:
    """A long frame: id, time, regressors, target; its times are on the grid of --freq."""
    table = _Table("data", options.data, options)
    frame, time = table.rows(), time_column(options)
    frame[options.target] = table.numbers("--target", options.target)
    if options.freq is not None:
        for name, times in frame.groupby(options.id, sort=False)[time]:
            on_grid(pd.Index(times), options.freq, f"{_named_times(options)} of {name!r}")
    return frame


def read_panel_ahead(options: Any, panel: pd.DataFrame) -> pd.DataFrame:
    """Regressors at the steps after each series of a panel, long, without other times."""
    frame = _Table("--exog-future", options.exog_future, options).rows()
    time = time_column(options)
    ids = frame[options.id]
    past_ids = panel[options.id]
    if is_numeric_dtype(ids.dtype) != is_numeric_dtype(past_ids.dtype):  # CSV beside Parquet
        frame[options.id] = ids.astype(str).map({str(name): name for name in past_ids.unique()})
    last = panel.groupby(options.id, sort=False)[time].last()
    later = frame[frame[time] > frame[options.id].map(last)]
    ahead: pd.DataFrame = later.groupby(options.id, sort=False).head(options.steps)
    return ahead


def read_holidays(path: Path) -> pd.DatetimeIndex:
    """The dates of a file, one a line; blank lines and those that begin with # are skipped."""
    dates = []
    for number, line in enumerate(path.read_text("utf-8-sig", "replace").splitlines(), start=1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        try:
            dates.append(pd.to_datetime(text, format="%Y-%m-%d"))
        except ValueError as error:
            got = f"{text!r} on line {number} of {path}"
            remedy = "Write dates as 2024-12-25."
            raise refusal("--holidays", "hold one date a line", got, remedy) from error
    if not dates:
        raise refusal("--holidays", "hold dates", f"none in {path}", "Write one a line.")
    return pd.DatetimeIndex(dates)


def is_parquet(path: Path) -> bool:
    """Whether the name of a file says that it is Parquet."""
    return path.suffix.lower() in (".parquet", ".pq")


def check_table(option: str, path: Path) -> None:
    """Raise unless the name of a file is that of a table that can be written."""
    compressed = path.suffix.lower() in (".gz", ".bz2", ".xz", ".zip")
    plain = path.with_suffix("") if compressed else path
    if is_parquet(path):
        _check_pyarrow(option, str(path))
    elif plain.suffix.lower() not in ("", ".csv", ".txt"):
        must = "end in .csv, .csv.gz, .txt or .parquet, or in no suffix"
        raise refusal(option, must, path.name, "Use .csv, which spreadsheets open.")


def _check_pyarrow(option: str, name: str) -> None:
    try:
        importlib.import_module("pyarrow")  # which has no types
    except ImportError as error:
        must = "be CSV where pyarrow is missing"
        got = f"{name}, which is Parquet"
        raise refusal(option, must, got, "Install forecast_unc[dataframes].") from error


def write_table(table: pd.DataFrame, path: Path) -> None:
    """Write a table with all digits: Parquet, or CSV to a file or, -, standard output."""
    index = table.index.name is not None
    place: Any = nullcontext(sys.stdout) if path == STANDARD else whole_file(path)
    with place as unfinished:
        if not is_parquet(path):
            table.to_csv(unfinished, index=index)
        else:  # which has no periods
            table = table.set_axis(first_instants(table.index))
            table.to_parquet(unfinished, engine="pyarrow", index=index)


def print_table(table: pd.DataFrame, figures: pd.DataFrame, width: pd.Series[float]) -> None:
    """Print CSV with figures rounded to three digits of the width of the interval of their row."""
    decimals = 2 - np.floor(np.log10(width.mask(width <= 0)))
    formats = [f"z.{max(d, 0):.0f}f" if -10 < d < 9 else ".12g" for d in decimals]
    rounded = table.astype(dict.fromkeys(figures.columns, object))
    for name, values in figures.items():
        pairs = zip(formats, values, values.isna(), strict=True)
        rounded[name] = [None if gone else format(value, form) for form, value, gone in pairs]
    print(rounded.to_csv(index=table.index.name is not None), end="")


def chance(p: float) -> str:
    """A probability with four digits; 0 and 1 are those that are so exactly."""
    shown = f"{p:.4f}" if 0 < p < 1 else f"{p:g}"
    return {"0.0000": "<0.0001", "1.0000": ">0.9999"}.get(shown, shown)


def _from_parts(table: _Table, columns: list[pd.Series[Any]]) -> pd.Index[Any]:
    """Times from numbers: the year, the month and so on in this order, or year and quarter."""
    names = [str(column.name) for column in columns]
    if len(names) > len(_PARTS):
        must = f"name at most {len(_PARTS)} columns, {', '.join(_PARTS)}"
        raise refusal("--time", must, str(len(names)), "Leave some out.")
    quarterly = len(names) == 2 and bool(re.match(r"(?i)q(tr|uarter)?s?$", names[1]))
    parts = pd.concat(columns, axis=1).set_axis(_PARTS[: len(names)], axis=1)
    wrong = (parts % 1 != 0).any(axis=1) | ~parts["year"].between(1000, 9999)  # NaN too
    whole = parts
    if quarterly:
        wrong |= ~parts["month"].between(1, 4)
        whole = parts.assign(month=3 * parts["month"] - 2)
    whole = whole.where(~wrong, 0).astype(int).assign(day=parts.get("day", 1))
    dates = pd.to_datetime(whole, errors="coerce")
    wrong |= dates.isna()
    if wrong.any():
        row = int(wrong.to_numpy().argmax())
        given = ", ".join(f"{value:g}" for value in parts.iloc[row])
        kind = "years and quarters" if quarterly else f"{', '.join(parts.columns)}, in this order"
        got = f"{given} in columns {', '.join(map(repr, names))} {table.place(row)}"
        raise refusal("--time", f"hold {kind}", got, "Name the columns in the order of these.")
    times = pd.DatetimeIndex(dates, name=_JOINED)
    return times.to_period("Q") if quarterly else times


def _from_one(table: _Table, column: pd.Series[Any]) -> pd.Index[Any]:
    """Times from one column: dates with the year first, quarters, or whole numbers that count."""
    text = column.astype(str)
    name = str(column.name)
    types = pd.api.types
    place = f"in column {name!r}"
    if types.is_datetime64_any_dtype(column.dtype):
        return pd.DatetimeIndex(column)
    if isinstance(column.dtype, pd.PeriodDtype):
        return pd.PeriodIndex(column)
    form: str | None = table.options.date_format
    if types.is_integer_dtype(column.dtype) and form is not None:
        # a number has lost the zero of a day such as 01012024
        text = text.str.zfill(len(pd.Timestamp("2000-01-01").strftime(form)))
    elif types.is_integer_dtype(column.dtype):
        for dashed, pattern in (("%Y-%m-%d", r"\d{8}"), ("%Y-%m", r"\d{6}")):
            dates = pd.to_datetime(text, format=dashed.replace("-", ""), errors="coerce")
            if text.str.fullmatch(pattern).all() and dates.notna().all():
                must = "hold dates with dashes, or whole numbers that count"
                plain_form = dashed.replace("-", "")
                remedy = f"Write {dates[0]:{dashed}}, or pass --date-format {plain_form}."
                raise refusal("--time", must, f"{text[0]} {place}", remedy)
        counts: pd.Index[Any] = pd.Index(column)
        return counts
    if text.str.fullmatch(r"\d{4}-?Q[1-4]").all():
        return pd.PeriodIndex(text, freq="Q", name=name)
    offsets = text.str.extract(r":\d\d\S*([+-]\d\d:?\d\d)$")[0].dropna().unique()
    if len(offsets) > 1:
        got = f"{offsets[0]} and {offsets[1]} {place}"
        remedy = "Write all times in UTC, such as 2024-01-31T12:00Z."
        raise refusal("--time", "keep to one offset from UTC", got, remedy)
    rule, wrong = "dates or whole numbers", text.str.match(r"\d{1,2}\D\d{1,2}\D\d")
    remedy = "Write dates as 2024-01-31."
    plain = text.str.fullmatch(r"\d{1,2}\D\d{1,2}\D\d{4}").all()
    if plain:  # of 31.12.2024 the first is the day, of 01/02 nobody knows
        parts = text.str.extract(r"(\d{1,2})\D(\d{1,2})\D\d").astype(int)
        days = (parts > 12).any()
        separators = text.str.extract(r"\d+(\D)\d+(\D)\d").iloc[0]
        order, other = (one.format(*separators) for one in ("%d{}%m{}%Y", "%m{}%d{}%Y"))
        remedy = f"Pass --date-format {order} or --date-format {other}."
        if days[0] != days[1]:
            table.options.day_first = bool(days[0])
        first = getattr(table.options, "day_first", None)  # as in data, of fewer dates ahead
        if not days.all() and first is not None:
            known = order if first else other
            remedy = f"Pass --date-format {known}, or leave it out."
            if form in (None, known):
                form, remedy = known, "Correct the date."
    elif form is not None and text.str.match(r"\d{4}\D").all():
        remedy = "Leave --date-format out."
    if form is not None:
        try:
            dates = pd.to_datetime(text, format=form, errors="coerce")
        except ValueError as error:
            got = f"{form}: {str(error).rstrip('.')}"
            raise refusal("--date-format", "be one of strptime", got, remedy) from error
        if dates.notna().all():
            return pd.DatetimeIndex(dates, name=name)
        rule, wrong = f"dates as {form}", dates.isna()
    elif wrong.any():
        rule = "dates of which the day and the month can be told apart, or whole numbers"
        if not plain:
            remedy = "Pass --date-format %d.%m.%Y, or as the dates are written."
    elif types.is_numeric_dtype(column.dtype):
        wrong = column % 1 != 0  # NaN too
    else:
        with warnings.catch_warnings(record=True) as guesses:
            warnings.simplefilter("always")
            dates = pd.to_datetime(column, errors="coerce")
        wrong = dates.isna() & column.notna()
        if not guesses and not wrong.any():  # where pandas warns, it guesses
            return pd.DatetimeIndex(dates, name=name)
    row = int(wrong.argmax())
    got = f"{column.tolist()[row]!r} {place} {table.place(row)}"
    raise refusal("--time", f"hold {rule}", got, remedy)


_EACH_TIME = "Write one row for each time, in order and without a gap."
# What to do about the times of a single series, by the code of an error.
_OF_ONE_SERIES = {
    "": _EACH_TIME,
    "no frequency": _EACH_TIME,
    "order": _EACH_TIME,
    "repeated": f"{_EACH_TIME} Of several series name the column that tells them apart with --id.",
    "too few times": "A fit takes two values at least; fewer than three need --freq, such as D, "
    "W-MON (weeks) or MS (months).",
}


def _regular(times: pd.Index[Any], name: str) -> pd.Index[Any]:
    """The times of a single series with their frequency, or an error."""
    try:
        return regular_index(times, name)
    except InvalidArgument as error:
        if error.code not in _OF_ONE_SERIES:
            raise
        raise error.but(remedy=_OF_ONE_SERIES[error.code], code="") from error
