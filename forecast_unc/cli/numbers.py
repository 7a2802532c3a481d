"""Numbers of a column of a table; an error about a cell that is none has the options that mend it.

A column of text is read in one way, that of the options; in which other way it may be meant is a
table of rows, the first of which fits.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from pandas.api.types import is_bool_dtype, is_numeric_dtype

from forecast_unc._checks import refusal
from forecast_unc._typing import Array
from forecast_unc.cli.dates import Table
from forecast_unc.cli.mending import FileError
from forecast_unc.errors import InvalidArgument

# Numbers that stand for a missing value in files of sensors and weather services.
_SENTINELS = {-99.0, -99.9, -99.99, -200.0, -999.0, -999.9, -999.99, -9999.0, -9999.9,
              -9999.99, -99999.0, -32768.0, 999.0, 999.9, 999.99, 9999.0, 9999.9,
              9999.99, 99999.0, 999999.0}  # fmt: skip
_GROUPED = r"[+-]?\d{{1,3}}({0}\d{{3}})+({1}\d*)?"  # 1,234.50, of two marks
_NUMBER = r"([^\d+-]*?)\s*[+-]?\d[\d.,'\s]*?\s*(\D*?)\.?"  # of any style, beside a unit
_MINUS = {0x2212: "-", 0x2013: "-"}  # a minus and an en dash of typesetting
_WITH_COMMA = r"[+-]?(\d{1,3}(\.\d{3})*|\d+),\d*"  # 1.234,50
_SPACES = (" ", "\xa0", "\u202f", "'", "\u2019")  # between thousands
_MAGNITUDES = {"K", "M", "B", "BN", "MN", "T"}


def numbers(table: Table, option: str, column: pd.Series[Any]) -> Array:
    """Values (n,) of a column that an option names, NaN where missing; or an error."""
    is_text, options = not is_numeric_dtype(column.dtype), table.options
    missing = [word.translate(_MINUS) for word in options.missing]
    text = column.astype(str).str.strip()
    if is_text:
        text = _stripped(text.str.translate(_MINUS), options.remove)
    values = pd.to_numeric(_with_points(text, table) if is_text else column, errors="coerce")
    missing_numbers = pd.to_numeric(pd.Series(missing, dtype=object), errors="coerce").dropna()
    gone = column.isna() | text.isin(missing) | values.isin(missing_numbers.astype(float))
    wrong = values.isna() & ~gone
    if option == "--exog" and len(text[~gone]) and text[~gone].isin(["True", "False"]).all():
        return np.where(gone, np.nan, text == "True")
    if wrong.any() or is_bool_dtype(column.dtype):
        raise _error(_Cells(table, option, column, text, wrong, text[~gone]))
    given: Array = values.to_numpy(dtype=np.float64, na_value=np.nan)
    if not is_text:
        _warn_of_thousands(table, str(column.name), values[~gone])
    _warn_of_sentinels(str(column.name), given[~gone])
    return np.where(gone, np.nan, given)


def _stripped(text: pd.Series[str], words: tuple[str, ...]) -> pd.Series[str]:
    """Text of numbers without the words of --remove, before or after them."""
    for word in words:
        marked = text.str.startswith(word) | text.str.endswith(word)
        text = text.mask(marked, text.str.removeprefix(word).str.removesuffix(word).str.strip())
        unsigned = text.str.slice(1).str.strip()  # as of - $5
        signed = text.str.match(r"[+-]\s*\D") & unsigned.str.startswith(word)
        text = text.mask(signed, text.str.slice(0, 1) + unsigned.str.removeprefix(word).str.strip())
    return text


def _grouped(mark: str, decimal: str) -> str:
    """The pattern of a number with a mark between its thousands."""
    return _GROUPED.format(re.escape(mark), re.escape(decimal))


def _with_points(text: pd.Series[str], table: Table) -> pd.Series[str]:
    """Numbers as text, with a point before decimals and no mark between thousands."""
    mark, decimal = table.options.thousands, table.options.decimal
    if mark is not None:
        grouped = text.str.fullmatch(_grouped(mark, decimal), na=False)
        text = text.mask(grouped, text.str.replace(mark, "", regex=False))
    if decimal == "." or not table.is_csv:
        return text
    # of 1.720 with a decimal comma nobody knows whether it is 1720
    return text.str.translate({ord("."): "?", ord(decimal): "."})


class _Cells(NamedTuple):
    """A column of which some cells are no numbers, or all are truth values."""

    table: Table
    option: str
    column: pd.Series[Any]
    text: pd.Series[str]  # without blanks and what --remove takes off
    wrong: pd.Series[bool]  # which are no numbers
    given: pd.Series[str]  # the text of cells that are not missing

    @property
    def row(self) -> int:
        """The first row that is no number."""
        return int(self.wrong.to_numpy().argmax())

    @property
    def first(self) -> str:
        """The text of that row."""
        return str(self.text[self.row])

    @property
    def decimal(self) -> str:
        """The decimal mark by which they were read."""
        return str(self.table.options.decimal)

    @property
    def words(self) -> list[str]:
        """What is no number, each once."""
        return list(dict.fromkeys(self.text[self.wrong]))

    def all_are(self, pattern: str) -> bool:
        """Whether a pattern fits all cells that are not missing."""
        return bool(self.given.str.fullmatch(pattern).all())


_Found = dict[str, Any] | None  # options that read the cells; {} if none do; None: it is not so


def _rows_apart(cells: _Cells) -> _Found:
    """Rows that are units below the header, or the header again."""
    table, time = cells.table, str(cells.table.options.time[0])
    rows, n = np.flatnonzero(cells.wrong.to_numpy()), len(cells.wrong)
    if not len(rows) or not table.is_csv or len(rows) > max(30, n // 4) or n - len(rows) < 2:
        return None
    texts = cells.column.astype(object).iloc[rows].astype(str)
    if (texts.str.strip() == str(cells.column.name)).all():
        return {"drop": (time,)} if time in table.frame else None
    at_top = rows[0] == 0 and rows[-1] == len(rows) - 1 < 2
    if at_top and not table.options.units and not table.options.wide:
        others = table.frame.iloc[rows].astype(str).to_numpy().ravel()
        if not any(re.search(r"\d", word) for word in [*texts, *others]):
            return {"units": len(rows)}
    return None


def _spaced_thousands(cells: _Cells) -> _Found:
    """Thousands apart by blanks of any kind, as 1 234,5."""
    fits = (mark for mark in _SPACES if re.match(rf"[+-]?\d{{1,3}}({mark}\d{{3}})+", cells.first))
    mark = next(fits, None)
    if mark is None or cells.table.options.thousands is not None:
        return None
    with_comma = cells.decimal == "." and cells.text.str.contains(r"\d,\d{1,2}$").any()
    return {"thousands": mark, "decimal": ","} if with_comma else {"thousands": mark}


def _thousands(cells: _Cells) -> _Found:
    """Thousands apart by the mark that is not that of decimals, as 1,234.5."""
    mark = "," if cells.decimal == "." else "."
    if not re.fullmatch(_grouped(mark, cells.decimal), cells.first):
        return None
    threes = cells.all_are(r"[+-]?\d{1,3}(,\d{3})+(\.\d*)?|[+-]?\d{1,3}(\.\d*)?")
    return {"thousands": mark} if threes or cells.decimal != "." else None


def _points_of_thousands(cells: _Cells) -> _Found:
    """Thousands apart by points, as 1.234.567."""
    is_such = cells.decimal == "." and re.fullmatch(_grouped(".", "."), cells.first)
    return {"thousands": ".", "decimal": ","} if is_such else None


def _decimal_commas(cells: _Cells) -> _Found:
    """A comma before decimals, as 1,5 or 1.234,5."""
    of_first = re.fullmatch(_WITH_COMMA, cells.first)
    one_mark = cells.all_are(r"[+-]?\d{1,3}(\.\d{3})*,\d+|[+-]?\d+(,\d*)?")
    some = of_first or (one_mark and cells.given.str.fullmatch(r"[+-]?\d*,\d*").any())
    if cells.decimal != "." or not some:
        return None
    grouped = cells.text.str.contains(r"\d\.\d{3}(?:\D|$)").any()
    return {"decimal": ",", "thousands": "."} if grouped else {"decimal": ","}


def _yes_and_no(cells: _Cells) -> _Found:
    """A regressor of two words."""
    return {} if cells.option == "--exog" and cells.given.nunique() == 2 else None


def _words_for_missing(cells: _Cells) -> _Found:
    """A few words without a digit."""
    words = cells.words
    few = 0 < len(words) <= 6 and not any(re.search(r"\d", word) for word in words)
    return {"missing": tuple(words)} if few else None


def _unit(cells: _Cells) -> str:
    """The unit beside the first number, or ""."""
    beside = re.fullmatch(_NUMBER, cells.first)
    return beside[1] or beside[2] if beside else ""


def _units(cells: _Cells) -> _Found:
    """A unit before or after numbers, of one magnitude."""
    unit = _unit(cells)
    if not unit or unit in ("<", ">", "(") or not cells.table.is_csv:
        return None
    beside = [m for cell in cells.words[:200] if (m := re.fullmatch(_NUMBER, cell))]
    units = {(m[1] or m[2]).strip() for m in beside}
    magnitudes = {each.upper() for each in units} & _MAGNITUDES
    return {"remove": (unit,)} if not magnitudes or len(units) == 1 else None


# What cells that are no numbers may be, the first that they are, and the advice, with {{}} for the
# options that read them.
_MEANT: tuple[tuple[Callable[[_Cells], _Found], str], ...] = (
    (_rows_apart, "Pass {{}}."),
    (_spaced_thousands, "If it separates thousands, pass {{}}"),
    (_thousands, "If {thousands} separates thousands, pass {{}}"),
    (_points_of_thousands, "If {thousands} separates thousands, pass {{}}"),
    (_decimal_commas, "If the comma is the decimal mark, pass {{}}"),
    (_yes_and_no, "Write the column as 0 and 1."),
    (_words_for_missing, "Correct the value, or pass {{}} if it stands for none."),
    (_units, "Remove the unit {remove[0]}, or pass {{}}, which takes it off."),
)


def _error(cells: _Cells) -> InvalidArgument:
    """The error of the first cell that is no number, with what all such cells need."""
    value, place = cells.column.tolist()[cells.row], cells.table.place(cells.row)
    got = f"{value!r} in column {cells.column.name!r} {place}"
    must = "hold numbers"
    for options_of, advice in _MEANT:
        options = options_of(cells)
        if options:
            return FileError(cells.option, must, got, advice.format(**options), options)
        if options is not None:
            return refusal(cells.option, must, got, advice)
    remedy = f"Correct the value, or pass --missing {cells.first} if it stands for none."
    if re.fullmatch(_NUMBER, cells.first):
        unit = _unit(cells)
        remedy = f"Remove the unit {unit}." if unit else "Correct the value."
    return refusal(cells.option, must, got, remedy)


def _warn_of_sentinels(name: str, values: Array) -> None:
    """Warn of a sentinel that occurs often and far from all other values."""
    if len(values) < 10:
        return
    for extreme, is_least in ((values.min(), True), (values.max(), False)):
        others = values[values != extreme]
        n = len(values) - len(others)
        if n < 3 or len(others) < 3 or extreme not in _SENTINELS:
            continue
        spread = np.ptp(others)
        apart = others.min() - extreme if is_least else extreme - others.max()
        # a negative sentinel is below all others, a positive one above
        if apart > max(spread, 1.0) * 0.5 and (extreme < 0) == is_least:
            warnings.warn(
                f"column {name!r} holds {extreme:g} {n} times, and else from {others.min():g} "
                f"to {others.max():g}. Pass --missing {extreme:g} if it stands for none.",
                stacklevel=2,
            )


def _warn_of_thousands(table: Table, name: str, values: pd.Series[float]) -> None:
    """Warn of numbers that all look like 1.360 or 980, of which pandas makes 1.36 and 980."""
    marks = table.options.thousands, table.options.decimal
    if not table.is_csv or marks != (None, ".") or not values.round(3).equals(values):
        return
    text: Any = table.written(name)[values.index].str.strip()
    grouped = text.str.fullmatch(r"[+-]?[1-9]\d{0,2}\.\d{3}")
    if 0 < grouped.sum() < len(text) and text[~grouped].str.fullmatch(r"[+-]?\d{1,3}").all():
        row = int(grouped.idxmax())
        warnings.warn(
            f"column {name!r} holds {text[row]} {table.place(row)} and numbers of three digits "
            f"or fewer, as if points separated thousands; it is read as {values[row]:g}. Pass "
            "--thousands . --decimal , if they do.",
            stacklevel=2,
        )
