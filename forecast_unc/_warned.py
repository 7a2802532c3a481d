"""Warnings of jobs: recorded where they run, and given once each where they were started."""

import threading
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

Warned = tuple[type[Warning], str, str, int]  # category, text, file and line


@contextmanager
def recorded(alone: bool = False) -> Iterator[list[Warned]]:
    """The different warnings inside a ``with``, complete after it.

    In threads other than the main one they go their way, as `catch_warnings` is one for all
    threads, unless this process is `alone` with its task.
    """
    found: list[Warned] = []
    if not alone and threading.current_thread() is not threading.main_thread():
        yield found
        return
    with warnings.catch_warnings(record=True) as warned:
        try:
            yield found
        finally:
            found += dict.fromkeys(map(_sendable, warned))


def with_warnings(work: Callable[..., Any], *arguments: Any) -> tuple[Any, list[Warned]]:
    """The result of a job, and its warnings."""
    with recorded() as warned:
        value = work(*arguments)
    return value, warned


def warn_once(warned: Iterable[Warned]) -> None:
    """Give each warning once."""
    for category, text, file, line in dict.fromkeys(warned):
        warnings.warn_explicit(text, category, file, line)


def _sendable(warned: warnings.WarningMessage) -> Warned:
    category = warned.category
    try:
        category("")
    except TypeError:  # made of other arguments than a text
        category = UserWarning
    return category, str(warned.message), warned.filename, warned.lineno
