"""What joblib's backend for Dask needs so that a task whose workers died is reported."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from joblib.parallel import get_active_backend

_PATIENCE = 300.0  # seconds


def killed_worker() -> tuple[type[Exception], ...]:
    """What Dask raises for a task whose workers died again and again, if Dask is in use."""
    distributed = sys.modules.get("distributed")
    return () if distributed is None else (distributed.KilledWorker,)


@contextmanager
def failures_reported() -> Iterator[None]:
    """Tell joblib of tasks that Dask gave up, if it is the backend in force.

    The backend of joblib 1.6 calls back for results alone: its future gets the exception, but the
    `Parallel` that waits for the callback waits for ever.
    """
    backend: Any = get_active_backend()[0]
    submit = getattr(backend, "submit", None)
    if submit is None or type(backend).__name__ != "DaskDistributedBackend":
        yield
        return

    def reporting(func: Any, callback: Callable[[Any], None]) -> Any:
        def report(done: Any) -> None:
            if done.exception() is not None:
                callback(done.exception())  # which the callback takes for what to raise

        future = submit(func, callback)
        future.add_done_callback(report)
        return future

    backend.submit = reporting
    try:
        yield
    finally:
        del backend.submit


def await_workers() -> None:
    """Wait until Dask has restarted workers, if it is the backend in force.

    joblib waits 10 seconds for one, and if it has one core alone, works in the caller's process.
    """
    client = getattr(get_active_backend()[0], "client", None)
    if client is None or "distributed" not in sys.modules:
        return
    end = time.monotonic() + _PATIENCE
    while sum(client.ncores().values()) < 2 and time.monotonic() < end:
        time.sleep(0.1)
