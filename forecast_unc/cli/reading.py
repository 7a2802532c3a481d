"""Series, panels, regressors and holidays from the files that the options name."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from forecast_unc.cli.tables import Form, Table, read_table
from forecast_unc.cli.times import JOINED, read_times
from forecast_unc.series.times import (
    MissingTimesError,
    format_time,
    future_index,
    on_grid,
    regular_index,
)


@dataclass(frozen=True)
class Layout:
    """Which columns of a file hold what.

    Parameters
    ----------
    time : str
        The column of times, or several with commas between them.
    target : str
        The column of values.
    exog : tuple of str
        Those of regressors.
    id : str or None
        That of the names of series.
    freq : str or None
        Frequency of the times, where rows may be missing.
    form : Form
        How a CSV file is written.
    """

    time: str = "ds"
    target: str = "y"
    exog: tuple[str, ...] = ()
    id: str | None = None
    freq: str | None = None
    form: Form = Form()  # noqa: RUF009  # frozen

    @classmethod
    def of(cls, arguments: argparse.Namespace) -> Layout:
        """What the options say."""
        form = Form(
            arguments.sep, arguments.decimal, arguments.comment, tuple(arguments.missing or ())
        )
        exog = tuple(arguments.exog or ())
        return cls(arguments.time, arguments.target, exog, arguments.id, arguments.freq, form)


class Given(NamedTuple):
    """A series and its regressors."""

    y: pd.Series[float]
    exog: pd.DataFrame | None


def read_series(path: Path, layout: Layout) -> Given:
    """One series of a file, indexed by its times.

    Parameters
    ----------
    path : Path
        The file, ``-`` for standard input.
    layout : Layout
        Its columns.

    Returns
    -------
    Given
        On a regular index; with a frequency the rows that the file lacks are NaN.

    Raises
    ------
    ValueError
        If the file lacks a column, a value or a time cannot be read, or the times are not regular.
    """
    table = read_table("data", path, layout.form)
    times = read_times(table, layout.time)
    values = pd.Series(_numbers(table, "--target", layout.target, layout), times)
    frame = pd.DataFrame({name: _numbers(table, "--exog", name, layout) for name in layout.exog})
    frame = frame.set_axis(times)
    name = f"column {layout.time!r}"
    index = _regular(times, name) if layout.freq is None else on_grid(times, layout.freq, name)
    y = values.reindex(index).rename(layout.target)
    return Given(y, frame.reindex(index) if layout.exog else None)


def read_ahead(path: Path, layout: Layout, index: pd.Index[Any], steps: int) -> pd.DataFrame:
    """The regressors of the steps after a series, from a file that may hold other times too.

    Parameters
    ----------
    path : Path
        The file, ``-`` for standard input.
    layout : Layout
        Its columns.
    index : Index
        Times of the series, regular.
    steps : int
        How many are asked for.

    Returns
    -------
    DataFrame

    Raises
    ------
    ValueError
        If it lacks a column or one of these times.
    """
    table = read_table("--exog-future", path, layout.form)
    times = read_times(table, layout.time)
    ahead = future_index(index, steps)
    if isinstance(times, pd.DatetimeIndex) and isinstance(ahead, pd.DatetimeIndex):
        times = times.as_unit(ahead.unit)
    absent = ~ahead.isin(times)
    if absent.any() or times.has_duplicates:
        got = f"none at {format_time(ahead, int(absent.argmax()))}"
        if times.has_duplicates:
            got = f"several at {format_time(times, int(times.duplicated().argmax()))}"
        raise ValueError(
            f"--exog-future must have one row for each of the {steps} steps after "
            f"{format_time(index, -1)}; got {got}. Write the times as in data."
        )
    columns = {name: _numbers(table, "--exog", name, layout) for name in layout.exog}
    return pd.DataFrame(columns, index=times).reindex(ahead)


def read_panel(path: Path, layout: Layout) -> pd.DataFrame:
    """The series of a file as one long frame: id, time, target, regressors.

    Parameters
    ----------
    path : Path
        The file, ``-`` for standard input.
    layout : Layout
        Its columns.

    Returns
    -------
    DataFrame
        With a frequency, the rows that a series lacks are there, with NaN.

    Raises
    ------
    ValueError
        If the file lacks a column, or a value or a time cannot be read.
    """
    table = read_table("data", path, layout.form)
    frame = _long(table, layout)
    frame[layout.target] = _numbers(table, "--target", layout.target, layout)
    time = time_column(layout)
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
    """The regressors of the steps after each series of a panel; other times are left out.

    Parameters
    ----------
    path : Path
        The file, ``-`` for standard input.
    layout : Layout
        Its columns.
    panel : DataFrame
        Of `read_panel`.
    steps : int
        How many are asked for.

    Returns
    -------
    DataFrame
        Long: id, time, regressors.
    """
    frame = _long(read_table("--exog-future", path, layout.form), layout)
    time = time_column(layout)
    last = panel.groupby(layout.id, sort=False)[time].last()
    later = frame[frame[time] > frame[layout.id].map(last)]
    return later.groupby(layout.id, sort=False).head(steps)


def time_column(layout: Layout) -> str:
    """Name of the times in a result.

    Parameters
    ----------
    layout : Layout
        Columns of the file.

    Returns
    -------
    str
    """
    return JOINED if "," in layout.time else layout.time


def read_holidays(path: Path) -> pd.DatetimeIndex:
    """The dates of a file, one a line; blank lines and those that begin with # are skipped.

    Parameters
    ----------
    path : Path
        The file.

    Returns
    -------
    DatetimeIndex

    Raises
    ------
    ValueError
        If a line is no date, or there is none.
    """
    dates = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        try:
            dates.append(pd.to_datetime(text, format="%Y-%m-%d"))
        except ValueError as error:
            raise ValueError(
                f"--holidays must hold one date a line; got {text!r} on line {number} of {path}. "
                "Write dates as 2024-12-25."
            ) from error
    if not dates:
        raise ValueError(f"--holidays must hold dates; got none in {path}. Write one a line.")
    return pd.DatetimeIndex(dates)


def _long(table: Table, layout: Layout) -> pd.DataFrame:
    """The id, the time and the regressors of all rows."""
    assert layout.id is not None
    ids = table.column("--id", layout.id)
    if ids.isna().any():
        raise ValueError(
            f"--id must name the series of each row; got none in column {layout.id!r} "
            f"{table.place(int(ids.isna().argmax()))}. Fill it in, or drop the row."
        )
    columns: dict[str, Any] = {
        layout.id: ids.array,
        time_column(layout): read_times(table, layout.time).array,
    }
    columns |= {name: _numbers(table, "--exog", name, layout) for name in layout.exog}
    return pd.DataFrame(columns)


def _numbers(table: Table, option: str, name: str, layout: Layout) -> Any:
    return table.numbers(option, name, layout.form.missing)


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
