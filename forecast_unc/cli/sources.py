"""The bytes of a file or a pipe: unpacked, in UTF-8, without lines that are none of its table."""

from __future__ import annotations

import bz2
import codecs
import gzip
import lzma
import re
import sys
import zipfile
import zlib
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from forecast_unc._checks import refusal
from forecast_unc.cli.mending import FileError

STANDARD = Path("-")  # standard input or output
_UNPACKED: dict[bytes, Callable[[bytes], bytes]] = {
    b"\x1f\x8b": gzip.decompress,
    b"BZh": bz2.decompress,
    b"\xfd7zXZ\x00": lzma.decompress,
}
_LONGEST_CELL = 4_000_000  # characters
_WORKBOOK = b"\xd0\xcf\x11\xe0"  # how .xls starts
_MARKS = {  # of encodings, the longer ones first
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}


def read_bytes(path: Path) -> bytes:
    """All of a file, or of standard input."""
    return sys.stdin.buffer.read() if path == STANDARD else path.read_bytes()


def unpacked(option: str, name: str, content: bytes) -> bytes:
    """Content without compression, which is told by how it starts, or an error."""
    for start, unpack in _UNPACKED.items():
        if content.startswith(start):
            try:
                return unpack(content)
            except (OSError, ValueError, EOFError, lzma.LZMAError, zlib.error) as error:
                got = f"{name}: {str(error).rstrip('.')}"
                raise refusal(option, "be a whole file", got, "Copy it again.") from error
    if content.startswith(b"PK\x03\x04"):
        try:
            with zipfile.ZipFile(BytesIO(content)) as archive:
                names = archive.namelist()
                if len(names) == 1:
                    unzipped: bytes = archive.read(names[0])
                    return unzipped
        except zipfile.BadZipFile:
            names = ["[Content_Types].xml"]
        if "[Content_Types].xml" not in names:
            got = f"{name}, an archive of {len(names)} files"
            raise refusal(option, "be a CSV file", got, "Unpack it, and name one of its files.")
    if content.startswith((_WORKBOOK, b"PK\x03\x04")):
        got = f"{name}, an Excel workbook"
        raise refusal(option, "be a CSV file", got, "Save it as CSV UTF-8.")
    return content


def as_text(option: str, name: str, content: bytes, encoding: str | None) -> bytes:
    """Content of CSV in UTF-8 with line feeds, or an error that names its encoding or its NULs."""
    found = next((each for mark, each in _MARKS.items() if content.startswith(mark)), "")
    if not found and b"\0" in content[:40]:  # every other byte, of letters of Europe
        halves = {"utf-16-le": content[1:40:2], "utf-16-be": content[:40:2]}
        found = next((each for each, half in halves.items() if half.count(0) > 15), "")
    try:
        if encoding is not None:
            content = content.decode(encoding).encode()
        elif found or not content.isascii():
            content.decode("utf-8" if not found else "ascii")
    except LookupError as error:
        got = repr(encoding)
        raise refusal("--encoding", "be one of Python", got, "Such as cp1252, utf-16.") from error
    except UnicodeDecodeError as error:
        advice = "Pass {}. Or: " if found else "Pass {} if accents are then right. Or: "
        raise FileError(
            option,
            "be a CSV file with a header",
            f"{name}, not in {encoding or 'UTF-8'}",
            f"{'' if encoding else advice}Save it as UTF-8, which is called CSV UTF-8 in Excel.",
            {} if encoding else {"encoding": found or "cp1252"},
        ) from error
    if (at := content.find(b"\0")) >= 0:
        line = content.count(b"\n", 0, at) + 1
        got = f"a NUL character on line {line} of {name}"
        remedy = "The file is damaged there: copy it again, or correct the line."
        raise refusal(option, "be text without NUL characters", got, remedy)
    _check_lines(option, name, content)
    text: bytes = content if b"\n" in content else content.replace(b"\r", b"\n")
    return text


def _check_lines(option: str, name: str, content: bytes) -> None:
    """Raise for a cell of millions of characters, of which reading makes several copies."""
    ends = np.flatnonzero(np.frombuffer(content, dtype=np.uint8) == ord("\n"))
    ends = np.concatenate([[-1], ends, [len(content)]])
    if len(content) < _LONGEST_CELL or np.diff(ends).max() < _LONGEST_CELL:
        return
    for at in np.flatnonzero(np.diff(ends) > _LONGEST_CELL):
        line = content[ends[at] + 1 : ends[at + 1]]
        cell = max(re.split(rb"[,;\t|]", line), key=len)
        if len(cell) > _LONGEST_CELL:
            start = cell[:40].decode("utf-8", "replace")
            got = f"{start!r} and {len(cell) - 40:,} more characters on line {at + 1} of {name}"
            remedy = "Correct the cell; a quotation mark may be missing."
            raise refusal(option, "hold short cells", got, remedy)


def blanked(content: bytes, options: Any) -> bytes:
    """Content whose lines above the header, of units below it and at its end are blank."""
    start = 0
    for _ in range(options.skip):
        start = content.find(b"\n", start) + 1 or len(content)
    stop = len(content.rstrip(b"\r\n"))
    for _ in range(options.skip_end):
        stop = max(content.rfind(b"\n", start, stop), start)
    body = content[start:stop] + b"\n"
    if options.units:
        header = 0
        while not (line := body[header : body.find(b"\n", header) + 1]).strip() and line:
            header += len(line)  # blank lines above it
        first = last = body.find(b"\n", header) + 1
        for _ in range(options.units):
            last = body.find(b"\n", last) + 1 or len(body)
        body = body[:first] + b"\n" * options.units + body[last:]
    table: bytes = b"\n" * options.skip + body
    return table
