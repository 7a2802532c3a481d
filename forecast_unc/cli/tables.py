"""Tables from CSV, Parquet and standard input, with errors that name their lines."""

from __future__ import annotations

import csv
import importlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from forecast_unc._typing import Array

STANDARD = Path("-")  # standard input or output
_NAMES_OF_CSV = ("", ".csv", ".txt")
_COMPRESSED = (".gz", ".bz2", ".xz", ".zip")  # CSV, by pandas
_PARQUET = b"PAR1"  # how such a file begins
_TAB, _SPACES = "\\t", "\\s+"  # as they are typed


@dataclass(frozen=True)
class Form:
    r"""How a CSV file is written.

    Parameters
    ----------
    sep : str
        What stands between columns: one character, or ``\s+`` for any spaces.
    decimal : str
        What stands before decimals.
    comment : str or None
        Character from which on the rest of a line is skipped.
    missing : tuple of str
        What stands for a missing value, beside an empty field and pandas' own.
    """

    sep: str = ","
    decimal: str = "."
    comment: str | None = None
    missing: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "sep", "\t" if self.sep == _TAB else self.sep)
        for option, value in (
            ("--sep", None if self.sep == _SPACES else self.sep),
            ("--decimal", self.decimal),
            ("--comment", self.comment),
        ):
            if value is not None and len(value) != 1:
                also = ", \\t or \\s+" if option == "--sep" else ""
                raise ValueError(
                    f"{option} must be one character{also}; got {value!r}. Quote it for the shell."
                )


@dataclass(frozen=True, eq=False)
class Table:
    """The columns of a file.

    Parameters
    ----------
    frame : DataFrame
        Its rows, numbered from 0.
    name : str
        Of the file, for messages.
    source : Path or bytes
        The file, or what standard input or a pipe held.
    form : Form or None
        How it is written; None for Parquet, which has no lines.
    """

    frame: pd.DataFrame
    name: str
    source: Path | bytes
    form: Form | None

    def column(self, option: str, name: str) -> pd.Series[Any]:
        """A column that an option names, or an error that lists those there are."""
        if name in self.frame:
            return self.frame[name]
        names = ", ".join(map(repr, self.frame.columns))
        remedy = "" if self.form is None else _remedy(self.frame, self.form)
        raise ValueError(
            f"{option} must name a column of {self.name}; got {name!r}. "
            f"The file has {names}. {remedy}".rstrip()
        )

    def numbers(self, option: str, name: str, missing: Sequence[str]) -> Array:
        """Values of a column that an option names, (n,), NaN where missing; or an error."""
        column = self.column(option, name)
        values = pd.to_numeric(column, errors="coerce")
        text = column.astype(str).str.strip()
        gone = column.isna() | text.isin(missing)
        numbers = pd.to_numeric(pd.Series(missing, dtype=object), errors="coerce").dropna()
        gone |= values.isin(numbers.astype(float))
        wrong = values.isna() & ~gone
        if wrong.any() or pd.api.types.is_bool_dtype(column.dtype):
            row = int(wrong.to_numpy().argmax())
            raise ValueError(
                f"{option} must hold numbers; got {column.tolist()[row]!r} in column {name!r} "
                f"{self.place(row)}. Correct the value, or pass --missing {text[row]} if it stands "
                "for none."
            )
        given: Array = values.to_numpy(dtype=np.float64, na_value=np.nan)
        return np.where(gone, np.nan, given)

    def place(self, row: int) -> str:
        """Where a row stands: the line of a CSV file, where blank ones and comments count."""
        if self.form is None:
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
        if self.form.comment is not None:
            skipped |= lines.str.startswith(self.form.comment)
        return f"on line {int(lines.index[~skipped][row + 1]) + 1}"


def read_table(option: str, path: Path, form: Form) -> Table:
    """The table of a file, of CSV or Parquet, or an error.

    Parameters
    ----------
    option : str
        The argument that names it, for messages.
    path : Path
        The file; ``-`` for standard input. One that begins as Parquet does, or is so called, is
        read as such.
    form : Form
        How a CSV file is written.

    Returns
    -------
    Table

    Raises
    ------
    ValueError
        If it cannot be read, or has no rows.
    """
    if path == STANDARD:
        source: Path | bytes = sys.stdin.buffer.read()
    else:  # what is no file, such as <(...) of a shell, can be read once
        source = path if path.is_file() else path.read_bytes()
    name = "standard input" if path == STANDARD else str(path)
    parquet = _begins_with(source, _PARQUET) or is_parquet(path)
    frame = (
        _from_parquet(option, source, name) if parquet else _from_csv(option, source, name, form)
    )
    if frame.empty:
        raise ValueError(
            f"{option} must hold rows; got none in {name}. Write one row for each time."
        )
    return Table(frame, name, source, None if parquet else form)


def is_parquet(path: Path) -> bool:
    """Whether the name of a file says that it is Parquet.

    Parameters
    ----------
    path : Path
        The file.

    Returns
    -------
    bool
    """
    return path.suffix.lower() in (".parquet", ".pq")


def check_table(option: str, path: Path) -> None:
    """Raise unless the name of a file is that of a table that can be written.

    Parameters
    ----------
    option : str
        The argument that names the file.
    path : Path
        The file.
    """
    if is_parquet(path):
        check_pyarrow(option, path)
        return
    suffix = path.suffix.lower()
    plain = Path(path.stem).suffix.lower() if suffix in _COMPRESSED else suffix
    if plain not in _NAMES_OF_CSV:
        raise ValueError(
            f"{option} must end in .csv, .csv.gz, .txt or .parquet, or in no suffix; got "
            f"{path.name}. Use .csv, which spreadsheets open."
        )


def check_pyarrow(option: str, name: object) -> None:
    """Raise unless pyarrow is there to read or write Parquet.

    Parameters
    ----------
    option : str
        The argument that names the file.
    name : object
        The file.
    """
    try:
        importlib.import_module("pyarrow")  # which has no types
    except ImportError as error:
        raise ValueError(
            f"{option} must be CSV where pyarrow is missing; got {name}, which is Parquet. "
            "Install forecast_unc[dataframes]."
        ) from error


def _from_parquet(option: str, source: Path | bytes, name: str) -> pd.DataFrame:
    check_pyarrow(option, name)
    try:
        frame = pd.read_parquet(_opened(source), engine="pyarrow")
    except (ValueError, OSError, NotImplementedError) as error:
        raise ValueError(
            f"{option} must be a Parquet file; got {name}: {error}. Write it anew."
        ) from error
    named = [level is not None for level in frame.index.names]
    return frame.reset_index(drop=not all(named))


def _from_csv(option: str, source: Path | bytes, name: str, form: Form) -> pd.DataFrame:
    try:
        frame = pd.read_csv(
            _opened(source),
            sep=form.sep,
            decimal=form.decimal,
            comment=form.comment,
            skipinitialspace=True,
            low_memory=False,  # types of whole columns
        )
    except (ValueError, EOFError) as error:
        remedy = "Look at its first lines"
        if form.comment is None and _begins_with(source, b"#"):
            remedy = "Skip its comments with --comment '#'"
        elif source == b"":
            remedy = "Look at what should have come through the pipe"
        raise ValueError(
            f"{option} must be a CSV file with a header; got {name}: {error}. {remedy}."
        ) from error
    if not isinstance(frame.index, pd.RangeIndex):
        raise ValueError(
            f"{option} must have as many values in each row as names in the header; "
            f"got more in {name}. {_remedy(frame, form) or 'Name every column.'}"
        )
    return frame


def _remedy(frame: pd.DataFrame, form: Form) -> str:
    """What to do where the names of columns look as if they were not told apart."""
    names = "".join(map(str, frame.columns))
    if names.startswith("#"):
        return "Skip its comments with --comment '#'."
    if form.sep == "," and ";" in names:
        return "If semicolons separate the columns, pass --sep ';', and --decimal , for 1,5."
    if form.sep == "," and "\t" in names:
        return "If tabs separate the columns, pass --sep '\\t'."
    return ""


def _begins_with(source: Path | bytes, start: bytes) -> bool:
    if isinstance(source, bytes):
        return source.startswith(start)
    with source.open("rb") as file:
        return file.read(len(start)) == start


def _opened(source: Path | bytes) -> Any:
    return BytesIO(source) if isinstance(source, bytes) else source
