"""Tables of CSV, Parquet and pipes, read and written; errors name the line."""

from __future__ import annotations

import csv
import importlib
import re
import sys
from collections.abc import Mapping
from contextlib import nullcontext
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import (
    is_float_dtype,
    is_integer_dtype,
    is_numeric_dtype,
)

from forecast_unc._checks import first_true, refusal
from forecast_unc._files import whole_file
from forecast_unc._typing import Array
from forecast_unc.cli.dates import (
    JOINED,
    converted,
    from_one,
    from_parts,
    part_of_date,
    with_hours,
)
from forecast_unc.cli.layout import (
    layout,
    time_columns,
    value_columns,
)
from forecast_unc.cli.mending import OR_POINTS, FileError, advised
from forecast_unc.cli.messages import AS_DEKADS
from forecast_unc.cli.numbers import numbers
from forecast_unc.cli.sources import STANDARD, as_text, blanked, read_bytes, unpacked
from forecast_unc.cli.wide import Wide, made_long, wide_columns
from forecast_unc.distributions.export import first_instants
from forecast_unc.errors import InvalidArgument
from forecast_unc.series.times import (
    AT_CLOCK_CHANGE,
    DaysOfMonthsError,
    UnevenTimesError,
    format_time,
    future_index,
    on_grid,
    regular_index,
)
from forecast_unc.series.values import native

_LONGEST_CELL = 500  # characters


class _Table:
    """The columns of a file, which errors call by the option that names it."""

    def __init__(self, option: str, path: Path, options: Any) -> None:
        self.options = options
        self.option = option
        self.name = "standard input" if path == STANDARD else str(path)
        contents = vars(options).setdefault("contents", {})  # what is read again, by an option
        content = contents.get(option)
        if content is None:
            content = contents[option] = unpacked(option, self.name, read_bytes(path))
        self.source: bytes = content
        self.rows: Any = None  # of the file, of each row of the frame; None: all
        self.is_csv = not content.startswith(b"PAR1") and not is_parquet(path)
        self.frame = self._from_csv(option) if self.is_csv else self._from_parquet(option)
        if self.frame.empty:
            got = f"none in {self.name}"
            raise refusal(option, "hold rows", got, "Write one row for each time.")
        if options.wide:
            self._make_long()
        if options.drop:
            self._drop()

    def _opened(self) -> BytesIO:
        return BytesIO(self.source)

    def _from_parquet(self, option: str) -> pd.DataFrame:
        _check_pyarrow(option, self.name)
        try:
            frame = pd.read_parquet(self._opened(), engine="pyarrow")
        except (ValueError, OSError, NotImplementedError) as error:
            got = f"{self.name}: {error}"
            raise refusal(option, "be a Parquet file", got, "Write it anew.") from error
        return native(frame.reset_index(drop=None in frame.index.names))

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
        start = self.source[:1]
        self.source = as_text(option, self.name, self.source, self.options.encoding)
        self.source = blanked(self.source, self.options)
        read: Any = partial(
            pd.read_csv,
            sep="\t" if sep == "\\t" else sep,
            decimal=decimal,
            comment=comment,
            skipinitialspace=True,
            low_memory=False,  # types of whole columns
        )
        if self.options.names is not None:
            read = partial(read, names=self.options.names.split(","), header=None)
        self._read = read
        try:
            frame: pd.DataFrame = read(self._opened())
            if not _is_numbered(frame) and frame.iloc[:, -1].isna().all():
                self._read = partial(read, index_col=False)  # rows that end in a separator
                frame = self._read(self._opened())
            if frame.isna().all(axis=1).any():  # such as ;; below the table of a spreadsheet
                lines = self._lines()
                self._read = partial(self._read, skiprows=lines.index[lines == ""])
                frame = self._read(self._opened())
        except (ValueError, EOFError) as error:
            remedy, got = "Look at its first lines.", f"{self.name}: {str(error).strip()}"
            must = "be a CSV file with a header"
            if comment is None and start == b"#":
                raise FileError(
                    option, must, got, "Skip its comments with {}.", {"comment": "#"}
                ) from error
            if not start:
                got = f"{self.name}, which is empty"
                remedy = "Look at the program that should have written it."
            elif found := self._layout():
                raise FileError(option, must, got, "Pass {}.", found) from error
            raise refusal(option, must, got, remedy) from error
        if not _is_numbered(frame):
            must = "have as many values in each row as names in the header"
            got, found = f"more {self.place(0)}", self._layout()
            one_more = frame.index.nlevels == 1 and frame.index.is_unique
            if not found.keys() - {"skip_end"} and one_more and is_integer_dtype(frame.index.dtype):
                lines = self._lines()  # numbers of rows without a name, as R writes them
                header = int(lines.index[lines != ""][0])
                found = {"skip": header + 1, "names": ",".join(["row", *map(str, frame.columns)])}
            if found:
                raise FileError(option, must, got, self._advice(found), found)
            raise refusal(option, must, got, "Name every column.")
        frame = frame.rename(columns=lambda name: str(name).strip())
        first = frame.columns.str.extract(r"(.*)\.\d+$", expand=False)
        if first.isin(frame.columns).any():  # y and y.1, as pandas calls the second y
            header = self._read(self._opened(), header=None, nrows=1, dtype=str).iloc[0].dropna()
            if header.duplicated().any():
                got = f"{header[header.duplicated()].iloc[0]!r} twice in {self.name}"
                if "skip" in (found := self._layout()):
                    raise FileError(option, "have distinct columns", got, "Pass {}.", found)
                raise refusal(option, "have distinct columns", got, "Rename one.")
        return frame

    def _layout(self) -> dict[str, Any]:
        """Options by which the table of the file is found; {} if none are needed."""
        if not self.is_csv or self.options.wide or self.options.names is not None:
            return {}
        if self.options.comment is None and self.source.lstrip().startswith(b"#"):
            return {"comment": "#"}
        found = layout(self.source, self.options.sep, self.options.comment)
        return {
            k: v
            for k, v in found.items()
            if k not in ("skip", "skip_end") or v != vars(self.options)[k]
        }

    def _advice(self, found: Mapping[str, Any]) -> str:
        """Advice on the options of a layout, with {} for them."""
        if "comment" in found:
            return "Skip its comments with {}."
        if found.get("sep") == ";":
            return f"If semicolons separate the columns, pass {{}}{OR_POINTS}."
        return "If tabs separate the columns, pass {}." if found.get("sep") == "\\t" else "Pass {}."

    def written(self, name: str) -> pd.Series[Any]:
        """A column of a CSV file as it is written there, 007 as 007; empty cells are missing."""
        if self.options.wide:
            return self.frame[name].astype(object)
        at = [self.frame.columns.get_loc(name)]
        text: pd.Series[Any] = self._read_text(usecols=at).iloc[:, 0]
        text = text if self.rows is None else text.take(self.rows).reset_index(drop=True)
        return text.mask(text == "")

    def _read_text(self, **more: Any) -> pd.DataFrame:
        """The CSV file read as text; empty cells are empty text."""
        frame: pd.DataFrame = self._read(self._opened(), dtype=str, keep_default_na=False, **more)
        return frame

    def _make_long(self) -> None:
        """Take each value of a wide table as a row."""
        frame = self.frame
        if self.is_csv:
            frame = self._read_text().rename(columns=lambda name: str(name).strip())
        kind, columns = wide_columns(frame)
        others = [name for name in frame.columns if name not in columns]
        if kind == "":  # each column of numbers is a series
            named = [*self.options.time, *filter(None, [self.options.id])]
            columns = value_columns(self.frame, named)
            others = [name for name in self.options.time if name in frame]
            if not others:
                self.column("--time", self.options.time[0])
        self.frame, self.rows = made_long(Wide(frame, kind, columns, others), self.options)

    def _drop(self) -> None:
        """Leave out the rows whose time is one of --drop; columns of numbers become numbers."""
        text = self.column("--time", self.options.time[0])
        if self.is_csv and not self.options.wide:
            text = self.written(self.options.time[0])
        kept = np.flatnonzero(~text.fillna("").astype(str).str.strip().isin(self.options.drop))
        self.rows = kept if self.rows is None else self.rows[kept]
        self.frame = self.frame.take(kept).reset_index(drop=True)
        for name in self.frame.columns if self.is_csv else ():
            self.frame[name] = _numbers_if_all_are(self.frame[name])

    def column(self, option: str, name: str) -> pd.Series[Any]:
        """A column that an option names, or an error that lists those there are."""
        if name in self.frame:
            return self.frame[name]
        columns = [str(each) for each in self.frame.columns]
        listed = f"The file has {', '.join(map(repr, columns))}."
        must, also = f"name a column of {self.name}", ""
        found = self._layout()
        advice = self._advice(found)
        if not found:
            found, also = self._other_columns(option, name)
            advice = "Pass {}."
        if found:
            raise FileError(option, must, repr(name), f"{listed} {advice}", found, also)
        raise refusal(option, must, repr(name), listed)

    def _other_columns(self, option: str, name: str) -> tuple[dict[str, Any], str]:
        """Columns that an option may name instead, and what to say of others."""
        options = self.options
        same = [c for c in self.frame.columns if str(c).strip().lower() == name.strip().lower()]
        one = "time" if option == "--time" else option.removeprefix("--")
        if same and (one != "time" or len(options.time) == 1):
            return {one: (str(same[0]),) if one == "time" else str(same[0])}, ""
        if option not in ("--time", "--target") or self.option != "data":
            return {}, ""
        kind, _ = wide_columns(self.frame)
        if kind and not options.wide and options.time[0] not in self.frame:
            return {"wide": True}, ""
        times = time_columns(self.frame)
        if option == "--time":
            return ({"time": times}, "") if times and len(options.time) == 1 else ({}, "")
        values = value_columns(self.frame, [*options.time, *filter(None, [options.id])])
        also = ""
        if len(values) > 1:
            also = f"--target may also be {', '.join(map(repr, values[1:]))}; --wide --id series "
            also += "forecasts each."
        return ({"target": values[0]}, also) if values else ({}, "")

    def numbers(self, option: str, name: str) -> Array:
        """Values (n,) of a column that an option names, NaN where missing; or an error."""
        column = self.column(option, name)
        self._check_cells(option, column)
        return numbers(self, option, column)

    def _check_cells(self, option: str, column: pd.Series[Any]) -> None:
        """Raise for a cell of many characters, or of several values."""
        if is_numeric_dtype(column.dtype) or column.dtype.kind not in "OU":
            return
        lists = column.map(lambda cell: isinstance(cell, (list, tuple, dict, np.ndarray)))
        if lists.any():
            row = int(lists.to_numpy().argmax())
            got = (
                f"{len(column[row])} values in one cell of column {column.name!r} {self.place(row)}"
            )
            remedy = (
                f"Write one row for each time, as frame.explode({column.name!r}) of pandas does."
            )
            raise refusal(option, "hold one number in each row", got, remedy)
        lengths = column.map(lambda cell: len(cell) if isinstance(cell, str) else 0)
        long = lengths > _LONGEST_CELL
        if long.any():
            row = int(long.to_numpy().argmax())
            cell = column[row]
            got = f"{cell[:60]!r} and {len(cell) - 60:,} more characters {self.place(row)}"
            remedy = "Correct the cell; a quotation mark may be missing."
            raise refusal(option, "hold short cells", got, remedy)

    def regressors(self) -> dict[str, Array]:
        """The columns of --exog."""
        return {name: self.numbers("--exog", name) for name in self.options.exog}

    def times(self) -> pd.Index[Any]:
        """The times of all rows, in any order: dates, periods or whole numbers; or an error."""
        columns = [self.column("--time", name) for name in self.options.time]
        for column in columns:
            self._check_cells("--time", column)
        ids = self.frame.get(self.options.id)
        return converted(self._times(columns), self.options, ids)

    def _times(self, columns: list[pd.Series[Any]]) -> pd.Index[Any]:
        if len(columns) == 1:
            return from_one(self, columns[0])
        if all(is_numeric_dtype(column.dtype) for column in columns):
            return from_parts(self, columns)
        date, *others = columns
        clock = others[0]
        is_clock = re.match(r"(?i)time|zeit", str(clock.name)) or part_of_date(clock.name) == "hour"
        if is_integer_dtype(clock.dtype) and (is_clock or clock.max() <= 24) and len(others) == 1:
            return with_hours(self, from_one(self, date), others[0])
        text = pd.concat(columns, axis=1).astype(str).agg(" ".join, axis=1)
        return from_one(self, text.rename(JOINED))

    def id_column(self, times: pd.Index[Any]) -> str | None:
        """A column of text by which rows of the same time differ."""
        for name in self.frame.columns[:100]:
            column = self.frame[name]
            if name not in (*self.options.time, self.options.target) and not is_float_dtype(
                column.dtype
            ):
                pairs = pd.DataFrame({"id": column.array, "time": times.array})
                if not pairs.duplicated().any() and 2 * column.nunique() <= len(column):
                    return str(name)
        return None

    def rows_of_panel(self) -> pd.DataFrame:
        """The id, the time and the regressors of all rows of a panel."""
        id_col = self.options.id
        ids = self.column("--id", id_col)
        if self.is_csv:  # 007 is not 7
            ids = self.written(id_col)
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

    def lines_after(self, row: int) -> int:
        """Lines of the file from a row on, blank ones counted except those at its end."""
        lines = self._lines()
        return int(lines.index[lines != ""][-1]) - self._line_of(row, lines) + 1

    def place(self, row: int) -> str:
        """Place of a row: the line of a CSV file, blank ones and comments counted."""
        of = "" if self.option == "data" else f" of {self.name}"
        if not self.is_csv:
            return f"in row {row + 1}{of}"
        return f"on line {self._line_of(row, self._lines()) + 1}{of}"

    def _line_of(self, row: int, lines: pd.Series[str]) -> int:
        """Line of a row of data, from 0: blank lines and comments are no rows."""
        row = row if self.rows is None else int(self.rows[row])
        skipped = lines == ""
        if self.options.comment is not None:
            skipped |= lines.str.startswith(self.options.comment)
        header = 1 if self.options.names is None else 0
        return int(lines.index[~skipped][row + header])


def _numbers_if_all_are(column: pd.Series[Any]) -> pd.Series[Any]:
    """A column as numbers if all its cells are, as pandas reads a file without the other rows."""
    if is_numeric_dtype(column.dtype):
        return column
    try:
        as_numbers: pd.Series[Any] = pd.to_numeric(column.astype(object))
    except (ValueError, TypeError):
        return column
    return as_numbers


def _is_numbered(frame: pd.DataFrame) -> bool:
    """Whether no column became the index, as where rows have more values than the header."""
    return isinstance(frame.index, pd.RangeIndex) and frame.index.equals(pd.RangeIndex(len(frame)))


def time_column(options: Any) -> str:
    """Name of the times in a result."""
    return JOINED if len(options.time) > 1 else str(options.time[0])


def _named_times(options: Any) -> str:
    """The times in messages."""
    return f"column {','.join(options.time)!r}"


def read_series(options: Any) -> tuple[pd.Series[float], pd.DataFrame | None]:
    """One series on a regular index, NaN in rows that --freq adds, and its regressors."""
    return advised(_series, options)


def _series(options: Any) -> tuple[pd.Series[float], pd.DataFrame | None]:
    """The series, or an error that may know what mends it; with an id, that the panel is read."""
    if options.id is not None:  # an error has named it
        _panel(options)
        return pd.Series(dtype=float), None
    table = _Table("data", options.data, options)
    times, name = table.times(), _named_times(options)
    values = pd.Series(table.numbers("--target", options.target), times)
    frame = pd.DataFrame(table.regressors()).set_axis(times) if options.exog else None
    if options.sort:
        order = times.argsort()
        times, values = times[order], values.iloc[order]
        frame = None if frame is None else frame.iloc[order]
    if times.has_duplicates and (id_col := table.id_column(times)) is not None:
        first = format_time(times, int(times.duplicated().argmax()))
        advice = f"Of several series pass {{}}. {_EACH_TIME}"
        got = f"{first} more than once"
        raise FileError(name, "have unique times", got, advice, {"id": id_col})
    index = _regular(times, name) if options.freq is None else on_grid(times, options.freq, name)
    y = values.reindex(index).rename(options.target)
    if frame is not None and (at := first_true(~index.isin(times))) is not None:
        got = f"no row for {format_time(index, at)}"
        remedy = "Add it, with the target left empty if it is not known."
        raise refusal("--exog", "have a value at each time of --freq", got, remedy)
    return y, None if frame is None else frame.reindex(index)


def read_ahead(
    options: Any, index: pd.Index[Any], option: str, path: Path, stds: Mapping[str, str]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The regressors of the steps after a series, and stds of those whose column it has.

    The file may hold other times, too.
    """
    table = _Table(option, path, options)
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
        raise refusal(option, must, got, remedy)
    exog = pd.DataFrame(table.regressors(), index=times).reindex(ahead)
    found = {
        name: table.numbers("--exog-std", column)
        for name, column in stds.items()
        if column in table.frame
    }
    return exog, pd.DataFrame(found, index=times).reindex(ahead)


def read_panel(options: Any) -> pd.DataFrame:
    """A long frame: id, time, regressors, target; its times are on the grid of --freq."""
    return advised(_panel, options)


def _panel(options: Any) -> pd.DataFrame:
    table = _Table("data", options.data, options)
    frame, time = table.rows_of_panel(), time_column(options)
    frame[options.target] = table.numbers("--target", options.target)
    if options.sort:
        frame = frame.sort_values(time, kind="stable", ignore_index=True)
    if options.freq is not None:
        for name, times in frame.groupby(options.id, sort=False)[time]:
            on_grid(pd.Index(times), options.freq, f"{_named_times(options)} of {name!r}")
    return frame


def read_panel_ahead(options: Any, panel: pd.DataFrame) -> pd.DataFrame:
    """Regressors at the steps after each series of a panel, long, without other times."""
    frame = _Table("--exog-future", options.exog_future, options).rows_of_panel()
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
    except UnevenTimesError as error:
        options = {"to_period": error.freq}
        advice = "Take their periods, pass {}."
        raise FileError(name, error.rule, error.got, advice, options) from error
    except DaysOfMonthsError as error:
        if not error.freq:
            raise error.but(remedy=_EACH_TIME, code="") from error
        is_dekad = error.freq == "dekad"
        found = {"to_period" if is_dekad else "freq": error.freq}
        also = AS_DEKADS if is_dekad else ""
        raise FileError(name, error.rule, error.got, "Pass {}.", found, also) from error
    except InvalidArgument as error:
        if error.code == "order":
            advice = f"Pass {{}}. {_EACH_TIME}"
            raise FileError(name, error.rule, error.got, advice, {"sort": True}) from error
        if error.code == "clock change":
            advice = f"Aggregate the duplicates. {AT_CLOCK_CHANGE} Then pass {{}}, or their zone."
            zone = {"zone": _zone_of(times)}
            raise FileError(name, error.rule, error.got, advice, zone) from error
        if error.code not in _OF_ONE_SERIES:
            raise
        code = error.code if error.code == "too few times" else ""
        raise error.but(remedy=_OF_ONE_SERIES[error.code], code=code) from error


def _zone_of(times: pd.Index[Any]) -> str:
    """A zone in which clocks go back in an hour that occurs twice."""
    first = times[times.duplicated()][0]
    if first.month == 11:
        return "America/New_York"
    return "Europe/London" if first.hour == 1 else "Europe/Berlin"
