"""Reads a checkpoint file: verifies every byte, executes no code, and trusts no input.

Memory is allocated only for arrays whose dtypes and shapes fill the file exactly.
"""

import hashlib
import json
import math
import os
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Annotated, Any, Final, NoReturn

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from ampcore import __version__
from ampcore.checkpoint.file_format import (
    DIGEST,
    DIGEST_SIZE,
    DTYPES,
    FORMAT,
    FORMAT_PREFIX,
    FORMAT_WITH_GOOD_STATE,
    FORMATS,
    GOOD_STATE,
    LENGTH_SIZE,
    MAX_HEADER_SIZE,
    METADATA,
    Array,
    Checkpoint,
)
from ampcore.checkpoint.manifest import Manifest
from ampcore.errors import UnreadableCheckpoint

MAX_DIMENSIONS: Final = 32
MAX_SHOWN_CHARS: Final = 80
"""The maximum number of characters of a received value in a message."""

_Size = Annotated[int, Field(ge=0, lt=2**63)]


class _Entry(BaseModel):
    """The dtype, shape and offsets of an array."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    dtype: str
    shape: Annotated[tuple[_Size, ...], Field(max_length=MAX_DIMENSIONS)]
    data_offsets: tuple[_Size, _Size]

    @property
    def size_bytes(self) -> int:
        return math.prod(self.shape) * DTYPES[self.dtype].itemsize


_ENTRIES: Final = TypeAdapter(dict[str, _Entry])


@dataclass(frozen=True)
class _Header:
    """The parsed header; the last entry is the digest."""

    data: bytes
    format: str
    manifest: object
    entries: dict[str, _Entry]


class _FormatError(Exception):
    """The file is not valid: the expected and the received content."""

    def __init__(self, expected: str, received: object) -> None:
        text = str(received)
        self.expected = expected
        self.received = text if len(text) <= MAX_SHOWN_CHARS else f"{text[: MAX_SHOWN_CHARS - 1]}…"
        super().__init__(expected, text)


def load(file: Path) -> Checkpoint:
    """Read a checkpoint. Raises UnreadableCheckpoint if any byte of it has changed."""
    try:
        if not file.is_file():  # opening a named pipe would block forever
            raise _FormatError(
                "a regular file", "something else" if file.exists() else "no such file"
            )
        with file.open("rb") as stream:
            return _read(stream)
    except _FormatError as broken:
        _refuse(file, broken.expected, broken.received)
    except OSError as error:
        _refuse(file, "a readable file", error.strerror or repr(error))


def is_whole(file: Path) -> bool:
    """Whether a file has the header of a checkpoint and the length stated in it."""
    try:
        with file.open("rb") as stream:
            _read_header(stream)
    except (_FormatError, OSError):
        return False
    return True


def _refuse(file: Path, expected: str, received: str) -> NoReturn:
    raise UnreadableCheckpoint(file, expected=expected, received=received) from None


def _read(stream: BufferedReader) -> Checkpoint:
    header = _read_header(stream)
    buffers = {
        name: _read_bytes(stream, entry.size_bytes) for name, entry in header.entries.items()
    }
    written = buffers.pop(DIGEST).tobytes()
    digest = hashlib.sha256(header.data)
    for buffer in buffers.values():
        digest.update(buffer.data)
    if digest.digest() != written:
        raise _FormatError(f"bytes with the SHA-256 {written.hex()}", digest.hexdigest())
    arrays = {name: _array(buffer, header.entries[name]) for name, buffer in buffers.items()}
    good = None
    if header.format == FORMAT_WITH_GOOD_STATE:
        names = [name for name in arrays if name.startswith(GOOD_STATE)]
        good = {name.removeprefix(GOOD_STATE): arrays.pop(name) for name in names}
    return Checkpoint(_manifest(header.manifest), arrays, good)


def _read_header(stream: BufferedReader) -> _Header:
    size = os.fstat(stream.fileno()).st_size
    length = stream.read(LENGTH_SIZE)
    header_size = int.from_bytes(length, "little")
    if size < LENGTH_SIZE or not 0 < header_size <= min(size - LENGTH_SIZE, MAX_HEADER_SIZE):
        raise _FormatError("a safetensors file", f"{size} bytes in another format")
    text = stream.read(header_size)
    document = _object(text)
    metadata = document.pop(METADATA, None)
    made = metadata.get("format") if isinstance(metadata, dict) else None
    if made not in FORMATS:
        _refuse_format(made, metadata)
    entries = _entries(document, size - LENGTH_SIZE - header_size)
    return _Header(length + text, str(made), metadata.get("manifest"), entries)


def _refuse_format(made: object, metadata: Any) -> NoReturn:
    if not str(made).startswith(FORMAT_PREFIX):
        raise _FormatError(f"the format {FORMAT}", made)
    try:
        version = json.loads(metadata["manifest"])["versions"]["ampcore"]
    except (KeyError, TypeError, ValueError, RecursionError):
        version = "of an unknown version"
    expected = f"a format that ampcore {__version__} reads, {' or '.join(FORMATS)}"
    raise _FormatError(expected, f"{made}, written by ampcore {version}")


def _object(text: bytes) -> dict[str, Any]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _FormatError("a header in JSON", error) from None
    if not isinstance(document, dict):
        raise _FormatError("a JSON object as the header", type(document).__name__)
    return document


def _entries(document: dict[str, Any], data_size: int) -> dict[str, _Entry]:
    """The entries in the order of their data, which they fill without gap or overlap."""
    try:
        entries = _ENTRIES.validate_python(document)
    except ValidationError as error:
        raise _FormatError("dtype, shape and data_offsets of each array", _first(error)) from None
    entries = dict(sorted(entries.items(), key=lambda item: item[1].data_offsets))
    end = 0
    for name, entry in entries.items():
        if entry.dtype not in DTYPES:
            raise _FormatError(f"{name} in one of the dtypes {', '.join(DTYPES)}", entry.dtype)
        begin, end = end, end + entry.size_bytes
        if entry.data_offsets != (begin, end):
            raise _FormatError(f"{name} in the bytes {begin} to {end}", entry.data_offsets)
    if end != data_size:
        raise _FormatError(f"{end} bytes of arrays", data_size)
    last = next(reversed(entries), None)
    if last != DIGEST or entries[DIGEST].size_bytes != DIGEST_SIZE:
        raise _FormatError("a SHA-256 as the last array", last)
    return entries


def _read_bytes(stream: BufferedReader, size: int) -> Array:
    buffer = np.empty(size, np.uint8)
    received = stream.readinto(buffer.data)
    if received != size:
        raise _FormatError(f"{size} more bytes", received)
    return buffer


def _array(buffer: Array, entry: _Entry) -> Array:
    try:
        return buffer.view(DTYPES[entry.dtype]).reshape(entry.shape)
    except ValueError as error:  # with a dimension of 0, the others may be arbitrarily large
        raise _FormatError("a shape that NumPy can hold", error) from None


def _manifest(text: object) -> Manifest:
    if not isinstance(text, str):
        raise _FormatError("a manifest in JSON", type(text).__name__)
    try:
        return Manifest.model_validate_json(text)
    except ValidationError as error:
        raise _FormatError("a manifest with every field", _first(error)) from None


def _first(error: ValidationError) -> str:
    problem = error.errors(include_url=False, include_input=False)[0]
    return f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}"
