"""Reads NumPy's .npy format: checks the header and maps the array into memory, without pickles.

Source: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
"""

import io
import math
import tokenize
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final, Literal

import numpy as np
from numpy.lib import format as npy_format

from ampdata.arrays.array_source import ArraySource, column_dtype
from ampdata.files import DataFile, open_file
from ampdata.limits import Limits
from ampdata.source import Array, Column, Dtype, OpenRequest, choose_columns, choose_split
from ampspec.data.file_formats import NpyOptions
from ampspec.errors import InvalidData

MAGIC: Final = npy_format.MAGIC_PREFIX
MAX_HEADER_BYTES: Final = 65_536
MAX_DIMENSIONS: Final = 8
COLUMN: Final = "x"

Order = Literal["C", "F"]


class UnsupportedArray(InvalidData):
    """An intact array that cannot be a column."""


@dataclass(frozen=True)
class NpyHeader:
    """The type of an array, and where its data starts."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    order: Order
    data_offset: int
    column_dtype: Dtype

    @property
    def size_bytes(self) -> int:
        """The size of the data."""
        return math.prod(self.shape) * self.dtype.itemsize

    def column(self) -> Column:
        """The column that the array becomes."""
        return Column(self.shape[1:], self.column_dtype)


def open_npy(request: OpenRequest, options: NpyOptions) -> ArraySource:
    """The rows of the array. Raises InvalidData."""
    choose_split(request.name, (), request.split)
    file = DataFile(request.path, request.name)
    with open_file(file) as stream:
        header = read_header(stream, request.name, None, request.limits)
        data_bytes = request.path.stat().st_size - header.data_offset
        if data_bytes != header.size_bytes:
            raise InvalidData(
                request.name,
                None,
                expected=f"{header.size_bytes:,} bytes of data, as the header says",
                received=f"{data_bytes:,}",
            )
        array = map_array(request.path, header, header.data_offset)
    names = choose_columns(request.name, [COLUMN], request.columns)
    columns = dict.fromkeys(names, header.column())
    return ArraySource(request.name, columns, {COLUMN: array})


def read_header(stream: BinaryIO, name: str, field: str | None, limits: Limits) -> NpyHeader:
    """Read the header at the start of an array file or member.

    Raises:
        UnsupportedArray: A dtype other than numbers, booleans and text, no rows, or too many rows.
        InvalidData: The header is missing or damaged.
    """

    def unsupported(expected: str, received: str) -> InvalidData:
        return UnsupportedArray(name, field, expected=expected, received=received)

    start = io.BytesIO(stream.read(MAX_HEADER_BYTES + len(MAGIC) + 6))
    try:
        shape, order, dtype = _parse_header(start)
    except (
        ValueError,
        TypeError,
        SyntaxError,
        tokenize.TokenError,
        MemoryError,
        RecursionError,
        Warning,
    ) as error:
        received = str(error).split("\n")[0][:200]
        expected = "a header of NumPy's .npy format"
        raise InvalidData(name, field, expected=expected, received=received) from None
    if dtype.hasobject:
        raise unsupported("an array without Python objects", "dtype object, which needs pickle")
    if (column := column_dtype(dtype)) is None:
        raise unsupported("numbers, booleans or text", f"dtype {str(dtype)[:100]}")
    if not 0 < len(shape) <= MAX_DIMENSIONS:
        raise unsupported("rows along the first of 1 to 8 axes", f"shape {list(shape)}")
    if not 0 < shape[0] <= limits.rows or 0 in shape or dtype.itemsize == 0:
        raise unsupported(f"1 to {limits.rows:,} rows, not empty", f"shape {list(shape)}")
    return NpyHeader(shape, dtype, order, start.tell(), column)


def _parse_header(stream: BinaryIO) -> tuple[tuple[int, ...], Order, np.dtype[Any]]:
    """Shape, order and dtype. Raises ValueError, or what NumPy's parser raises."""
    version = npy_format.read_magic(stream)
    if version not in ((1, 0), (2, 0), (3, 0)):
        raise ValueError("no magic bytes of version 1.0, 2.0 or 3.0")
    # Version 3 differs in the names of fields alone, and arrays with fields are refused.
    first, later = npy_format.read_array_header_1_0, npy_format.read_array_header_2_0
    read = first if version == (1, 0) else later
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a header of Python 2
        shape, is_fortran, dtype = read(stream, max_header_size=MAX_HEADER_BYTES)
    if not all(type(side) is int and 0 <= side < 2**63 for side in shape):
        raise ValueError("a shape that is no tuple of integers of 63 bits")
    return shape, "F" if is_fortran else "C", dtype


def map_array(path: Path, header: NpyHeader, data_offset: int) -> Array:
    """The memory-mapped array."""
    return np.memmap(path, header.dtype, "r", data_offset, header.shape, header.order)
