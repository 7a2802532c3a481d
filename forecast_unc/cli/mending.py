"""Errors of reading a file that know the options that mend them, and all that one file needs."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any, TypeVar

from forecast_unc.cli.messages import error_text, option_of
from forecast_unc.errors import ArgumentError, InvalidArgument
from forecast_unc.series.times import MissingTimesError, UnevenTimesError

_T = TypeVar("_T")

OR_POINTS = ", and --decimal , for 1,5"  # where no number shows the mark
_ADDED = ("missing", "drop", "remove")  # to what was given of them
_MOST = 12  # errors of one file, each mended by an option


class FileError(ArgumentError):
    """An error about a file that `options` mend; {} in `advice` stands for them as they are typed.

    `also` says what else they may be.
    """

    def __init__(
        self,
        argument: str,
        rule: str,
        got: str,
        advice: str,
        options: Mapping[str, Any],
        also: str = "",
    ) -> None:
        self.advice, self.options, self.also = advice, dict(options), also
        self.needed = self.options  # all that the file needs
        super().__init__(argument, rule, got, self.with_options(self.options, also))

    def with_options(self, options: Mapping[str, Any], also: str) -> str:
        """The remedy, with these options."""
        advice = self.advice.replace(OR_POINTS, "") if "decimal" in options else self.advice
        return " ".join(filter(None, [advice.replace("{}", typed(options)), also]))


def typed(options: Mapping[str, Any]) -> str:
    """Options as they are typed."""
    words = []
    for name, value in options.items():
        for one in value if isinstance(value, tuple) else (value,):
            words.append(option_of(name))
            words += [] if one is True else [shlex.quote(str(one))]
    return " ".join(words)


def advised(read: Callable[[Any], _T], options: Any) -> _T:
    """What is read; or an error that names all options that the file needs, found one by one."""
    try:
        return read(options)
    except FileError as wrong:
        first = wrong
    needed: dict[str, Any] = {}
    also: list[str] = []
    error: InvalidArgument | None = first
    for _ in range(_MOST):
        more, remark = options_of(error)
        if not more or all(needed.get(name) == value for name, value in more.items()):
            break
        for name, value in more.items():
            before = needed.get(name, ()) if name in _ADDED else ()
            needed[name] = (*before, *value) if before else value
        also += [remark] if remark and remark not in also else []
        given = {name: vars(options)[name] for name in _ADDED}
        trial = {name: (*given.get(name, ()), *value) if name in _ADDED else value
                 for name, value in needed.items()}  # fmt: skip
        try:
            read(SimpleNamespace(**{**vars(options), **trial}))
            error = None
        except InvalidArgument as wrong:
            error = wrong
    few = error is not None and error.code == "too few times"
    if error is not None and error is not first and not few:
        also.append(f"Then: {error_text(error, vars(options))}")
    mended: FileError = first.but(remedy=first.with_options(needed, " ".join(also)))
    mended.needed = needed
    raise mended


def options_of(error: InvalidArgument | None) -> tuple[dict[str, Any], str]:
    """The options that mend an error, and what else to say of them."""
    if isinstance(error, FileError):
        return error.options, error.also
    if isinstance(error, MissingTimesError) and error.code == "missing times":
        return {"freq": error.freq}, "Rows that are missing are then missing values."
    if isinstance(error, UnevenTimesError):
        return {"to_period": error.freq}, ""
    return {}, ""
