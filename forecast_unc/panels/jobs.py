"""One job a task on the workers of joblib or Dask: a task that fails does not stop the others."""

from __future__ import annotations

import os
import platform
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib import import_module
from typing import Any, NamedTuple, Protocol, Self

from joblib import Parallel, delayed, parallel_config
from joblib.externals.loky.process_executor import TerminatedWorkerError
from joblib.parallel import get_active_backend

from forecast_unc._progress import tqdm
from forecast_unc._threads import blas_threads
from forecast_unc._warned import Warned, recorded
from forecast_unc.errors import ArgumentError, ArgumentTypeError, InvalidArgument

_REMEDY = "Give it more memory or fewer rows (max_train), or run the series by itself."
_DIED = (
    "the worker process died twice while it worked on this series, the second time on nothing "
    f"else. {_REMEDY}"
)
_GIVEN_UP = (
    "the worker process died each time that Dask gave it this series, the last times on nothing "
    f"else. {_REMEDY}"
)
_NO_WORKER = (
    "Dask had no worker for this series for five minutes. Start workers, on a machine with more "
    "memory if those before ran out of it, and run it again."
)
_PATIENCE = 300.0  # seconds without a worker; a new one takes 2 to 7 s, an adaptive cluster longer


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
    """The outcome of every task, in their order, from the joblib backend in force."""
    backend, _ = get_active_backend()
    outcomes: dict[int, Outcome] = {}
    with blas_threads(0):
        if type(backend).__name__ == "DaskDistributedBackend":
            results = _by_dask(work, tasks, backend)
        else:
            results = _by_joblib(work, tasks, n_jobs)
        for i, outcome in results:
            outcomes[i] = outcome
            bar.update()
    return [outcomes[i] for i in range(len(tasks))]


def _by_dask(
    work: Callable[[Any], Any], tasks: Tasks, backend: Any
) -> Iterator[tuple[int, Outcome]]:
    """Outcomes as they come from Dask, which gives the tasks of a dead worker to another one.

    Dask gives up a batch after some deaths, and with it what waited on the same workers: their
    tasks run once more, one by one. joblib's `Parallel` would wait for them for ever (1.6).
    """
    given_up = []
    for i, outcome in _dask_outcomes(work, tasks, range(len(tasks)), backend):
        if outcome is None:
            given_up.append(i)
        else:
            yield i, outcome
    for i in given_up:
        for _, outcome in _dask_outcomes(work, tasks, [i], backend):
            yield i, outcome or Outcome(None, _GIVEN_UP)


def _dask_outcomes(
    work: Callable[[Any], Any], tasks: Tasks, group: Sequence[int], backend: Any
) -> Iterator[tuple[int, Outcome | None]]:
    """Outcomes of some tasks as they come; None where Dask has given up."""
    distributed: Any = import_module("distributed")
    client = backend.client
    # One by one Dask takes twice as long for series of 25 ms; a 32nd keeps all cores at work.
    size = max(1, len(group) // (32 * max(1, sum(client.ncores().values()))))
    batches = [group[start : start + size] for start in range(0, len(group), size)]
    rows = [[tasks[i] for i in batch] for batch in batches]
    options = {"pure": False} | backend.submit_kwargs
    futures = client.map(partial(_batch, work, caller=_process()), batches, rows, **options)
    waiting = dict(zip(futures, batches, strict=True))
    completed = distributed.as_completed(futures, with_results=True, raise_errors=False)
    seen = time.monotonic()  # when there was a worker
    while waiting:
        if completed.has_ready():
            future, result = next(completed)
            batch = waiting.pop(future)
            if future.status == "finished":
                yield from result
            elif isinstance(future.exception(), distributed.KilledWorker):
                yield from ((i, None) for i in batch)
            else:
                future.result()  # raises
        elif time.monotonic() - seen > _PATIENCE:
            yield from ((i, Outcome(None, _NO_WORKER)) for b in waiting.values() for i in b)
            return
        else:
            time.sleep(0.05)
            if client.ncores():
                seen = time.monotonic()


def _batch(
    work: Callable[[Any], Any], group: Sequence[int], rows: Sequence[Any], caller: tuple[str, int]
) -> list[tuple[int, Outcome]]:
    return [_outcome(work, i, task, caller) for i, task in zip(group, rows, strict=True)]


def _by_joblib(
    work: Callable[[Any], Any], tasks: Tasks, n_jobs: int | None
) -> Iterator[tuple[int, Outcome]]:
    """Outcomes as they come from joblib.

    A worker process that dies takes its pool with it. What was done is kept, and what the pool held
    is run again in parts, down to one task alone with the workers: if one dies once more, that task
    is to blame, and has an error for an outcome. Serial jobs and threads have but the caller's own.
    """
    done: set[int] = set()
    suspected: set[int] = set()
    groups = [list(range(len(tasks)))] if len(tasks) else []
    while groups:
        group = groups.pop()
        sent: list[int] = []
        try:
            for i, outcome in _outcomes(work, tasks, group, sent, n_jobs, group[0] in suspected):
                done.add(i)
                yield i, outcome
        except TerminatedWorkerError:
            if not sent:
                raise
            waiting, lost = sorted(set(group) - set(sent)), sorted(set(sent) - done)
            if len(lost) == 1 and lost[0] in suspected:
                yield lost.pop(), Outcome(None, _DIED)
            suspected |= set(lost)
            # few one by one, more in halves: to start new workers takes 2 to 7 s
            size = 1 if len(lost) <= 4 else (len(lost) + 1) // 2
            parts = [lost[i : i + size] for i in range(0, len(lost), size)]
            groups += [part for part in (waiting, *reversed(parts)) if part]


def _outcomes(
    work: Callable[[Any], Any],
    tasks: Tasks,
    group: Sequence[int],
    sent: list[int],
    n_jobs: int | None,
    again: bool,
) -> Iterator[tuple[int, Outcome]]:
    """Outcomes of some tasks as they come; `sent` takes down which were handed to joblib."""
    caller = _process()

    def calls() -> Iterator[Any]:
        for i in group:
            sent.append(i)
            yield delayed(_outcome)(work, i, tasks[i], caller)

    # Arrays are sent as they are: from a file that workers map they would be read-only.
    streams = getattr(get_active_backend()[0], "supports_return_generator", False)
    return_as = "generator_unordered" if streams else "list"  # Ray's and multiprocessing's do not
    options: dict[str, Any] = {"n_jobs": n_jobs, "return_as": return_as, "max_nbytes": None}
    if again:  # few at a time, so that few are lost
        options |= {"batch_size": 1, "pre_dispatch": "n_jobs"}
    yield from Parallel(**options)(calls())


def _outcome(
    work: Callable[[Any], Any], i: int, task: Any, caller: tuple[str, int]
) -> tuple[int, Outcome]:
    """One task, in the worker."""
    value, error = None, None
    with (
        blas_threads(0),
        parallel_config(backend="sequential"),  # no workers of a worker
        recorded(alone=_process() != caller) as warned,
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
