"""ArraySource: columns that are NumPy arrays, usually memory-mapped."""

import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ampdata.row_places import RowPlaces
from ampdata.source import Array, Column, Dtype, Indices, Source
from ampspec.errors import InvalidData

CONVERTED: Final[dict[str, Dtype]] = {
    "i1": "int32",
    "i2": "int32",
    "u2": "int32",
    "u4": "int64",
    "u8": "int64",
    "u1": "uint8",
    "i4": "int32",
    "i8": "int64",
    "f2": "float16",
    "f4": "float32",
    "f8": "float64",
    "b1": "bool",
}
"""The dtype of a column by NumPy's kind and size; each holds every value, except for u8."""


def column_dtype(dtype: np.dtype[Any]) -> Dtype | None:
    """The dtype of a column with this array; None if columns cannot hold its values."""
    if dtype.kind in "US":
        return "string"
    return CONVERTED.get(f"{dtype.kind}{dtype.itemsize}")


class ArraySource(Source):
    """Rows are the first axis of each array."""

    def __init__(self, name: str, columns: Mapping[str, Column], arrays: Mapping[str, Array]):
        """Each array in `arrays` has a dtype supported by `column_dtype`."""
        self.name, self.columns, self._arrays = name, columns, arrays
        self.rows = min(map(len, arrays.values()))

    def row_places(self) -> RowPlaces:
        """The rows of the arrays."""
        return RowPlaces([self.name], [self.rows])

    def _read(self, indices: Indices, columns: Mapping[str, Column]) -> dict[str, Array]:
        return {
            name: self._convert(name, column, self._arrays[name][indices], indices)
            for name, column in columns.items()
        }

    def _convert(self, name: str, column: Column, values: Array, indices: Indices) -> Array:
        if column.dtype == "string":
            return self._decode(name, values, indices)
        if values.dtype.kind == "u" and values.dtype.itemsize == 8:
            large = values > np.iinfo(np.int64).max
            if large.any():
                at = np.unravel_index(large.argmax(), large.shape)
                raise InvalidData(
                    self.name,
                    f"row {indices[at[0]] + 1}, column {name}",
                    expected="integers below 2^63",
                    received=str(values[at]),
                )
        # Memory maps are read when they are indexed; the result is a plain array.
        return np.ascontiguousarray(values, np.dtype(column.dtype)).reshape(values.shape)

    def _decode(self, name: str, values: Array, indices: Indices) -> Array:
        """Text as Python's str. Raises InvalidData for text that is not Unicode."""
        is_unicode = _has_code_points(values)
        decoded = np.empty(values.shape, object)
        for at in np.ndindex(values.shape):
            if is_unicode[at]:
                value = values[at]
                with suppress(UnicodeError):
                    text = value.decode() if isinstance(value, bytes) else str(value)
                    text.encode()  # fails for halves of surrogate pairs
                    decoded[at] = text
                    continue
            raise InvalidData(
                self.name,
                f"row {indices[at[0]] + 1}, column {name}",
                expected="text in UTF-8 or Unicode",
                received="other bytes",
            )
        return decoded


def _has_code_points(values: Array) -> NDArray[np.bool_]:
    """Whether all characters exist; NumPy does not check this, and Python relies on it."""
    if values.dtype.kind == "S" or not values.size:
        return np.ones(values.shape, np.bool_)
    codes = np.dtype(np.uint32).newbyteorder(values.dtype.byteorder)
    characters = np.ascontiguousarray(values).reshape(values.shape).view(codes)
    exist = (characters <= sys.maxunicode).reshape(*values.shape, -1)
    return np.asarray(exist.all(axis=-1), np.bool_)
