"""Reads NumPy's .npy format: checks the header and maps the array into memory, without pickles.

Source: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
"""

import ast
import math
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final, Literal

import numpy as np

from ampcore.errors import InvalidData
from ampcore.formats.array_source import ArraySource, column_dtype
from ampcore.formats.files import DataFile, open_file
from ampcore.formats.limits import Limits
from ampcore.formats.source import Array, Column, Dtype, Request, choose_columns, choose_split
from ampcore.spec.file_formats import NpyOptions

MAGIC: Final = b"\x93NUMPY"
MAX_HEADER_BYTES: Final = 65_536
MAX_DIMENSIONS: Final = 8
COLUMN: Final = "x"
LENGTHS: Final = {
    b"\1\0": struct.Struct("<H"),
    b"\2\0": struct.Struct("<I"),
    b"\3\0": struct.Struct("<I"),
}
"""The format of the header's length by version."""
UTF_8_VERSION: Final = 3

Order = Literal["C", "F"]


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


def open_npy(request: Request, options: NpyOptions) -> ArraySource:
    """The rows of the array. Raises InvalidData."""
    choose_split(request.name, (), request.split)
    file = DataFile(request.path, request.name)
    with open_file(file) as stream:
        header = read_header(stream, request.name, None, request.limits)
        held = request.path.stat().st_size - header.data_offset
        if held != header.size_bytes:
            raise InvalidData(
                request.name,
                None,
                expected=f"{header.size_bytes:,} bytes of data, as the header says",
                received=f"{held:,}",
            )
        array = map_array(request.path, header, header.data_offset)
    names = choose_columns(request.name, [COLUMN], request.columns)
    columns = dict.fromkeys(names, header.column())
    return ArraySource(request.name, columns, {COLUMN: array})


def read_header(stream: BinaryIO, name: str, field: str | None, limits: Limits) -> NpyHeader:
    """Read the header at the start of an array file or member.

    Raises InvalidData: no header, an object or structured dtype, no rows, or too many.
    """

    def invalid(expected: str, received: str) -> InvalidData:
        return InvalidData(name, field, expected=expected, received=received)

    try:
        shape, order, dtype = _parse_header(stream)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError) as error:
        raise invalid("a header of NumPy's .npy format", str(error).split("\n")[0][:200]) from None
    if dtype.hasobject:
        raise invalid("an array without Python objects", "dtype object, which needs pickle")
    if (column := column_dtype(dtype)) is None:
        raise invalid("numbers, booleans or text", f"dtype {str(dtype)[:100]}")
    if not 0 < len(shape) <= MAX_DIMENSIONS:
        raise invalid("rows along the first of 1 to 8 axes", f"shape {list(shape)}")
    if not 0 < shape[0] <= limits.rows or 0 in shape or dtype.itemsize == 0:
        raise invalid(f"1 to {limits.rows:,} rows, not empty", f"shape {list(shape)}")
    return NpyHeader(shape, dtype, order, stream.tell(), column)


def _parse_header(stream: BinaryIO) -> tuple[tuple[int, ...], Order, np.dtype[Any]]:
    """Shape, order and dtype. Raises ValueError, or what `ast.literal_eval` raises.

    `numpy.lib.format` would parse headers of Python 2 with a tokenizer, which raises more.
    """
    start = stream.read(len(MAGIC) + 2)
    length_format = LENGTHS.get(start[len(MAGIC) :])
    if not start.startswith(MAGIC) or length_format is None:
        raise ValueError("no magic bytes of version 1.0, 2.0 or 3.0")
    length_bytes = stream.read(length_format.size)
    if len(length_bytes) < length_format.size:
        raise ValueError("the end of the file")
    length = length_format.unpack(length_bytes)[0]
    if length > MAX_HEADER_BYTES:
        raise ValueError(f"a header of {length:,} bytes")
    encoded = stream.read(length)
    if len(encoded) < length:
        raise ValueError("the end of the file")
    values = ast.literal_eval(encoded.decode("latin-1" if start[-2] < UTF_8_VERSION else "utf-8"))
    if not isinstance(values, dict) or set(values) != {"descr", "fortran_order", "shape"}:
        raise ValueError("other fields")
    shape, is_fortran, description = values["shape"], values["fortran_order"], values["descr"]
    if not isinstance(shape, tuple) or not all(map(_is_side, shape)):
        raise ValueError("a shape that is no tuple of integers of 63 bits")
    if not isinstance(is_fortran, bool):
        raise ValueError("a fortran_order that is neither True nor False")
    return shape, "F" if is_fortran else "C", np.dtype(description)


def _is_side(value: object) -> bool:
    return type(value) is int and 0 <= value < 2**63


def map_array(path: Path, header: NpyHeader, data_offset: int) -> Array:
    """The array in memory that the system reads from the file when it is needed."""
    return np.memmap(path, header.dtype, "r", data_offset, header.shape, header.order)
