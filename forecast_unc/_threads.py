"""One BLAS thread for problems that more of them slow down."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from threading import Lock

from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

# Rows from which on all threads are used. Two threads on two idle cores took 1.2, .7 and .6 of the
# time of one with 250, 1000 and 2000 rows; beside one busy process 1.1, 2.1 and 1.8, beside many
# others 9 to 380, 4 to 35 and 2 to 12 times (docs/machines.md).
MANY_ROWS = 2000

_limit_held = Lock()


@contextmanager
def blas_threads(n_rows: int) -> Iterator[None]:
    """Limit BLAS to one thread inside a ``with``, if the largest matrix has few rows.

    Meant for once a fit and once a forecast: it takes 10 microseconds (90 on a busy machine), and
    1 inside another one. BLAS has one number of threads a process, so one thread of the program
    holds the limit at a time. Entering while it is held, nested or from another thread, changes
    nothing; the holder restores what was before. The number of threads is never raised.
    """
    if n_rows >= MANY_ROWS or not _limit_held.acquire(blocking=False):
        yield
        return
    try:
        with _controller().limit(limits=1, user_api="blas"):
            yield
    finally:
        _limit_held.release()


@cache
def _controller() -> ThreadpoolController:
    """The loaded BLAS libraries; looking for them takes 3 ms."""
    return ThreadpoolController()
