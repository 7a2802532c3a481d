"""Times of a table: of text, of which format, if one alone reads the whole column; of numbers."""

from __future__ import annotations

import re
import shlex
import warnings
from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any, NamedTuple, Protocol, cast

import numpy as np
import pandas as pd
from pandas.api.types import is_datetime64_any_dtype, is_integer_dtype, is_numeric_dtype

from forecast_unc._checks import first_true, refusal
from forecast_unc._typing import Flags
from forecast_unc.cli.mending import FileError
from forecast_unc.errors import InvalidArgument
from forecast_unc.series.times import (
    AS_NUMBERS,
    dekads,
    dekads_end,
    epoch_unit,
    fiscal_months,
    foreign_months,
    format_time,
)

_PARTS = ("year", "month", "day", "hour", "minute", "second")
_MOST_OF_YEAR = {"quarter": 4, "week": 53, "day_of_year": 366}
_UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}  # since 1970, by the second
# Numbers that look like times in a unit: from the first to below the second.
_LIMITS = {
    "year": (1700, 2200),
    "excel": (25_000, 75_000),  # 1968 to 2105
    **{unit: (1e8 * size, 4.1e9 * size) for unit, size in _UNITS.items()},
}
_OF_DIGITS = {  # dates of digits alone: how many, and how they are written with dashes
    "%Y%m%d": (8, "%Y-%m-%d"),
    "%Y%m": (6, "%Y-%m"),
    "%Y%m%d%H": (10, "%Y-%m-%d %H:00"),
    "%Y%m%d%H%M": (12, "%Y-%m-%d %H:%M"),
    "%Y%m%d%H%M%S": (14, "%Y-%m-%d %H:%M:%S"),
}
JOINED = "ds"  # name of times that are made of several columns
# Words that begin the names of columns of parts of a date.
_NAMED = {
    "year": r"y(ea)?rs?$|jahr|ann[eé]e|a[nñ]o|anno|jaar|rok|år",
    "month": r"m(on)?th?s?$|mnth|mo$|monat|mois|mes$|mese|maand|month",
    "quarter": r"q(tr|uarter)?s?$|quartal|trimest",
    "week": r"w(ee)?ks?$|kw$|woche|semaine|isoweek|week",
    "day_of_year": r"doy$|yday$|day_?of_?year|julian",
    "day": r"d(ay)?s?$|dom$|tag$|jour|d[ií]a",
    "hour": r"h(ou)?r_?(min)?s?$|hh$|he$|stunde|heure|hora|hour",
}
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
_IN_ENGLISH = f"{AS_NUMBERS}, or in English, such as Jan 2019 with --date-format '%b %Y'."
_DAYS_FIRST = "Pass --date-format %d.%m.%Y, or as the dates are written."
_SAMPLE = 50  # values by which a format is tried before the column is


class Table(Protocol):
    """What times and numbers ask of the table that they are columns of."""

    frame: pd.DataFrame
    options: Any
    is_csv: bool

    def written(self, name: str) -> pd.Series[Any]:
        """A column as it is written in the file."""

    def place(self, row: int) -> str:
        """Line or row of the file."""

    def lines_after(self, row: int) -> int:
        """Lines of the file from a row on."""


def part_of_date(name: object) -> str:
    """The part of a date that a column's name means, or ""."""
    word = str(name).strip().lower()
    return next((part for part, pattern in _NAMED.items() if re.match(pattern, word)), "")


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


def from_parts(table: Table, columns: list[pd.Series[Any]]) -> pd.Index[Any]:
    """Times from numbers: year, month and so on in this order, or year and quarter, week, day."""
    names = [str(column.name) for column in columns]
    if len(names) > len(_PARTS):
        must = f"name at most {len(_PARTS)} columns, {', '.join(_PARTS)}"
        raise refusal("--time", must, str(len(names)), "Leave some out.")
    second = part_of_date(names[1]) if len(names) == 2 else ""
    second = second if second in _MOST_OF_YEAR else "month"
    parts = pd.concat(columns, axis=1).set_axis(_PARTS[: len(names)], axis=1)
    wrong = (parts % 1 != 0).any(axis=1) | ~parts["year"].between(1000, 9999)  # NaN too
    if second in _MOST_OF_YEAR:
        wrong |= ~parts["month"].between(1, _MOST_OF_YEAR[second])
    numbers = parts["month"].where(~wrong, 1).astype(int)
    years = parts["year"].where(~wrong, 2000).astype(int)
    whole = parts.assign(year=years, month=numbers)
    if second == "quarter":
        whole = whole.assign(month=3 * numbers - 2)
    if second in ("month", "quarter"):
        whole = whole.where(~wrong, 0).astype(int).assign(day=parts.get("day", 1))
        late = whole.pop("hour") if "minute" not in whole and "hour" in whole else None
        dates = pd.to_datetime(whole, errors="coerce")
        if late is not None:  # 24 is the end of a day
            dates += pd.to_timedelta(late.where(late.between(0, 24)), unit="h")
    else:
        form, last = ("%G-%V-%u", "-1") if second == "week" else ("%Y-%j", "")
        text = years.astype(str) + "-" + numbers.astype(str).str.zfill(2) + last
        dates = pd.to_datetime(text, format=form, errors="coerce")
    wrong |= dates.isna()
    if wrong.any():
        row = int(wrong.to_numpy().argmax())
        given = ", ".join(f"{value:g}" for value in parts.iloc[row])
        kind = f"{', '.join(parts.columns)}, in this order"
        if second != "month":
            kind = f"years and {second.replace('_', ' ')}s"
        got = f"{given} in columns {', '.join(map(repr, names))} {table.place(row)}"
        remedy = "Name the columns in the order of these."
        if "year" in parts and table.frame[names[0]].isna()[wrong].all() and _at_end(wrong):
            raise FileError(
                "--time", f"hold {kind}", got, "Pass {}.", {"skip_end": int(wrong.sum())}
            )
        raise refusal("--time", f"hold {kind}", got, remedy)
    times = pd.DatetimeIndex(dates, name=JOINED)
    return times.to_period("Q") if second == "quarter" else times


def _at_end(wrong: pd.Series[bool]) -> bool:
    """Whether the last rows are wrong and no others."""
    return bool(wrong.to_numpy()[-int(wrong.sum()) :].all())


def with_hours(table: Table, days: pd.Index[Any], hours: pd.Series[Any]) -> pd.Index[Any]:
    """Dates and hours of the day, from 0 or to 24, or clocks such as 1330."""
    largest = hours.max()
    clocks = hours if largest > 24 else 100 * hours
    wrong = ~clocks.between(0, 2400) | (clocks % 100 >= 60)
    if wrong.any() or not isinstance(days, pd.DatetimeIndex):
        row = int(wrong.to_numpy().argmax())
        got = f"{hours[row]} in column {hours.name!r} {table.place(row)}"
        raise refusal("--time", "hold dates and hours from 0 to 24", got, "Correct the hour.")
    minutes = 60 * (clocks // 100) + clocks % 100
    return (days + pd.to_timedelta(minutes.to_numpy(), unit="min")).rename(JOINED)


def _are_dates(column: pd.Series[Any], form: str) -> bool:
    """Whether whole numbers are dates of digits, all as long as those of a format."""
    text = column.astype(str)
    if (text.str.len() != _OF_DIGITS[form][0]).any():
        return False
    return bool(pd.to_datetime(text, format=form, errors="coerce").notna().all())


def _are_epochs(column: pd.Series[Any], unit: str) -> bool:
    """Whether whole numbers are as far apart as times of a unit since 1970."""
    return epoch_unit(pd.Index(column)) == unit


def _are_seconds(column: pd.Series[Any]) -> bool:
    """Whether whole numbers are seconds from 2001 to 2096, at any distance."""
    return bool(len(column) > 1 and column.is_unique and column.between(10**9, 4 * 10**9).all())


def _look_like(column: pd.Series[Any], unit: str) -> bool:
    """Whether all numbers are such as occur in a unit."""
    low, high = _LIMITS[unit]
    return bool(column.min() >= low and column.max() < high)


def _are_days(column: pd.Series[Any]) -> bool:
    """Whether whole numbers are such as days of spreadsheets."""
    return len(column) > 1 and _look_like(column, "excel")


class _Layout(NamedTuple):
    """Whole numbers that are times after all: which are, and the option that reads them."""

    fits: Callable[[pd.Series[Any]], bool]
    option: str
    value: str


_LAYOUTS = (
    *(_Layout(partial(_are_dates, form=form), "date_format", form) for form in _OF_DIGITS),
    *(_Layout(partial(_are_epochs, unit=unit), "time_unit", unit) for unit in _UNITS),
    _Layout(_are_days, "time_unit", "excel"),
    _Layout(_are_seconds, "time_unit", "s"),
)


def _of_numbers(table: Table, column: pd.Series[Any]) -> pd.Index[Any]:
    """Times from numbers: by --time-unit, else whole numbers that count; or an error."""
    unit = table.options.time_unit
    if unit is not None:
        return _of_count(table, column) if unit == "count" else _of_unit(table, column, unit)
    if not is_integer_dtype(column.dtype):
        raise _fractions(table, column)
    layout = next((each for each in _LAYOUTS if each.fits(column)), None)
    if layout is None:
        return cast("pd.Index[Any]", pd.Index(column))
    found, got = {layout.option: layout.value}, f"{column[0]} in column {str(column.name)!r}"
    if layout.option == "date_format":
        dated = pd.to_datetime(str(column[0]), format=layout.value)
        rule = "hold dates with dashes, or whole numbers that count"
        advice = f"Write {dated:{_OF_DIGITS[layout.value][1]}}, or pass {{}}."
        raise FileError("--time", rule, got, advice, found)
    date = format_time(_by_unit(column[:1].astype(float), layout.value), 0)
    got, rule = (
        f"{got} {table.place(0)}, as if of {date}",
        "hold dates, or whole numbers that count",
    )
    also = "Pass --time-unit count if they count."
    raise FileError("--time", rule, got, "Pass {}.", found, also)


def _fractions(table: Table, column: pd.Series[Any]) -> InvalidArgument:
    """The error of numbers that are not whole: their unit, or the first that is no time."""
    rule, place, wrong = (
        "hold dates or whole numbers",
        f"in column {str(column.name)!r}",
        column.isna(),
    )
    if wrong.any() and _at_end(wrong) and wrong.sum() + 3 < len(wrong):
        got = f"none {place} {table.place(int(wrong.argmax()))}"
        return FileError("--time", rule, got, "Pass {}.", {"skip_end": int(wrong.sum())})
    got = _cell(table, column, column % 1 != 0)
    unit = next((unit for unit in _LIMITS if _look_like(column, unit)), None)
    if unit is not None and not wrong.any():
        return FileError("--time", rule, got, "Pass {}.", {"time_unit": unit})
    return refusal("--time", rule, got, "Write dates as 2024-01-31.")


def _cell(table: Table, column: pd.Series[Any], wrong: pd.Series[bool]) -> str:
    """The first wrong cell of a column, and its place."""
    row = int(wrong.to_numpy().argmax())
    return f"{column.tolist()[row]!r} in column {str(column.name)!r} {table.place(row)}"


def _of_count(table: Table, column: pd.Series[Any]) -> pd.Index[Any]:
    """Whole numbers that count."""
    wrong = column % 1 != 0
    if wrong.any():
        raise refusal(
            "--time", "hold whole numbers", _cell(table, column, wrong), "Number the rows."
        )
    return pd.Index(column.astype(np.int64))


def _of_unit(table: Table, column: pd.Series[Any], unit: str) -> pd.DatetimeIndex:
    """Times of numbers in a unit, or an error."""
    place = f"in column {str(column.name)!r}"
    if column.isna().any():
        got = f"none {place} {table.place(int(column.isna().to_numpy().argmax()))}"
        raise refusal("--time", "hold a time in each row", got, "Fill it in.")
    try:
        return _by_unit(column if is_integer_dtype(column.dtype) else column.astype(float), unit)
    except (ValueError, OverflowError) as error:
        got = f"{column.tolist()[0]!r} {place}"
        raise refusal("--time-unit", "suit the times", got, "Pass another.") from error


def _by_unit(column: pd.Series[Any], unit: str) -> pd.DatetimeIndex:
    """Times of numbers of a unit since 1970, of days of spreadsheets, or of years."""
    name = column.name
    if unit in _UNITS:
        if is_integer_dtype(column.dtype):
            return pd.DatetimeIndex(
                column.to_numpy(np.int64).astype(f"datetime64[{unit}]"), name=name
            )
        thousandths = (column * (1000 / _UNITS[unit])).round()  # a float has no finer ones
        return pd.DatetimeIndex(thousandths.to_numpy(np.int64).astype("datetime64[ms]"), name=name)
    if unit == "excel":
        seconds = (column.astype(float) * 86400).round().to_numpy(np.int64)
        start = np.datetime64("1899-12-30", "s")
        return pd.DatetimeIndex(start + seconds.astype("timedelta64[s]"), name=name)
    years = np.floor(column.to_numpy(dtype=np.float64) + 1e-3)
    numbers = column.to_numpy(dtype=np.float64)
    months = np.round((numbers - years) * 12 - _MIDDLE * _is_middle(column)).astype(int)
    index = pd.DatetimeIndex(
        (12 * (years.astype(int) - 1970) + months).astype("datetime64[M]").astype("datetime64[s]"),
        name=name,
    )
    if not index.is_unique:
        remedy = "Name the columns of year and month, or write dates."
        raise refusal(
            "--time-unit", "be year for times of months or longer", "shorter ones", remedy
        )
    return index


_MIDDLE = 0.5  # of a month, as of 1958.2027 for March


def _is_middle(column: pd.Series[Any]) -> bool:
    """Whether decimal years are of the middles of months."""
    twelfths = column.to_numpy(dtype=np.float64) * 12 % 1
    return bool(((twelfths > 0.25) & (twelfths < 0.75)).all())


def converted(
    times: pd.Index[Any], options: Any, ids: pd.Series[Any] | None = None
) -> pd.Index[Any]:
    """Times in the zone of --zone, or as the periods of --to-period; `ids`: the series of each."""
    if options.zone is None and options.to_period is None:
        return times
    if not isinstance(times, pd.DatetimeIndex):
        option = "--to-period" if options.zone is None else "--zone"
        raise refusal(option, "be left out for times that are no dates", "one", "Leave it out.")
    if options.zone is not None:
        try:
            zone = times[:0].tz_localize(None).tz_localize(options.zone).tz
        except (ValueError, KeyError) as error:
            got = f"{options.zone}: {str(error).splitlines()[0]}"
            remedy = "Name another, such as Europe/Berlin or UTC."
            raise refusal("--zone", "be a time zone", got, remedy) from error
        times = times.tz_convert(zone) if times.tz else _local(times, options.zone, ids)
    if options.to_period is None:
        return times
    if options.to_period == "dekad":
        ends = getattr(options, "dekads_end", None)  # as in data, of fewer times ahead
        options.dekads_end = dekads_end(times) if ends is None else ends
        return dekads(times, options.dekads_end)
    if options.to_period == "fiscal":
        return fiscal_months(times)
    try:
        periods: pd.PeriodIndex = times.tz_localize(None).to_period(options.to_period)
    except ValueError as error:
        remedy = "M is for months, Q quarters, Y years, W weeks, D days, h hours, dekad thirds of "
        remedy += "months, and fiscal months of four or five weeks."
        got = repr(options.to_period)
        raise refusal("--to-period", "be a period of pandas", got, remedy) from error
    return periods


def _local(
    times: pd.DatetimeIndex, zone: str, ids: pd.Series[Any] | None = None
) -> pd.DatetimeIndex:
    """Local times in their zone: of an hour that is there twice the first in time is of summer.

    A part of one is of summer at the end of a series, and of winter at its beginning.
    """
    known, summer = np.asarray(times.notna()), np.ones(len(times), dtype=np.bool_)
    localized = times.tz_localize(zone, ambiguous=summer, nonexistent="NaT")
    if (at := first_true(known & localized.isna())) is not None:
        must, got = f"hold no hour that clocks skip in {zone}", format_time(times, at)
        remedy = "Leave that row out, or name a zone whose clocks never change, such as "
        remedy += "--zone Etc/GMT-1 (UTC+1)."
        raise refusal("--time", must, got, remedy)
    twice: Flags = known & times.tz_localize(zone, ambiguous="NaT").isna()
    is_summer = np.zeros(len(times), dtype=np.bool_)
    some = pd.Series(np.arange(len(times)))
    series = [some] if ids is None else [rows for _, rows in some.groupby(ids.to_numpy())]
    for one in series if twice.any() else []:
        rows = one.to_numpy()
        own, sure = times[rows], times[rows[~twice[rows]]]
        keep: Any = "last" if own[0] <= own[-1] else "first"
        is_summer[rows] = own.duplicated(keep=keep)
        single = twice[rows] & ~own.duplicated(keep=False)
        late = single & (not len(sure) or own > sure.max())
        is_summer[rows] |= late
        if (at := first_true(single & ~late & (own > sure.min()))) is not None:
            must, got = f"hold the hour that clocks repeat in {zone} twice", format_time(own, at)
            first = own[at : at + 1].tz_localize(zone, ambiguous=summer[:1])[0].isoformat()
            remedy = f"Add the other row, or write times with their offset from UTC, as {first}."
            raise refusal("--time", must, f"{got} once", remedy)
    return times.tz_localize(zone, ambiguous=is_summer)


def from_one(table: Table, column: pd.Series[Any]) -> pd.Index[Any]:
    """Times from one column: dates and periods as they are, numbers, or text."""
    if is_datetime64_any_dtype(column.dtype):
        return pd.DatetimeIndex(column)
    if isinstance(column.dtype, pd.PeriodDtype):
        return pd.PeriodIndex(column)
    form: str | None = table.options.date_format
    if is_numeric_dtype(column.dtype) and form is None:
        return _of_numbers(table, column)
    text = column.astype(str).str.strip().fillna("")
    if is_integer_dtype(column.dtype) and form is not None:
        # a number has lost the zero of a day such as 01012024
        text = text.str.zfill(len(pd.Timestamp("2000-01-01").strftime(form)))
    return _of_text(table, column, text)


def _of_text(table: Table, column: pd.Series[Any], text: pd.Series[str]) -> pd.Index[Any]:
    """Times from text: periods, or dates of the format that is given or reads all."""
    form, zone = table.options.date_format, table.options.zone
    if form is None:
        if (periods := read_periods(text)) is not None:
            return periods
        text = starts(text)
    if len(offsets := _offsets(text)) > 1:
        if zone is None:
            raise _two_offsets(offsets, str(column.name))
        utc = pd.to_datetime(text, utc=True, errors="coerce")
        return pd.DatetimeIndex(utc, name=str(column.name))
    late = text.str.contains(r"[T ]24[:.]00")  # the end of a day
    if late.any():
        text = text.mask(late, text.str.replace(r"([T ])24([:.]00)", r"\g<1>00\2", regex=True))
    dates = _of_any_format(table, text) if form is None else _of_format(table, text, form)
    if dates.isna().any():
        raise _no_dates(table, column, text, dates)
    if late.any():
        dates = dates + pd.to_timedelta(late.astype(int), unit="D")
    return pd.DatetimeIndex(dates, name=column.name if zone is None else str(column.name))


def _offsets(text: pd.Series[str]) -> list[str]:
    """The offsets from UTC of times."""
    return list(text.str.extract(r":\d\d\S*?\s?([+-]\d\d:?\d\d)$")[0].dropna().unique())


def _two_offsets(offsets: list[str], name: str) -> FileError:
    """The error of times of several offsets, as where clocks change."""
    got = f"{offsets[0]} and {offsets[1]} in column {name!r}"
    advice = "Write all times in UTC, such as 2024-01-31T12:00Z, or pass {} or their zone, such as "
    advice += "--zone Europe/Berlin."
    return FileError("--time", "keep to one offset from UTC", got, advice, {"zone": "UTC"})


def _of_format(table: Table, text: pd.Series[str], form: str) -> pd.Series[Any]:
    """Dates by --date-format, NaT where it reads none."""
    dates = parsed_as(text, form, _remedy(text, form))
    if dates.notna().all():
        table.options.format = form
    return dates


def _remedy(text: pd.Series[str], form: str | None) -> str:
    """What to do about text that is no date."""
    year_first = form is not None and text.str.match(r"\d{4}\D").all()
    if year_first and not str(form).startswith("%Y"):
        return "Leave --date-format out."
    return "Write dates as 2024-01-31."


def _of_any_format(table: Table, text: pd.Series[str]) -> pd.Series[Any]:
    """Dates of ISO 8601 or of the one format that reads all, NaT where none; or an error."""
    dates = pd.Series(pd.NaT, text.index)
    if text.iloc[0][:4].isdigit() or text.iloc[-1][:4].isdigit():
        dates = pd.to_datetime(text, format="ISO8601", errors="coerce")
    if dates.notna().all() or not text.str.contains(r"\d").all():
        return dates
    forms = formats(text)
    known = getattr(table.options, "format", None)  # as in data, of fewer dates ahead
    if known in forms:
        forms = [known]
    if not forms:
        return dates
    if len(forms) > 1:
        raise ambiguous(text.rename(str(text.name)), forms, table.place)
    if forms[0] != known and re.search(r"%b|%B|%y| [A-Z]+$", forms[0]):
        got = f"{text.iloc[0]!r} in column {str(text.name)!r} {table.place(0)}"
        found = {"date_format": forms[0]}
        raise FileError("--time", "hold dates of one format", got, "Pass {}.", found)
    table.options.format = forms[0]
    return parsed_as(text, forms[0], _remedy(text, None))


def _no_dates(
    table: Table, column: pd.Series[Any], text: pd.Series[str], dates: pd.Series[Any]
) -> InvalidArgument:
    """The error of the first cell that is no date, with what all such cells need."""
    form, wrong = table.options.date_format, _wrong_dates(text, dates)
    rule = "hold dates or whole numbers" if form is None else f"hold dates as {form}"
    got = _cell(table, column, wrong)
    foreign = wrong & foreign_months(text)
    if foreign.any() and 3 * foreign.sum() >= wrong.sum():
        return refusal("--time", rule, _cell(table, column, foreign), _IN_ENGLISH)
    if found := _rows_without(table, text, column, wrong):
        return FileError("--time", rule, got, "Pass {}.", found)
    if form is not None and (others := formats(text)):
        rest = " or ".join(f"--date-format {shlex.quote(one)}" for one in others[1:])
        advice = f"Pass {{}} or {rest}." if rest else "Pass {}, or leave it out."
        return FileError("--time", rule, got, advice, {"date_format": others[0]})
    if form is None and re.match(r"\d{1,2}\D\d{1,2}\D\d", text[wrong].iloc[0]):
        rule = "hold dates of which the day and the month can be told apart, or whole numbers"
        return refusal("--time", rule, got, _DAYS_FIRST)
    return refusal("--time", rule, got, _remedy(text, form))


def _wrong_dates(text: pd.Series[str], dates: pd.Series[Any]) -> pd.Series[bool]:
    """Which values are no dates, by the format of most of them."""
    if dates.notna().mean() > 0.5:
        return dates.isna()
    digits = text[text.str.contains(r"\d")]
    for at in (len(digits) // 2, len(digits) // 3):
        if not len(digits):
            break
        some = digits.iloc[at : at + 3]
        if (periods := read_periods(some)) is not None and len(periods):
            sound = text.map(lambda one: read_periods(pd.Series([one])) is not None)
            return ~sound
        for form in formats(some):
            dates = pd.to_datetime(text, format=form, errors="coerce")
            if dates.notna().mean() > 0.5:
                return dates.isna()
    parsed = pd.to_datetime(text, format="ISO8601", errors="coerce")
    return parsed.isna()


def _rows_without(
    table: Table, text: pd.Series[str], column: pd.Series[Any], wrong: pd.Series[bool]
) -> dict[str, Any]:
    """Options that leave out rows without a date: units, totals, headers, lines at the end."""
    rows, n, options = np.flatnonzero(wrong.to_numpy()), len(wrong), table.options
    if not table.is_csv or not len(rows) or n - len(rows) < 2 or options.wide:
        return {}
    words = list(dict.fromkeys(text.iloc[rows]))
    empty = column.isna().to_numpy()[rows]
    top = int((~wrong.to_numpy()).argmax())
    if 0 < top <= 2 and len(rows) >= top and not options.units and not options.names:
        return {"units": top}
    if len(words) <= 3 and not empty.any() and max(map(len, words)) <= 20:
        return {"drop": tuple(words)}
    if _at_end(wrong):
        lines = table.lines_after(int(rows[0]))
        return {"skip_end": lines + options.skip_end}
    return {}
