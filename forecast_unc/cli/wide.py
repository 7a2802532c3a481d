"""Wide tables, of several values in a row, and the long ones that they are made: a row each."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from forecast_unc._checks import refusal
from forecast_unc._typing import Flags, Positions
from forecast_unc.cli.dates import formats, part_of_date, read_periods
from forecast_unc.cli.mending import FileError
from forecast_unc.series.values import MONTHS


class Wide(NamedTuple):
    """A wide table: its columns of values are "months", "times" or, "", series."""

    frame: pd.DataFrame
    kind: str
    columns: list[str]  # of values
    others: list[str]  # that are kept beside each value


def made_long(wide: Wide, options: Any) -> tuple[pd.DataFrame, Positions]:
    """A row for each value, and the row of the wide table that each stands in.

    Empty cells are left out before the first and after the last value of a series.
    """
    _check_ids(wide, options)
    n, k = len(wide.frame), len(wide.columns)
    rows = np.repeat(np.arange(n), k)
    long = wide.frame[wide.others].iloc[rows].reset_index(drop=True)
    names = pd.Series(np.tile(np.array(wide.columns, dtype=object), n))
    if wide.kind == "months":
        long[options.time[0]] = _years(long, wide.others) + "-" + names.map(_two_digits)
    elif wide.kind == "times":
        long[options.time[0]] = _without_letters(names)
    else:
        long["series" if options.id is None else options.id] = names
    values = wide.frame[wide.columns].to_numpy(dtype=object)
    values[values == ""] = np.nan
    long[options.target] = pd.Series(values.ravel(), dtype=object)
    gone = long[options.target].isna().to_numpy().reshape(n, k)
    if wide.kind == "months" and not options.id:
        gone = gone.reshape(1, -1)  # one series, a year a row
    outside = _at_ends(gone).ravel() if wide.kind else np.zeros(n * k, dtype=bool)
    return long[~outside].reset_index(drop=True), rows[~outside]


def _check_ids(wide: Wide, options: Any) -> None:
    """Raise unless a column names each of several series."""
    frame, kind, _, others = wide
    if kind == "times" and options.id in frame and not frame[options.id].is_unique:
        ids = frame[options.id]
        got = f"{ids[ids.duplicated()].iloc[0]!r} in several rows"
        remedy = (
            f"Join the columns {', '.join(map(repr, others))} in one, or keep rows of one kind."
        )
        raise refusal("--id", "tell the rows of a wide table apart", got, remedy)
    several = kind == "" or (kind == "times" and len(frame) > 1)
    if options.id is None and several:
        named = [name for name in others if name not in options.time] or ["series"]
        unique = [name for name in named if name in frame and frame[name].is_unique]
        must, found = (
            "be given for a wide table of several series",
            {"id": str([*unique, *named][0])},
        )
        raise FileError("--id", must, "none", "Pass {}.", found)


def _years(long: pd.DataFrame, others: list[str]) -> pd.Series[str]:
    """The years of rows, taken out of the table: the column that is named so, or the first."""
    named = [name for name in others if part_of_date(name) == "year"]
    if not others:
        raise refusal("--wide", "have a column of years", "none", "Add one.")
    years = pd.to_numeric(long.pop([*named, *others][0]), errors="coerce")
    return years.astype("Int64").astype(str)


def _without_letters(names: pd.Series[str]) -> pd.Series[Any]:
    """Names such as V1, V2 as whole numbers; others, such as dates, as they are."""
    numbers = names.str.extract(r"^[A-Za-z]+_?(\d+)$")[0]
    return numbers.astype(int) if numbers.notna().all() else names


def _at_ends(gone: Flags) -> Flags:
    """What is missing before the first and after the last value of each row."""
    before = np.logical_and.accumulate(gone, axis=1)
    after = np.logical_and.accumulate(gone[:, ::-1], axis=1)[:, ::-1]
    at_ends: Flags = before | after
    return at_ends


def wide_columns(frame: pd.DataFrame) -> tuple[str, list[str]]:
    """What the columns of a wide table are, "months", "times" or "" of none, and those columns."""
    names = [str(name) for name in frame.columns]
    months = [name for name in names if _month(name)]
    if len(months) == len(MONTHS) and len({_month(name) for name in months}) == len(MONTHS):
        return "months", months
    dated = [name for name in names if re.match(r"\D{0,2}\d", name) or re.search(r"\d{2,4}$", name)]
    if len(dated) > 2:
        text = pd.Series(dated)
        iso = pd.to_datetime(text, format="ISO8601", errors="coerce").notna().all()
        if iso or read_periods(text) is not None or formats(text):
            return "times", dated
    counted = [name for name in names if re.fullmatch(r"[A-Za-z]{1,5}_?\d+", name)]
    stems = {re.sub(r"\d+$", "", name) for name in counted}
    if len(counted) > 6 and len(stems) == 1 and len(counted) >= len(names) - 4:
        return "times", counted
    years = [name for name in names if re.fullmatch(r"(18|19|20)\d\d", name)]
    return ("times", years) if len(years) > 2 else ("", [])


def _month(name: str) -> int:
    """The month that a name of a column means, from 1, or 0."""
    word = name.strip().lower()
    if word[:3] in MONTHS and part_of_date(word) != "month" and word.isalpha():
        return MONTHS.index(word[:3]) + 1
    number = re.fullmatch(r"(?:m|month_?)?(\d{1,2})", word)
    return int(number[1]) if number and 1 <= int(number[1]) <= 12 else 0


def _two_digits(name: str) -> str:
    """The month of a column's name as two digits."""
    return f"{_month(name):02d}"
