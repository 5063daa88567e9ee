"""Plain safetensors files of arrays, such as the weights of a model: written and read.

A file is only read as far as its header has been checked: it executes no code, and memory is
allocated only for arrays that fill the file exactly.

Source: https://github.com/huggingface/safetensors#format
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Final

import numpy as np

from ampcore.checkpoint.file_format import DTYPES, SAFETENSORS_NAMES, Array, ArrayInPieces
from ampspec.errors import UnreadableWeights
from ampspec.tensor_header import (
    METADATA,
    TensorEntry,
    TensorFormatError,
    encode_header,
    read_weights_header,
)

WEIGHTS_FORMAT: Final = "ampcore-weights-1"
"""The format of a file of weights, in its metadata; other files are read as well."""


def encode_tensors(
    arrays: Mapping[str, Array | ArrayInPieces], metadata: Mapping[str, str]
) -> bytes:
    """The bytes of a file with these arrays and texts.

    Raises ValueError for a name or a dtype that it cannot hold.
    """
    return b"".join(_pieces(arrays, metadata))


def write_tensors(
    file: Path, arrays: Mapping[str, Array | ArrayInPieces], metadata: Mapping[str, str]
) -> None:
    """Write the same to a file, one array after another. Raises ValueError and OSError."""
    with file.open("wb") as stream:
        for piece in _pieces(arrays, metadata):
            stream.write(piece)


@dataclass(frozen=True)
class TensorFile:
    """An open file, whose header has been checked."""

    path: Path
    entries: Mapping[str, TensorEntry]
    _stream: BufferedReader
    _data_offset: int

    def read(self, name: str) -> Array:
        """One array. Raises UnreadableWeights."""
        entry = self.entries[name]
        with _explained(self.path):
            self._stream.seek(self._data_offset + entry.data_offsets[0])
            return tensor_from(read_bytes(self._stream, entry.size_bytes), entry)


@contextmanager
def open_tensors(file: Path) -> Iterator[TensorFile]:
    """Open a file of weights. Raises UnreadableWeights, also for one that is no such file."""
    with _explained(file):
        if not file.is_file():  # opening a named pipe would block forever
            received = "something else" if file.exists() else "no such file"
            raise TensorFormatError("a regular file", received)
        stream = file.open("rb")
    with stream:
        with _explained(file):
            size = os.fstat(stream.fileno()).st_size
            entries = read_weights_header(stream, size)
            data_offset = stream.tell()
        yield TensorFile(file, entries, stream, data_offset)


def read_bytes(stream: BufferedReader, size: int) -> Array:
    """The next bytes of a file. Raises TensorFormatError if there are fewer, and OSError."""
    buffer = np.empty(size, np.uint8)
    received = stream.readinto(buffer.data)
    if received != size:
        raise TensorFormatError(f"{size} more bytes", received)
    return buffer


def tensor_from(buffer: Array, entry: TensorEntry) -> Array:
    """The array of an entry, in the memory of its bytes. Raises TensorFormatError."""
    try:
        return buffer.view(DTYPES[entry.dtype]).reshape(entry.shape)
    except ValueError as error:  # with a dimension of 0, the others may be arbitrarily large
        raise TensorFormatError("a shape that NumPy can hold", error) from None


def _pieces(
    arrays: Mapping[str, Array | ArrayInPieces], metadata: Mapping[str, str]
) -> Iterator[bytes | memoryview]:
    """The bytes of a file, in parts."""
    # Wide dtypes first, so that every array is aligned.
    ordered = sorted(arrays.items(), key=lambda item: -item[1].dtype.itemsize)
    for name, array in ordered:
        if name == METADATA or array.dtype not in SAFETENSORS_NAMES:
            raise ValueError(f"Expected an array of numbers, received {name}: {array.dtype}.")
    entries = [
        (name, SAFETENSORS_NAMES[array.dtype], array.shape, array.nbytes) for name, array in ordered
    ]
    yield encode_header(entries, metadata)
    for _, array in ordered:
        if isinstance(array, ArrayInPieces):
            yield from map(array_bytes, array.pieces())
        else:
            yield array_bytes(array)


def array_bytes(array: Array) -> memoryview:
    """The bytes of an array, in its own memory if it is contiguous."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


@contextmanager
def _explained(file: Path) -> Iterator[None]:
    try:
        yield
    except TensorFormatError as error:
        raise UnreadableWeights(file, expected=error.expected, received=error.received) from None
    except OSError as error:
        received = error.strerror or repr(error)
        raise UnreadableWeights(file, expected="a readable file", received=received) from error
