"""The result of a panel as files, a part of its series each, so that a run can be resumed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd
from joblib import hash as joblib_hash

from forecast_unc._checks import refusal
from forecast_unc._files import whole_file
from forecast_unc._progress import tqdm
from forecast_unc.panels.panel import Panel

SIZE = 200  # series a file: of two jobs one waits 1 % of the time


def in_parts(
    run: Callable[[Panel], list[pd.DataFrame]],
    panel: Panel,
    folder: Path,
    call: str,
    bar: tqdm[Any],
) -> list[pd.DataFrame]:
    """The result of a run, part by part: those of the same call and rows are read, not run.

    A second frame of a run, sums of groups, is written beside, where readers of the folder do not
    look, and comes back as one for each part.
    """
    parts = {}
    for start in range(0, max(len(panel), 1), SIZE):
        some = slice(start, start + SIZE)
        part = panel.part(some)
        parts[folder / f"part-{start // SIZE:05d}-{_fingerprint(part, call)}.parquet"] = part
    others = set(folder.glob("part-*.parquet")) - set(parts)
    if others:
        must = "be a directory without parts of another call"
        remedy = "Its rows or arguments differ: give a new directory, or delete the parts."
        raise refusal("output", must, repr(min(others).name), remedy)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        must, got = "be a directory, or none yet", f"{folder}, where a file is in the way"
        raise refusal("output", must, got, "Give a new directory.", type(error)) from error
    with _alone(folder, sorted(path.name for path in parts)):
        for path, part in parts.items():
            if path.exists() and (panel.groups is None or _beside(path).exists()):
                bar.update(len(part))
            else:
                result, *sums = run(part)
                for frame in sums:
                    write(frame, _beside(path))
                write(result, path)
    result = pd.concat(map(_read, parts), ignore_index=True)
    result = result.astype({"error": object, "notes": object})
    result["error"] = result["error"].where(result["error"].notna(), None)
    return [result, *(_read(_beside(path)) for path in parts if panel.groups)]


@contextmanager
def _alone(folder: Path, names: list[str]) -> Iterator[None]:
    """Refuse a folder to which another call writes; while a run is at work a file says so."""
    own = folder / f"_call-{joblib_hash(names)[:12]}"
    own.touch()
    try:
        if others := set(folder.glob("_call-*")) - {own}:
            must = "be a directory to which no other call writes"
            remedy = "Give a new directory, or delete the file if that run was killed."
            raise refusal("output", must, repr(min(others).name), remedy)
        yield
    finally:
        own.unlink(missing_ok=True)


def write(frame: pd.DataFrame, path: Path) -> None:
    """A frame as a file, whole or not at all."""
    # of objects that are all None a file has no type, and a folder of such is not readable
    texts = {name: "string" for name in ("error", "notes") if name in frame}
    with whole_file(path) as unfinished:
        frame.astype(texts).to_parquet(unfinished, index=False)


def _read(path: Path) -> pd.DataFrame:
    try:
        return pd.read_parquet(path)
    except (ValueError, OSError) as error:
        got, remedy = str(error).rstrip("."), "Delete it: its series are then forecast again."
        raise refusal("output", "hold whole parts", f"{path}: {got}", remedy) from error


def _beside(path: Path) -> Path:
    """The file of a part's sums; what begins with _ is no part of a folder's data."""
    return path.with_name(f"_sums-{path.name}")


def _fingerprint(part: Panel, call: str) -> str:
    """A name for the rows of some series and a call, the same in every process."""
    frames = [part.past.take(rows) for rows in part.rows]
    if part.future is not None:
        frames += [part.future.take(rows) for rows in part.rows_ahead]
    rows = [pd.util.hash_pandas_object(each).to_numpy() for each in frames]
    groups = part.groups and part.groups.codes
    return joblib_hash([call, [repr(name) for name in part.ids], rows, groups])[:12]
