"""Errors about an argument, as data: the text is made of the fields, and never taken apart."""

from __future__ import annotations

import copy
from typing import Any, Self


class InvalidArgument(Exception):
    """An argument that cannot be taken: an `ArgumentError` or an `ArgumentTypeError`.

    Its text is ``{argument} must {rule}; got {got}. {remedy}``, and `context`, if there is one.

    Attributes
    ----------
    argument : str
        Name of the argument, or of several.
    rule : str
        What it must do, a verb first, such as "be finite".
    got : str
        What came instead, often with the first time at which it did.
    remedy : str
        What to do, a sentence.
    code : str
        A word that tells cases of one argument apart, such as "order"; mostly empty.
    context : str
        A sentence on where it happened; mostly empty.
    """

    def __init__(
        self, argument: str, rule: str, got: str, remedy: str, code: str = "", context: str = ""
    ) -> None:
        self.argument = argument
        self.rule = rule
        self.got = got
        self.remedy = remedy
        self.code = code
        self.context = context
        super().__init__(self._text())

    def _text(self) -> str:
        text = f"{self.argument} must {self.rule}; got {self.got}. {self.remedy}"
        return f"{text} {self.context}" if self.context else text

    def but(self, **fields: str) -> Self:
        """The same error with other fields."""
        changed = copy.copy(self)
        vars(changed).update(fields)
        changed.args = (changed._text(),)
        return changed

    def __reduce__(self) -> tuple[Any, ...]:
        return _bare, (type(self), *self.args), vars(self)


class ArgumentError(InvalidArgument, ValueError):
    """A value that an argument cannot have; see `InvalidArgument` for its fields."""


class ArgumentTypeError(InvalidArgument, TypeError):
    """A type that an argument cannot have; see `InvalidArgument` for its fields."""


class ArgumentFileNotFoundError(InvalidArgument, FileNotFoundError):
    """A file in a folder that is not there; see `InvalidArgument` for its fields."""


class ArgumentFileExistsError(InvalidArgument, FileExistsError):
    """A file where a folder is to be; see `InvalidArgument` for its fields."""


class ArgumentNotADirectoryError(InvalidArgument, NotADirectoryError):
    """A file where a path has a folder; see `InvalidArgument` for its fields."""


class ArgumentZeroDivisionError(InvalidArgument, ZeroDivisionError):
    """A division by 0; see `InvalidArgument` for its fields."""


def _bare(kind: type[InvalidArgument], *args: Any) -> InvalidArgument:
    """An error without fields, which `pickle` and `copy` set afterwards."""
    made = kind.__new__(kind, *args)
    made.args = args  # which an OSError takes in `__init__`
    return made
