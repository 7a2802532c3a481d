"""Where the table of a file begins and ends, what separates it, and which columns are its times."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import is_integer_dtype, is_numeric_dtype

from forecast_unc.cli.dates import formats, part_of_date, read_periods, starts
from forecast_unc.series.times import epoch_unit

_SEPARATORS = ("\t", ";", "|", ",")
_FIRST_LINES = 300
_MOST_COLUMNS = 100  # that are looked at
_MOST_END = 30  # lines below a table
_NUMBER = re.compile(r"[^A-Za-z]*\d[^A-Za-z]*")


def layout(content: bytes, sep: str, comment: str | None) -> dict[str, Any]:
    """Options by which the table of a CSV file is found: separator, lines above and below it."""
    text = content[: 1 << 20].decode("utf-8", "replace").splitlines()
    lines = text[:_FIRST_LINES]
    widths: dict[str, tuple[int, int, dict[int, list[str]]]] = {}
    best = ""
    for each in dict.fromkeys([*_SEPARATORS, "\\s+"]):
        rows = {
            i: _fields(line, each) for i, line in enumerate(lines)
            if line.strip() and not (comment and line.startswith(comment))
        }  # fmt: skip
        counts = Counter(len(row) for row in rows.values() if len(row) > 1)
        if not counts:
            continue
        width, n = max(counts.items(), key=lambda item: (item[1] * min(item[0], 3), item[0]))
        weak = each == "\\s+" and best and widths[best][1] >= n / 2
        if not weak and (not best or n > widths[best][1]):
            best, widths[each] = each, (width, n, rows)
    if not best:
        return {}
    width, _, rows = widths[best]
    found: dict[str, Any] = {} if best == sep or (best == "\t" and sep == "\\t") else {
        "sep": "\\t" if best == "\t" else best
    }  # fmt: skip
    header = _header(rows, width)
    if header is None:
        return found
    first, named = header
    if any(i in rows for i in range(first)):
        found["skip"] = first
    if not named:
        names = ["ds", "y", *(f"column{i}" for i in range(3, len(rows[first]) + 1))]
        found["names"] = ",".join(names[: len(rows[first])])
    after = content.rstrip().decode("utf-8", "replace").splitlines()[-_MOST_END:]
    of_data = Counter(row[0][:1].isdigit() for row in rows.values() if len(row) == width)
    with_digit = of_data.most_common(1)[0][0]
    odd = []
    for line in after:
        fields = _fields(line, best)
        fits = len(fields) == width or (len(fields) == width + 1 and not fields[-1])
        odd.append(not fits or fields[0][:1].isdigit() != with_digit)
    below = next((i for i, wrong in enumerate(reversed(odd)) if not wrong), 0)
    return found | ({"skip_end": below} if 0 < below < len(rows) - 3 else {})


def _fields(line: str, sep: str) -> list[str]:
    if sep == "\\s+":
        return line.split()
    try:
        return [field.strip() for field in next(csv.reader([line], delimiter=sep), [])]
    except csv.Error:
        return []


def _header(rows: dict[int, list[str]], width: int) -> tuple[int, bool] | None:
    """The first line of the table, and whether it names its columns."""
    full = [i for i, row in rows.items() if len(row) == width]
    digits = [i for i in full if rows[i][0][:1].isdigit()]
    first, at = (digits[0] if 2 * len(digits) > len(full) else 0), list(rows)
    gaps = [i for i in full if i < first and i - 1 not in rows]  # after a blank line
    at = [i for i in at if i >= max(gaps, default=0)]
    filled = Counter(sum(map(bool, row)) for row in rows.values() if len(row) == width)
    usual = filled.most_common(1)[0][0]
    for here, following in zip(at, [*at[1:], at[-1]], strict=True):
        row, cells = rows[here], sum(map(bool, rows[here]))
        fits = abs(len(row) - width) <= 1 and cells >= min(0.6 * usual, usual - 1)
        if len(row) > 1 and fits and cells > 1 and abs(len(rows[following]) - width) <= 1:
            name = next(filter(None, row), "")
            is_data = bool(_NUMBER.fullmatch(name)) and any(
                _NUMBER.fullmatch(cell) for cell in row[1:]
            )
            return here, not is_data or not row[0]
    return None


def time_columns(frame: pd.DataFrame) -> tuple[str, ...]:
    """The columns that make the times of a frame, as far as its first rows show; or none."""
    frame = frame.iloc[:, :_MOST_COLUMNS]
    some = frame.head(60)
    parts: dict[str, str] = {}
    for each in frame.columns:
        if (part := part_of_date(each)) and part not in parts:
            parts[part] = str(each)
    for name, column in some.items():
        values = column.dropna()
        if not len(values):
            continue
        if pd.api.types.is_datetime64_any_dtype(column.dtype) or _is_date(values):
            hour = parts.get("hour")
            if hour in frame and hour != name and values.duplicated().any():
                return str(name), str(hour)
            texts = [c for c in frame.columns if c != name and not is_numeric_dtype(frame[c].dtype)]
            clock = next((c for c in texts if re.match(r"(?i)time|zeit|heure|hora", str(c))), None)
            if clock is not None and values.duplicated().any():
                return str(name), str(clock)
            return (str(name),)
    if "year" in parts:
        for chain in (("month", "day", "hour"), ("month", "day"), ("month",), ("quarter",),
                      ("week",), ("day_of_year",)):  # fmt: skip
            if all(part in parts for part in chain):
                return (parts["year"], *(parts[part] for part in chain))
    for name, column in some.items():
        if is_integer_dtype(column.dtype) and _counts_time(column, frame[name]):
            return (str(name),)
        if re.match(r"(?i)(date|time|ds|t|year|index)$", str(name)) and is_numeric_dtype(
            column.dtype
        ):
            return (str(name),)
    texts = [str(c) for c in frame.columns if not is_numeric_dtype(frame[c].dtype)]
    of_digits = [c for c in texts if some[c].astype(str).str.contains(r"\d").all()]
    return (of_digits[0],) if texts and of_digits == texts[:1] else ()


def _counts_time(some: pd.Series[Any], column: pd.Series[Any]) -> bool:
    """Whether whole numbers look like epochs, dates of digits, or years."""
    if epoch_unit(pd.Index(some)):
        return True
    if some.between(19000101, 21001231).all() and column.is_unique:
        return bool(
            pd.to_datetime(some.astype(str), format="%Y%m%d", errors="coerce").notna().all()
        )
    return bool(some.between(1700, 2200).all() and (np.diff(some) == 1).all() and len(some) > 1)


def _is_date(values: pd.Series[Any]) -> bool:
    """Whether text is dates, but for a value or two."""
    if is_numeric_dtype(values.dtype):
        return False
    text = values.astype(str).str.strip()
    some = text.iloc[len(text) // 3 :][:9]
    if not some.str.contains(r"\d").all():
        return False
    some = starts(some)
    iso = pd.to_datetime(some, format="ISO8601", errors="coerce").notna().all()
    return bool(iso or read_periods(some) is not None or formats(some))


def value_columns(frame: pd.DataFrame, others: Sequence[str]) -> list[str]:
    """Columns that hold numbers, in any style, beside those of times and ids."""
    found, counts = [], []
    for name, column in frame.iloc[:, :_MOST_COLUMNS].items():
        if str(name) in others or part_of_date(name) or str(name).startswith("Unnamed"):
            continue
        text = column.dropna().astype(str).str.strip()
        whole = is_integer_dtype(column.dtype) and len(column) > 2
        if len(column) > 2 and (column == column.iloc[0]).all():
            counts.append(str(name))  # such as the number of a station
            continue
        if whole and (epoch_unit(pd.Index(column)) or (column.diff().dropna().abs() == 1).all()):
            counts.append(str(name))  # numbers of rows, and times
            continue
        digits = text.str.fullmatch(r"\D{0,4}\d[\d.,'\s]*\D{0,4}").mean() if len(text) else 0
        if is_numeric_dtype(column.dtype) or digits > 0.5:
            found.append(str(name))
    return found or counts
