"""One job a task on the workers of joblib, Dask's too: nothing a task does stops the others."""

from __future__ import annotations

import os
import platform
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol, Self

from joblib import Parallel, delayed, parallel_config
from joblib.externals.loky.process_executor import TerminatedWorkerError
from joblib.parallel import get_active_backend

from forecast_unc._progress import tqdm
from forecast_unc._threads import blas_threads
from forecast_unc._warned import Warned, recorded
from forecast_unc.errors import ArgumentError, ArgumentTypeError, InvalidArgument

_DIED = (
    "the worker process died twice while it worked on this series, the second time on nothing "
    "else. Give it more memory or fewer rows (max_train), or run the series by itself."
)
_NO_WORKER = (
    "the worker process died that had this series, and none was left to try it again. Run it by "
    "itself, or give the cluster more workers."
)


class Tasks(Protocol):
    """Tasks by their positions from 0."""

    def __len__(self) -> int: ...
    def __getitem__(self, position: int, /) -> Any: ...


# Names by which results have always called errors of these types.
_KINDS: dict[type[Exception], str] = {ArgumentError: "ValueError", ArgumentTypeError: "TypeError"}


class Failure(str):
    """Why a job failed, as text, with the error itself where it is about an argument."""

    kind: str  # name of the error
    error: InvalidArgument | None
    notes: tuple[str, ...]

    @classmethod
    def of(cls, error: Exception) -> Self:
        """The name, the text and the notes of an error."""
        kind = _KINDS.get(type(error), type(error).__name__)
        notes = tuple(getattr(error, "__notes__", ()))
        text = "; ".join([str(error).rstrip(".") if notes else str(error), *notes])
        failure = cls(f"{kind}: {text}")
        failure.kind = kind
        failure.error = error if isinstance(error, InvalidArgument) else None
        failure.notes = notes
        return failure


def cause_of(error: str) -> object:
    """What errors of one cause share: the argument and its rule, whatever was got."""
    if isinstance(error, Failure) and error.error is not None:
        return error.kind, error.error.argument, error.error.rule
    return error


class Outcome(NamedTuple):
    """Outcome of a task: its value, or the reason for none."""

    value: Any
    error: str | None  # a Failure, where the task itself raised
    warned: tuple[Warned, ...] = ()


def run_jobs(
    work: Callable[[Any], Any], tasks: Tasks, *, n_jobs: int | None, bar: tqdm[Any]
) -> list[Outcome]:
    """The outcome of every task, in their order, from the joblib backend in force.

    A worker process that dies takes its pool with it. What was done is kept, and what the pool held
    is run again in parts, down to one task alone with the workers: if one dies once more, that task
    is to blame, and has an error for an outcome. Serial jobs and threads have but the caller's own.
    """
    outcomes: dict[int, Outcome] = {}
    suspected: set[int] = set()
    groups = [list(range(len(tasks)))] if len(tasks) else []
    with blas_threads(0), _dask_reports_failures():
        while groups:
            group = groups.pop()
            sent: list[int] = []
            try:
                for i, outcome in _outcomes(work, tasks, group, sent, n_jobs, suspected):
                    outcomes[i] = outcome
                    bar.update()
            except (TerminatedWorkerError, *_killed_by_dask()):
                begun = set(sent)
                if not begun:
                    raise
                _await_dask()
                waiting, lost = sorted(set(group) - begun), sorted(begun - set(outcomes))
                if len(lost) == 1 and lost[0] in suspected:
                    outcomes[lost[0]] = Outcome(None, _DIED)
                    bar.update()
                    lost = []
                suspected |= set(lost)
                # few one by one, more in halves: to start new workers takes 2 to 7 s
                size = 1 if len(lost) <= 4 else (len(lost) + 1) // 2
                parts = [lost[i : i + size] for i in range(0, len(lost), size)]
                groups += [part for part in (waiting, *reversed(parts)) if part]
    return [outcomes[i] for i in range(len(tasks))]


def _outcomes(
    work: Callable[[Any], Any],
    tasks: Tasks,
    group: Sequence[int],
    sent: list[int],
    n_jobs: int | None,
    suspected: set[int],
) -> Iterator[tuple[int, Outcome]]:
    """Outcomes of some tasks as they come; `sent` takes down which were handed to joblib."""
    caller, again = _process(), group[0] in suspected

    def calls() -> Iterator[Any]:
        for i in group:
            sent.append(i)
            yield delayed(_outcome)(work, i, tasks[i], caller, again)

    # Arrays are sent as they are: from a file that workers map they would be read-only.
    comes = getattr(get_active_backend()[0], "supports_return_generator", False)
    return_as = "generator_unordered" if comes else "list"  # Ray's and multiprocessing's do not
    how: dict[str, Any] = {"n_jobs": n_jobs, "return_as": return_as, "max_nbytes": None}
    if again:  # few at a time, so that few are lost
        how |= {"batch_size": 1, "pre_dispatch": "n_jobs"}
    yield from Parallel(**how)(calls())


def _outcome(
    work: Callable[[Any], Any], i: int, task: Any, caller: tuple[str, int], again: bool
) -> tuple[int, Outcome]:
    """One task, in the worker; after one died, not in the caller's own process."""
    own = _process() == caller
    if again and own:
        return i, Outcome(None, _NO_WORKER)
    value, error = None, None
    with (
        blas_threads(0),
        parallel_config(backend="sequential"),  # Dask would spread jobs of the job
        recorded(alone=not own) as warned,
    ):
        try:
            value = work(task)
        except Exception as reason:
            error = Failure.of(reason)
    return i, Outcome(value, error, tuple(warned))


def warn_again(outcomes: Sequence[Outcome], names: Sequence[object]) -> None:
    """Give the warnings of the workers, each once with the number of tasks that gave it."""
    by: dict[Warned, list[object]] = {}
    for outcome, name in zip(outcomes, names, strict=True):
        for warned in outcome.warned:
            by.setdefault(warned, []).append(name)
    for (category, text, file, line), those in by.items():
        several = f"{len(those)} series, the first " if len(those) > 1 else "series "
        warnings.warn_explicit(f"{text} ({several}{those[0]!r})", category, file, line)


def _process() -> tuple[str, int]:
    return platform.node(), os.getpid()


def _dask_backend() -> Any:
    """joblib's backend for Dask, if it is in force, or None."""
    backend, _ = get_active_backend()
    return backend if type(backend).__name__ == "DaskDistributedBackend" else None


def _killed_by_dask() -> tuple[type[Exception], ...]:
    """Error of Dask for a task whose workers died again and again, if Dask is in use."""
    distributed = sys.modules.get("distributed")
    return () if distributed is None else (distributed.KilledWorker,)


@contextmanager
def _dask_reports_failures() -> Iterator[None]:
    """Tell joblib 1.6 of tasks that Dask gave up, for whose callback it would wait for ever."""
    backend = _dask_backend()
    submit = getattr(backend, "submit", None)  # absent before joblib 1.5
    if submit is None:
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


def _await_dask() -> None:
    """Wait until Dask has two cores again: joblib waits 10 s, and with one works in the caller."""
    backend, end = _dask_backend(), time.monotonic() + 300.0
    while backend and sum(backend.client.ncores().values()) < 2 and time.monotonic() < end:
        time.sleep(0.1)
