"""Errors before the work for what would fail at its end."""

from __future__ import annotations

import argparse
import errno
import math
import os
from pathlib import Path

from forecast_unc._checks import check_jobs, check_steps
from forecast_unc.cli.models import OPTIONS
from forecast_unc.cli.tables import STANDARD, check_table
from forecast_unc.distributions import scores
from forecast_unc.evaluation.folds import percent

_INPUTS = ("data", "exog_future", "holidays", "load")
_OUTPUTS = ("output", "plot", "save", "report")
_PIPED = ("data", "exog_future", "output")  # - is standard input or output


def check_forecast(arguments: argparse.Namespace) -> None:
    """Raise for options of ``forecast`` that do not go together, or cannot be met.

    Parameters
    ----------
    arguments : Namespace
        The options.
    """
    if arguments.load is None:
        _check_data(arguments, " without --load")
    else:
        _check_without(arguments, "--load", OPTIONS, "The file holds the model")
    if arguments.id is not None:
        one = ("sum", "prob_above", "plot", "save", "load")
        _check_without(arguments, "--id", one, "It is for a single series")
    if (arguments.exog is None) != (arguments.exog_future is None):
        given, absent = ("--exog", "--exog-future")
        if arguments.exog is None:
            given, absent = absent, given
        raise ValueError(
            f"{absent} must be given with {given}; got none. Regressors are needed in the past, "
            "columns of data, and at the steps ahead, columns of another file."
        )
    if arguments.data == STANDARD == arguments.exog_future:
        raise ValueError(
            "--exog-future must be a file if data is standard input; got - for both. Name one."
        )
    for value in arguments.prob_above or ():
        if not math.isfinite(value):
            raise ValueError(f"--prob-above must be finite numbers; got {value}. Leave it out.")
    _check_common(arguments)


def check_backtest(arguments: argparse.Namespace) -> None:
    """Raise for options of ``backtest`` that cannot be met.

    Parameters
    ----------
    arguments : Namespace
        The options.
    """
    _check_data(arguments, "")
    _check_common(arguments)


def _check_data(arguments: argparse.Namespace, when: str) -> None:
    if arguments.data is None:
        raise ValueError(
            f"data must be given{when}; got none. Name the file first: after an option that takes "
            "several values it would be one of them."
        )


def _check_without(
    arguments: argparse.Namespace, option: str, others: tuple[str, ...], why: str
) -> None:
    for name in others:
        value = getattr(arguments, name)
        if value is not None:
            raise ValueError(
                f"{_spelled(name)} must be left out with {option}; got {_said(value)}. {why}."
            )


def _check_common(arguments: argparse.Namespace) -> None:
    check_steps(arguments.steps, "--steps")
    check_jobs(arguments.jobs)
    columns = [*arguments.time.split(","), arguments.target, arguments.id, *(arguments.exog or ())]
    twice = [name for at, name in enumerate(columns) if name in columns[:at]]
    if twice:
        raise ValueError(
            "--time, --target, --id and --exog must name different columns; got "
            f"{twice[0]!r} twice. Leave it out of one."
        )
    scores.check_coverages(arguments.coverage)
    names: dict[str, float] = {}
    for level in arguments.coverage:
        if percent(level) in names:
            raise ValueError(
                "--coverage must be fractions that differ in 6 digits; got "
                f"{names[percent(level)]:.15g} and {level:.15g}. Leave one of them out."
            )
        names[percent(level)] = level
    _check_files(arguments)


def _check_files(arguments: argparse.Namespace) -> None:
    """Raise unless what is written can be written, and overwrites neither the data nor itself."""
    if arguments.plot is not None:
        from matplotlib.backend_bases import FigureCanvasBase

        formats = FigureCanvasBase.get_supported_filetypes()
        if arguments.plot.suffix[1:].lower() not in formats:
            raise ValueError(
                f"--plot must end in a picture format; got {arguments.plot.suffix!r}. "
                "Use .png, .svg or .pdf."
            )
    files: dict[str, Path] = {}
    for name in (*_INPUTS, *_OUTPUTS):
        path, option = getattr(arguments, name, None), _spelled(name)
        if path is None or (path == STANDARD and name in _PIPED):
            continue
        if name in _OUTPUTS:
            _check_output(option, path, files)
        files[option] = path
    if "--output" in files:
        check_table("--output", files["--output"])
    for name in _INPUTS:
        if _spelled(name) in files:
            _check_readable(_spelled(name), files[_spelled(name)])


def _check_output(option: str, path: Path, files: dict[str, Path]) -> None:
    if path == STANDARD:
        raise ValueError(f"{option} must be a file; got -. Name one.")
    for other, taken in files.items():
        if _is_same(path, taken):
            raise ValueError(
                f"{option} must be another file than {other}; got {path}. Name one of its own."
            )
    _check_writable(option, path)


def _is_same(path: Path, other: Path) -> bool:
    """Whether two names are of one file, by symbolic or hard links too."""
    both = path.exists() and other.exists()
    return path.samefile(other) if both else path.resolve() == other.resolve()


def _check_readable(option: str, path: Path) -> None:
    """Raise unless a file is there; what is no file, such as a pipe, is not opened."""
    wrong, remedy = 0, "Correct the path"
    if not path.exists():
        wrong = errno.ENOENT
    elif path.is_dir():
        wrong, remedy = errno.EISDIR, "Name a file in it"
    elif not os.access(path, os.R_OK):
        wrong, remedy = errno.EACCES, "Ask its owner, or take a copy of it"
    if wrong:
        raise ValueError(
            f"{option} must name a file that can be read; got {path}: {os.strerror(wrong)}. "
            f"{remedy}."
        )


def _check_writable(option: str, path: Path) -> None:
    absent = not path.exists()
    try:
        path.open("ab").close()
    except OSError as error:
        raise ValueError(
            f"{option} must name a file that can be written; got {path}: {error.strerror}. "
            "Name one in a folder that is there."
        ) from error
    if absent:
        path.unlink()


def _spelled(name: str) -> str:
    return name if name == "data" else f"--{name.replace('_', '-')}"


def _said(value: object) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)
