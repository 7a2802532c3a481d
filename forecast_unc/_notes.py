"""Remarks on a series or a model: texts for the user, and their parts for what shows them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self


class Note(str):
    """A line of `notes_` or `choices_`, a str: a fact, and what can be done about it."""

    kind: str
    fact: str  # the text without the remedy
    places: tuple[Any, ...]
    remedy: str  # in terms of Python

    def __new__(cls, kind: str, fact: str, places: tuple[Any, ...] = (), remedy: str = "") -> Self:
        """A remark on places: positions in the series, open weekdays, or a value."""
        made = super().__new__(cls, f"{fact}; {remedy}" if remedy else fact)
        made.kind = kind
        made.fact = fact
        made.places = places
        made.remedy = remedy
        return made

    def __getnewargs__(self) -> tuple[Any, ...]:
        return self.kind, self.fact, self.places, self.remedy


class Notes(str):
    """Remarks on one series as one text, "" for none."""

    notes: tuple[str, ...]

    @classmethod
    def of(cls, notes: Iterable[str]) -> Self:
        """Remarks, joined."""
        several = tuple(notes)
        made = cls("; ".join(several))
        made.notes = several
        return made


def kind_of(line: str) -> str:
    """The kind of a remark; "" of another model's, which is text alone."""
    return line.kind if isinstance(line, Note) else ""
