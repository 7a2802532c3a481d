"""Errors before the work for what would fail at its end."""

from __future__ import annotations

import errno
import math
import os
from itertools import combinations
from pathlib import Path
from typing import Any

from forecast_unc._checks import check_coverages, check_jobs, check_steps, refusal
from forecast_unc.cli.options import MODEL
from forecast_unc.cli.tables import STANDARD, check_table
from forecast_unc.evaluation.folds import percent

_INPUTS = ("data", "exog_future", "holidays", "load")
_OUTPUTS = ("output", "plot", "save", "report")
_PIPED = ("data", "exog_future", "output")  # - is standard input or output


def check_forecast(options: Any) -> None:
    """Raise for options of ``forecast`` that do not go together, or cannot be met."""
    if options.load is None:
        _check_data(options, " without --load")
    else:
        names = tuple(str(option.name) for option in MODEL)
        _check_without(options, "--load", names, "The file holds the model")
    if options.id is not None:
        one = ("sum", "prob_above", "plot", "save", "load")
        _check_without(options, "--id", one, "It is for a single series")
    if (options.exog is None) != (options.exog_future is None):
        given, absent = ("--exog", "--exog-future")
        if options.exog is None:
            given, absent = absent, given
        raise refusal(
            absent,
            f"be given with {given}",
            "none",
            "Regressors are needed in the past, columns of data, and at the steps ahead, columns "
            "of another file.",
        )
    if options.data == STANDARD == options.exog_future:
        must = "be a file if data is standard input"
        raise refusal("--exog-future", must, "- for both", "Name one.")
    for value in options.prob_above or ():
        if not math.isfinite(value):
            raise refusal("--prob-above", "be finite numbers", str(value), "Leave it out.")
    _check_common(options)


def check_backtest(options: Any) -> None:
    """Raise for options of ``backtest`` that cannot be met."""
    _check_data(options, "")
    _check_common(options)


def _check_data(options: Any, when: str) -> None:
    if options.data is None:
        raise refusal(
            "data",
            f"be given{when}",
            "none",
            "Name the file first: after an option that takes several values it would be one of "
            "them.",
        )


def _check_without(options: Any, option: str, others: tuple[str, ...], why: str) -> None:
    for name in others:
        value = vars(options)[name]
        if value is not None:
            said = " ".join(map(str, value)) if isinstance(value, list) else str(value)
            raise refusal(_spelled(name), f"be left out with {option}", said, f"{why}.")


def _check_common(options: Any) -> None:
    check_steps(options.steps, "--steps")
    check_jobs(options.jobs)
    columns = [*options.time.split(","), options.target, options.id, *(options.exog or ())]
    twice = [name for at, name in enumerate(columns) if name in columns[:at]]
    if twice:
        names, got = "--time, --target, --id and --exog", f"{twice[0]!r} twice"
        raise refusal(names, "name different columns", got, "Leave it out of one.")
    check_coverages(options.coverage)
    for one, other in combinations(options.coverage, 2):
        if percent(one) == percent(other):
            must, got = "be fractions that differ in 6 digits", f"{one:.15g} and {other:.15g}"
            raise refusal("--coverage", must, got, "Leave one of them out.")
    _check_files(options)


def _check_files(options: Any) -> None:
    """Raise unless what is written can be written, and overwrites neither the data nor itself."""
    files: dict[str, Path] = {}
    for name in (*_INPUTS, *_OUTPUTS):
        path, option = vars(options).get(name), _spelled(name)
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
    if option == "--plot":
        from matplotlib.backend_bases import FigureCanvasBase

        if path.suffix[1:].lower() not in FigureCanvasBase.get_supported_filetypes():
            must = "end in a picture format"
            raise refusal(option, must, repr(path.suffix), "Use .png, .svg or .pdf.")
    if path == STANDARD:
        raise refusal(option, "be a file", "-", "Name one.")
    for other, taken in files.items():
        if _is_same(path, taken):
            raise refusal(
                option, f"be another file than {other}", str(path), "Name one of its own."
            )
    _check_writable(option, path)


def _is_same(path: Path, other: Path) -> bool:
    """Whether two names are of one file, by symbolic or hard links too."""
    both = path.exists() and other.exists()
    return path.samefile(other) if both else path.resolve() == other.resolve()


def _check_readable(option: str, path: Path) -> None:
    """Raise unless a file is there; what is no file, such as a pipe, is not opened."""
    wrong, remedy = 0, "Correct the path."
    if not path.exists():
        wrong = errno.ENOENT
    elif path.is_dir():
        wrong, remedy = errno.EISDIR, "Name a file in it."
    elif not os.access(path, os.R_OK):
        wrong, remedy = errno.EACCES, "Ask its owner, or take a copy of it."
    if wrong:
        got = f"{path}: {os.strerror(wrong)}"
        raise refusal(option, "name a file that can be read", got, remedy)


def _check_writable(option: str, path: Path) -> None:
    absent = not path.exists()
    try:
        path.open("ab").close()
    except OSError as error:
        must = "name a file that can be written"
        got = f"{path}: {error.strerror}"
        raise refusal(option, must, got, "Name one in a folder that is there.") from error
    if absent:
        path.unlink()


def _spelled(name: str) -> str:
    return name if name == "data" else f"--{name.replace('_', '-')}"
