"""Times that are written as text: of which format, if one alone reads the whole column."""

from __future__ import annotations

import re
import shlex
import warnings
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from forecast_unc._checks import refusal
from forecast_unc.cli.mending import FileError
from forecast_unc.series.times import format_time

# Dates and clocks with - for all that stands between their parts.
_DAYS = ("%Y-%m-%d", "%d-%m-%Y", "%m-%d-%Y", "%d-%m-%y", "%m-%d-%y", "%y-%m-%d", "%d-%b-%Y",
         "%d-%B-%Y", "%d-%b-%y", "%b-%d-%Y", "%B-%d-%Y", "%b-%d-%y", "%Y-%b-%d",
         "%y-%b-%d")  # fmt: skip
_WEEKDAYS = ("", "%a-", "%A-")
_MONTHS = ("%Y-%m", "%m-%Y", "%b-%Y", "%B-%Y", "%Y-%b", "%Y-%B", "%b-%y", "%B-%y", "%y-%b",
           "%b%y", "%b%Y", "%Y%b")  # fmt: skip
_CLOCKS = ("", "-%H-%M-%S", "-%H-%M", "-%H-%M-%S-%f", "-%H", "-%I-%M-%S-%p", "-%I-%M-%p",
           "-%I-%M%p", "-%I-%M-%S%p", "-%I-%p", "-%I%p")  # fmt: skip
_TOGETHER = ("%Y%m%d-%H-%M", "%Y%m%d-%H-%M-%S", "%Y%m%d-%H%M", "%Y%m%d-%H%M%S", "%d%b%Y", "%Y%m%d",
             "%Y%m%d%H%M", "%Y%m%d%H")  # fmt: skip
_BETWEEN = re.compile(r"[^0-9A-Za-z]+|(?<=\d)[Tt](?=\d)")
_OFFSET = r"(?i)\s*(?:[+-]\d\d:?\d\d|Z| UTC| GMT)$"
# Periods that no format names: pattern with the groups y and q, m or w, and their frequency.
_PERIODS = (
    (r"(?P<y>\d{4})[-\s:]?Q(?P<n>[1-4])", "Q"),
    (r"Q(?P<n>[1-4])[-\s/']*(?P<y>\d{4})", "Q"),
    (r"(?P<n>[1-4])\.?\s?Q(?:uarter|tr)?[-\s/]*(?P<y>\d{4})", "Q"),
    (r"(?P<y>\d{4})[-\s:]?M(?P<n>0?[1-9]|1[0-2])", "M"),
    (r"(?P<y>\d{4})[-\s:]?(?:W|KW|week)[-\s]?(?P<n>\d{1,2})", "W"),
    (r"(?:W|KW|week)[-\s]?(?P<n>\d{1,2})[-\s/,]*(?P<y>\d{4})", "W"),
)
_SAMPLE = 50  # values by which a format is tried before the column is


def starts(text: pd.Series[str]) -> pd.Series[str]:
    """The first of two times in each cell, as of 00:00 - 01:00; other text as it is."""
    spans = text.str.extract(r"^(.*\d.*?)\s+(?:-|\u2013|to|/)\s+(.*\d.*)$")
    return text if spans.isna().any(axis=None) else spans[0]


def read_periods(text: pd.Series[str]) -> pd.Index[Any] | None:
    """Quarters as periods, months and ISO weeks as the dates they begin with; None for others."""
    for pattern, freq in _PERIODS:
        if not re.fullmatch(pattern, text.iloc[0], re.IGNORECASE):
            continue
        parts = text.str.extract(f"^(?:{pattern})$", flags=re.IGNORECASE)
        if parts.isna().any(axis=None):
            continue
        years, numbers = parts["y"], parts["n"]
        if freq == "Q":
            return pd.PeriodIndex(years + "Q" + numbers, freq="Q", name=text.name)
        if freq == "W":
            return iso_weeks(years.astype(int), numbers.astype(int), text.name)
        return pd.DatetimeIndex(
            pd.to_datetime(years + "-" + numbers, format="%Y-%m"), name=text.name
        )
    return None


def iso_weeks(years: pd.Series[int], weeks: pd.Series[int], name: Any) -> pd.Index[Any] | None:
    """The Mondays of weeks by ISO 8601, or None if some year has no such week."""
    joined = years.astype(str) + "-" + weeks.astype(str) + "-1"
    dates = pd.to_datetime(joined, format="%G-%V-%u", errors="coerce")
    return None if dates.isna().any() else pd.DatetimeIndex(dates, name=name)


def formats(text: pd.Series[str]) -> list[str]:
    """The formats that read all values, those that give the same times once."""
    unique = text.drop_duplicates()
    first = unique.iloc[0]
    first = re.sub(_OFFSET, "", first) if ":" in first else first
    offset, zone = unique.iloc[0][len(first) :], re.search(r" (?!AM|PM)[A-Z]{3,4}$", first)
    end = " %z" if offset[:1] == " " else "%z" if offset else ""
    if zone and ":" in first:  # a word that no format names, the same in all rows
        first, end = first[: zone.start()], zone[0]
    plain, marks = _BETWEEN.sub("-", first), _BETWEEN.findall(first)
    n = len(marks)
    days = map("".join, product(_WEEKDAYS, _DAYS, _CLOCKS))
    some = unique.iloc[np.unique(np.linspace(0, len(unique) - 1, _SAMPLE).astype(int))]
    found: dict[str, pd.Series[Any]] = {}
    for shape in (*days, *_MONTHS, *_TOGETHER):
        if shape.count("-") != n or pd.isna(_parsed(pd.Series([plain]), shape).iloc[0]):
            continue
        form = _with_marks(shape, marks) + end
        if _parsed(some, form).isna().any():
            continue
        dates = _parsed(text, form)
        if not dates.isna().any() and not any(dates.equals(other) for other in found.values()):
            found[form] = dates
    return list(found)


def _with_marks(shape: str, marks: list[str]) -> str:
    """A format with what stands between its parts, in order."""
    parts = shape.split("-")
    return "".join(part + mark for part, mark in zip(parts, [*marks, ""], strict=True))


def _parsed(text: pd.Series[str], form: str) -> pd.Series[Any]:
    """Dates of a format, NaT where it reads none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return pd.to_datetime(text, format=form, errors="coerce")
        except ValueError:  # no format
            return pd.Series(pd.NaT, text.index)


def parsed_as(text: pd.Series[str], form: str, remedy: str) -> pd.Series[Any]:
    """Dates of the format that was given, NaT where it reads none, or an error about the format."""
    try:
        return pd.to_datetime(text, format=form, errors="coerce")
    except ValueError as error:
        got = f"{form}: {str(error).rstrip('.')}"
        raise refusal("--date-format", "be one of strptime", got, remedy) from error


def ambiguous(text: pd.Series[str], forms: list[str], place: Callable[[int], str]) -> FileError:
    """The error of dates that several formats read, with the times that each makes of them."""
    spans = {}
    for form in forms:
        times = pd.DatetimeIndex(_parsed(text, form))
        index = times.sort_values()
        uneven = len(index) < 3 or pd.DatetimeIndex(index.unique(), freq="infer").freq is None
        ends = f"{format_time(index, 0)} to {format_time(index, -1)}"
        ordered = times.is_monotonic_increasing or times.is_monotonic_decreasing
        spans[form] = (not ordered, uneven, ends)
    got = f"{text.iloc[0]!r} in column {text.name!r} {place(0)}"
    best, *others = sorted(forms, key=lambda form: spans[form][:2])
    rest = " or ".join(f"--date-format {shlex.quote(form)}" for form in others)
    also = f"They run {'; '.join(f'by {form} from {spans[form][2]}' for form in [best, *others])}."
    rule = "hold dates of which the day and the month can be told apart, or whole numbers"
    advice = f"Pass {{}} or {rest}."
    return FileError("--time", rule, got, advice, {"date_format": best}, also)
