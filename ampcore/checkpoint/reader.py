"""Reads a checkpoint file: verifies every byte, executes no code, and trusts no input.

Memory is allocated only for arrays whose dtypes and shapes fill the file exactly.
"""

import hashlib
import json
import os
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Any, Final, NoReturn

import numpy as np
from pydantic import ValidationError

from ampcore.checkpoint.file_format import (
    BEST_MODEL,
    DIGEST,
    DIGEST_SIZE,
    FORMAT,
    FORMAT_PREFIX,
    FORMAT_WITH_BEST_MODEL,
    FORMATS,
    GOOD_STATE,
    Array,
    Checkpoint,
)
from ampcore.checkpoint.manifest import Manifest
from ampcore.checkpoint.tensors import read_bytes, tensor_from
from ampspec import __version__
from ampspec.errors import UnreadableCheckpoint
from ampspec.tensor_header import (
    METADATA,
    TensorEntry,
    TensorFormatError,
    check_entries,
    first_problem,
    read_raw_header,
)


@dataclass(frozen=True)
class _Header:
    """The parsed header; the last entry is the digest."""

    data: bytes
    format: str
    manifest: object
    entries: dict[str, TensorEntry]


MAPPED_BYTES: Final = 2**20
"""Arrays from this size on are mapped into memory on request."""


def load(file: Path, *, mapped: bool = False) -> Checkpoint:
    """Read a checkpoint. Raises UnreadableCheckpoint if any byte of it has changed.

    Args:
        file: The checkpoint.
        mapped: Map large arrays into memory, read-only, for a reader that needs only parts of them:
            the system keeps as much of them in memory as there is room for.
    """
    try:
        if not file.is_file():  # opening a named pipe would block forever
            raise TensorFormatError(
                "a regular file", "something else" if file.exists() else "no such file"
            )
        with file.open("rb") as stream:
            return _read(stream, MAPPED_BYTES if mapped else None)
    except TensorFormatError as broken:
        _refuse(file, broken.expected, broken.received)
    except OSError as error:
        _refuse(file, "a readable file", error.strerror or repr(error))


def is_whole(file: Path) -> bool:
    """Whether a file has the header of a checkpoint and the length stated in it."""
    try:
        with file.open("rb") as stream:
            _read_header(stream)
    except (TensorFormatError, OSError):
        return False
    return True


def _refuse(file: Path, expected: str, received: str) -> NoReturn:
    raise UnreadableCheckpoint(file, expected=expected, received=received) from None


def _read(stream: BufferedReader, mapped_bytes: int | None) -> Checkpoint:
    header = _read_header(stream)
    buffers = {
        name: read_bytes(stream, entry.size_bytes)
        if mapped_bytes is None or entry.size_bytes < mapped_bytes
        else _map_bytes(stream, entry.size_bytes)
        for name, entry in header.entries.items()
    }
    written = buffers.pop(DIGEST).tobytes()
    digest = hashlib.sha256(header.data)
    for buffer in buffers.values():
        digest.update(buffer.data)
    if digest.digest() != written:
        raise TensorFormatError(f"bytes with the SHA-256 {written.hex()}", digest.hexdigest())
    arrays = {name: tensor_from(buffer, header.entries[name]) for name, buffer in buffers.items()}
    good_arrays = best_arrays = None
    if header.format != FORMAT:
        good_arrays = _with_prefix(GOOD_STATE, arrays)
    if header.format == FORMAT_WITH_BEST_MODEL:
        best_arrays = _with_prefix(BEST_MODEL, arrays)
    return Checkpoint(_manifest(header.manifest), arrays, good_arrays, best_arrays)


def _map_bytes(stream: BufferedReader, size: int) -> Array:
    """The next bytes of a file, mapped into memory."""
    start = stream.tell()
    mapped = np.memmap(stream, np.uint8, "r", start, (size,))
    stream.seek(start + size)  # NumPy has moved to the end
    return mapped


def _with_prefix(prefix: str, arrays: dict[str, Array]) -> dict[str, Array] | None:
    """Take the arrays whose names have the prefix out of `arrays`; None without any."""
    names = [name for name in arrays if name.startswith(prefix)]
    return {name.removeprefix(prefix): arrays.pop(name) for name in names} or None


def _read_header(stream: BufferedReader) -> _Header:
    raw = read_raw_header(stream, os.fstat(stream.fileno()).st_size)
    metadata = raw.document.pop(METADATA, None)
    format_name = metadata.get("format") if isinstance(metadata, dict) else None
    if format_name not in FORMATS:
        _refuse_format(format_name, metadata)
    entries = check_entries(raw.document, raw.data_size)
    last = next(reversed(entries), None)
    if last != DIGEST or entries[DIGEST].size_bytes != DIGEST_SIZE:
        raise TensorFormatError("a SHA-256 as the last array", last)
    return _Header(raw.data, str(format_name), metadata.get("manifest"), entries)


def _refuse_format(format_name: object, metadata: Any) -> NoReturn:
    if not str(format_name).startswith(FORMAT_PREFIX):
        raise TensorFormatError(f"the format {FORMAT}", format_name)
    try:
        version = json.loads(metadata["manifest"])["versions"]["ampcore"]
    except (KeyError, TypeError, ValueError, RecursionError):
        version = "of an unknown version"
    expected = f"a format that ampcore {__version__} reads, {' or '.join(FORMATS)}"
    raise TensorFormatError(expected, f"{format_name}, written by ampcore {version}")


def _manifest(text: object) -> Manifest:
    if not isinstance(text, str):
        raise TensorFormatError("a manifest in JSON", type(text).__name__)
    try:
        return Manifest.model_validate_json(text)
    except ValidationError as error:
        raise TensorFormatError("a manifest with every field", first_problem(error)) from None
