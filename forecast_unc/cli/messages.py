"""Errors and remarks of the package, formatted for a shell: options in the place of arguments."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Collection

from forecast_unc._notes import Note, Notes
from forecast_unc.errors import InvalidArgument
from forecast_unc.panels.jobs import Failure
from forecast_unc.series.times import (
    AT_CLOCK_CHANGE,
    LOCAL_DAYS,
    DaysOfMonthsError,
    MissingTimesError,
)

AS_DEKADS = "Times are then whole numbers, 36 a year."
_LONGEST = 4000  # characters of a message

# Arguments of the package that options call by another name.
_RENAMED = {"by": "coverage_by", "seasonal_period": "period", "path": "load"}

# What to do in a shell, by the code of an error; else its own remedy stands.
_REMEDIES = {
    "absent": "Pass them with --exog and --exog-future.",
    "all rows": "Leave it out to learn from all rows.",
    "clock change": f"Aggregate the duplicates. {AT_CLOCK_CHANGE}",
    "local days": LOCAL_DAYS.format("write local dates, as 2024-01-31"),
    "long season": "Compare with another, such as --compare ets.",
    "lower": "Use --lower=-inf for no bound.",
    "lower of y": "Take a smaller one, or --lower=-inf for none.",
    "no dates": "Write times as dates, as 2024-01-31.",
    "no freq": "Pass --freq, for example --freq D.",
    "no lags": "Use 0 for none.",
    "no season": "Leave it out for the season of the times.",
    "order": "Sort its rows by time.",
    "refit": "1 fits at every origin, as many as --origins at the first alone.",
    "repeated": "Aggregate the duplicates.",
    "unreadable": "Give the file that --save wrote.",
    "upper": "Leave it out for no bound.",
    "upper of y": "Take a larger one, or leave it out.",
}

# What to do about a remark in a shell, by its kind and its places.
_ADVICE = {
    "closed": "leave these days out: pass --freq '{}'",
    "excursion": "if it will not recur, leave these fields empty",
    "highest": "if none can be, give --upper {:g}",
    "lower": "--lower=-inf for no bound",
    "outliers": "--outliers keep keeps them",
    "repeated": "if a meter failed, leave their fields empty",
    "shares": "pass --upper 1, too; --lower=-inf for no bound",
    "shift": "--outliers keep keeps them",
    "week": "--period {} is that of the week",
}


def say(message: object) -> None:
    """Print one line on standard error, with the name of the program."""
    line = " ".join(str(message).split())
    if len(line) > _LONGEST:  # such as all names of a file of many columns
        line = f"{line[: _LONGEST // 2]} ... {line[-_LONGEST // 2 :]}"
    print("forecast-unc:", line, file=sys.stderr)


def error_text(error: Exception, options: Collection[str]) -> str:
    """The text of an error about options, with its notes."""
    text = str(error)
    if isinstance(error, InvalidArgument):
        name = error.argument
        name = name if name in options else _RENAMED.get(name, name)
        option = option_of(name) if name in options else name
        text = str(error.but(argument=option, remedy=_remedy(error)))
    return text + "".join(f" ({note})" for note in getattr(error, "__notes__", ()))


def failure_text(reason: str) -> str:
    """Why a series of a panel failed."""
    if not isinstance(reason, Failure) or reason.error is None:
        return reason
    text = str(reason.error.but(remedy=_remedy(reason.error)))
    notes = "".join(f"; {note}" for note in reason.notes)
    return f"{reason.kind}: {text.rstrip('.') if notes else text}{notes}"


def note_text(note: str, loaded: bool = False) -> str:
    """A remark; of a loaded model without advice, which is on its fit."""
    if not isinstance(note, Note) or note.kind not in _ADVICE:
        return note
    return note.fact if loaded else f"{note.fact}; {_ADVICE[note.kind].format(*note.places)}"


def notes_text(notes: str) -> str:
    """The remarks on a series of a panel."""
    return "; ".join(map(note_text, notes.notes)) if isinstance(notes, Notes) else notes


def option_of(name: str) -> str:
    """A parameter as the user writes it."""
    return name if name == "data" else f"--{name.replace('_', '-')}"


def _remedy(error: InvalidArgument) -> str:
    """What to do about an error, in a shell."""
    if isinstance(error, DaysOfMonthsError) and error.freq:
        is_dekad = error.freq == "dekad"
        return f"Pass --to-period dekad. {AS_DEKADS}" if is_dekad else f"Pass --freq {error.freq}."
    if not isinstance(error, MissingTimesError) or error.code != "missing times":
        return _REMEDIES.get(error.code, error.remedy)
    advice, others = f"Pass --freq {shlex.quote(error.freq)}", "rows that are missing"
    if error.closed:
        advice = f"No row is on a {' or '.join(error.closed)}. {advice} to leave closed days out"
        others = "other rows that are missing"
    return f"{advice}: {others} are then missing values, which are uncertain, not filled."
