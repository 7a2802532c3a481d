"""Files that are written whole or not at all."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory


@contextmanager
def whole_file(path: str | PathLike[str]) -> Iterator[Path]:
    """A path to write to, which takes the place of another at the end; an error leaves that one."""
    target = Path(path).resolve()  # a link stays, and what it leads to is replaced
    if target.exists() and not target.is_file():  # a pipe or a device
        yield target
        return
    try:
        with TemporaryDirectory(prefix=".", dir=target.parent) as folder:
            unfinished = Path(folder) / target.name
            yield unfinished
            if target.exists():
                shutil.copymode(target, unfinished)
            with unfinished.open("ab") as file:
                os.fsync(file.fileno())
            os.replace(unfinished, target)
    except OSError as error:
        if error.errno is None:  # of a writer that speaks for itself
            raise
        raise OSError(error.errno, error.strerror, os.fspath(target)) from error  # of its own kind
