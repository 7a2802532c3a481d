"""Files that are written whole or not at all."""

import glob
import os
import shutil
import socket
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
        own = f".{target.name}.{socket.gethostname()}-"
        _remove_left(target.parent, own)
        with TemporaryDirectory(prefix=f"{own}{os.getpid()}-", dir=target.parent) as folder:
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


def _remove_left(parent: Path, prefix: str) -> None:
    """Remove the folders of writers of one file that were killed, on this machine."""
    if os.name != "posix":  # elsewhere a process cannot be asked for without ending it
        return
    for folder in parent.glob(f"{glob.escape(prefix)}*-*"):
        pid = folder.name.removeprefix(prefix).partition("-")[0]
        try:
            os.kill(int(pid), 0)
        except ProcessLookupError:
            shutil.rmtree(folder, ignore_errors=True)
        except (ValueError, OSError):  # a folder of someone else, or a process of another user
            continue
