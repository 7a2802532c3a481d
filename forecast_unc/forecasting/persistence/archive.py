"""One file of JSON and arrays: a zip as numpy writes it, nothing compressed, with its checksum."""

import hashlib
import io
import json
import math
import os
import secrets
import zipfile
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from forecast_unc._checks import check_path

_CONTENT = "content.json"
# The comment of the zip is its last bytes: the digest of all before them.
_LABEL = b"sha256:"
_TAIL = len(_LABEL) + 2 * hashlib.sha256().digest_size
# Of numpy's header, which is parsed as a literal.
_LONGEST_HEADER = 10_000


class Unreadable(ValueError):
    """Why a file cannot be read, as the end of a sentence about it."""


def is_plain(dtype: np.dtype[Any]) -> bool:
    """Whether an array is of truth values or numbers that every machine has."""
    return dtype.kind in "biuf" and dtype.itemsize <= 8


def write_archive(
    path: str | PathLike[str], content: dict[str, Any], arrays: Sequence[NDArray[Any]]
) -> None:
    """Write a file, whole or not at all.

    Parameters
    ----------
    path : str or path
        Where. What is there stays until the new file is complete.
    content : dict
        What JSON can hold.
    arrays : sequence of ndarray
        Of plain types.

    Raises
    ------
    ValueError
        If there is a folder or a device in its place.
    OSError
        If it cannot be written.
    """
    check_path(path)
    target = Path(path).resolve()  # a link stays, and what it leads to is replaced
    if target.exists() and not target.is_file():
        raise ValueError(
            f"path must name a file; got {path}, which is none. Give the file a name of its own, "
            "such as model.npz."
        )
    unfinished = target.with_name(f".{secrets.token_hex(8)}.tmp")
    try:
        with open(unfinished, "x+b") as file:
            _write_zip(file, content, arrays)
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, target)
    except OSError as error:
        raise OSError(error.errno, error.strerror, os.fspath(target)) from error  # of its own kind
    finally:
        unfinished.unlink(missing_ok=True)


def _write_zip(file: IO[bytes], content: dict[str, Any], arrays: Sequence[NDArray[Any]]) -> None:
    """The members, each without a time of its own, so that a model gives the same file again."""
    text = json.dumps(content, allow_nan=False, separators=(",", ":"))
    with zipfile.ZipFile(file, "w") as archive:
        archive.comment = bytes(_TAIL)
        archive.writestr(zipfile.ZipInfo(_CONTENT), text)
        for number, array in enumerate(arrays):
            with archive.open(zipfile.ZipInfo(f"{number}.npy"), "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, version=(1, 0), allow_pickle=False)
    file.seek(-_TAIL, os.SEEK_END)
    file.truncate()
    file.seek(0)
    digest = hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]
    file.write(_LABEL + digest.encode())


def read_bytes(path: str | PathLike[str]) -> bytes:
    """The bytes of a file, of one that ends as ours do; of any other the end alone.

    Parameters
    ----------
    path : str or path
        A file.

    Returns
    -------
    bytes

    Raises
    ------
    OSError
        If there is none, or it cannot be read.
    """
    check_path(path)
    with open(Path(path), "rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _TAIL))
        tail = file.read(_TAIL)
        if not tail.startswith(_LABEL):  # which may be of any size
            return tail
        file.seek(0)
        return file.read(size)


def parse_archive(data: bytes) -> tuple[Any, list[NDArray[Any]]]:
    """What a file holds.

    Parameters
    ----------
    data : bytes
        Of the file.

    Returns
    -------
    content : object
        Of its JSON.
    arrays : list of ndarray
        Of the types and layouts that were written.

    Raises
    ------
    Unreadable
        If they are not the bytes that were written.
    Exception
        Of whatever kind, if they are crafted.
    """
    body, tail = memoryview(data)[:-_TAIL], data[-_TAIL:]
    if len(tail) < _TAIL or not tail.startswith(_LABEL):
        raise Unreadable("which is incomplete or of another kind")
    if hashlib.sha256(body).hexdigest().encode() != tail[len(_LABEL) :]:
        raise Unreadable("which was damaged or changed after it was written")
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = archive.infolist()
        numbered = [_CONTENT, *(f"{number}.npy" for number in range(len(members) - 1))]
        stored = all(one.compress_type == zipfile.ZIP_STORED for one in members)
        # stored as they are, so that no file grows when it is read
        if [one.filename for one in members] != numbered or not stored:
            raise Unreadable("whose parts are not those of a model")
        content = json.loads(archive.read(members[0]))
        return content, [_array(archive.read(one)) for one in members[1:]]


def _array(data: bytes) -> NDArray[Any]:
    """An array from the bytes that numpy writes, of a size that has been checked against them."""
    file = io.BytesIO(data)
    if np.lib.format.read_magic(file) != (1, 0):
        raise Unreadable("which holds an array of another format")
    shape, fortran, dtype = np.lib.format.read_array_header_1_0(
        file, max_header_size=_LONGEST_HEADER
    )
    start = file.tell()
    if not is_plain(dtype) or len(data) - start != math.prod(shape) * dtype.itemsize:
        raise Unreadable("which holds an array of another type or size than it says")
    flat = np.frombuffer(data, dtype, offset=start)
    own: NDArray[Any] = flat.astype(dtype.newbyteorder("="))  # aligned, and of this machine
    return own.reshape(shape, order="F" if fortran else "C")
