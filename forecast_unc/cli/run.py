"""The entry point: errors are one line on standard error, and an exit code."""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Sequence
from typing import TextIO

from forecast_unc.cli.parser import make_parser
from forecast_unc.cli.writing import say

_WRONG = 2  # as of argparse
_INTERRUPTED = 130  # 128 and the number of the signal, as of a shell
_PIPE_CLOSED = 141
# Arguments of the package that the options call by another name.
_OPTIONS = {
    "n_jobs": "jobs",
    "n_origins": "origins",
    "seasonal_period": "period",
    "path": "load",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    argv : sequence of str, optional
        Arguments; by default those of the process.

    Returns
    -------
    int
        Exit code: 0; 1 where some series of a panel have no result; 2 after wrong usage or bad
        data, which is one line on standard error; 130 after an interrupt; 141 where nobody reads
        what is printed any more.
    """
    arguments = make_parser().parse_args(argv)
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _in_one_line
            code: int = arguments.run(arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        # Python flushes once more at its end, and would say what is wrong
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _PIPE_CLOSED
    except KeyboardInterrupt:
        say("interrupted")
        return _INTERRUPTED
    except (ValueError, TypeError, OSError) as error:
        say(_in_options(str(error), arguments))
        return _WRONG
    except MemoryError as error:
        say(f"data and --steps must fit in memory; got {error}. Take fewer rows or steps.")
        return _WRONG
    return code


def _in_options(message: str, arguments: argparse.Namespace) -> str:
    """The message of an error, which begins with an argument, with the option in its place."""
    name, _, rest = message.partition(" ")
    given = name if name in arguments else _OPTIONS.get(name, "")
    if given == "data" or given not in arguments or not rest.startswith("must "):
        return message
    return f"--{given.replace('_', '-')} {rest}"


def _in_one_line(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """A warning without the line of code that it came from."""
    say(str(message))
