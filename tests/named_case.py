"""Cases of one test: a failure names the case."""

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def case(*of: object) -> Iterator[None]:
    try:
        yield
    except BaseException as error:
        error.add_note(f"in the case of {', '.join(map(str, of))}")
        raise
