"""Turns text of table cells into numbers and booleans, and infers which of them a column has."""

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from ampcore.formats.arrow_table import ARROW_TYPES
from ampcore.spec.file_formats import CellType

INFERRED: Final[tuple[CellType, ...]] = ("bool", "int64", "float64")
"""Tried in this order; other columns are text."""
EXPECTED: Final[dict[CellType, str]] = {
    "uint8": "an integer from 0 to 255",
    "int32": "an integer of 32 bits",
    "int64": "an integer of 64 bits",
    "float16": "a number in the range of float16",
    "float32": "a number in the range of float32",
    "float64": "a number",
    "bool": "true or false",
    "string": "text",
}
FALSE_AND_TRUE: Final = ("false", "true")
ZERO_AND_ONE: Final = ("0", "1")


class BadCell(Exception):
    """A cell does not have the type of its column."""

    def __init__(self, row: int, text: str) -> None:
        self.row, self.text = row, text
        super().__init__(f"row {row}: {text!r}")


class TypeInference:
    """The types that every cell of a column has had so far."""

    def __init__(self, decimal_point: str) -> None:
        self._decimal_point = decimal_point
        self._possible = list(INFERRED)
        self._has_values = False

    def add(self, cells: Any) -> None:
        """Exclude the types that these cells do not have."""
        if cells.null_count == len(cells):
            return
        self._has_values = True
        possible: list[CellType] = []
        for dtype in self._possible:
            is_integer = dtype == "float64" and "int64" in possible
            if is_integer or self._has_type(cells, dtype):
                possible.append(dtype)
        self._possible = possible

    @property
    def dtype(self) -> CellType:
        """The type of all cells; text for columns without values."""
        return self._possible[0] if self._possible and self._has_values else "string"

    def _has_type(self, cells: Any, dtype: CellType) -> bool:
        if dtype == "bool":  # a column of 0 and 1 has integers
            return _booleans(cells, FALSE_AND_TRUE) is not None
        return _parse(cells, dtype, self._decimal_point) is not None


def parse_cells(cells: Any, dtype: CellType, decimal_point: str) -> Any:
    """The cells as an Arrow array of the type that tables store; null where a cell is null.

    Raises BadCell for the first cell that does not have this type.
    """
    if (parsed := _parse(cells, dtype, decimal_point)) is not None:
        return parsed
    start, size = 0, len(cells)
    while size > 1:  # bisect, since parsing cells one by one is slow
        half = size // 2
        if _parse(cells.slice(start, half), dtype, decimal_point) is None:
            size = half
        else:
            start, size = start + half, size - half
    raise BadCell(start, cells[start].as_py())


def _parse(cells: Any, dtype: CellType, decimal_point: str) -> Any | None:
    """The cells as this type; None if one is not of it."""
    stored = ARROW_TYPES[dtype]
    if dtype == "string":
        return cells.cast(stored)
    trimmed = pc.ascii_trim_whitespace(cells)
    if dtype == "bool":
        return _booleans(trimmed, (*FALSE_AND_TRUE, *ZERO_AND_ONE))
    try:
        if dtype in ("uint8", "int32", "int64"):
            # Arrow reads 0x1F as 31, too.
            if _any(pc.match_substring(trimmed, "x", ignore_case=True)):
                return None
            return trimmed.cast(stored)
        if decimal_point != ".":
            if _any(pc.match_substring(trimmed, ".")):
                return None
            trimmed = pc.replace_substring(trimmed, decimal_point, ".")
        numbers = trimmed.cast(pa.float64()).cast(stored, safe=False)
    except pa.ArrowInvalid:
        return None
    # "nan" and "inf", and numbers that are too large for the type.
    return numbers if not _any(pc.invert(pc.is_finite(numbers))) else None


def _booleans(cells: Any, spellings: Sequence[str]) -> Any | None:
    lower = pc.ascii_lower(pc.ascii_trim_whitespace(cells))
    numbers = pc.index_in(lower, pa.array(spellings), skip_nulls=True)
    if numbers.null_count != cells.null_count:
        return None
    return pc.bit_wise_and(numbers, 1).cast(pa.uint8())


def _any(flags: Any) -> bool:
    """Whether one of the flags is true; nulls are not."""
    return bool(pc.any(flags).as_py())
