"""Parses the text of table cells, and infers the types of columns."""

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from ampdata.csv.number_format import MISSING_WORDS, PLAIN, DecimalFormat
from ampdata.tables.arrow_table import ARROW_TYPES
from ampspec.data.file_formats import CellType

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
INFINITE: Final = r"^[-+]?(?i:inf|infinity)$"
FALSE_AND_TRUE: Final = ("false", "true")
ZERO_AND_ONE: Final = ("0", "1")


class BadCell(Exception):
    """A cell does not have the type of its column."""

    def __init__(self, row: int, text: str) -> None:
        self.row, self.text = row, text
        super().__init__(f"row {row}: {text!r}")


class TypeInference:
    """The types that fit every cell of a column so far, by number format.

    Attributes:
        has_values: Whether any cell has a value.
    """

    def __init__(self, formats: Sequence[DecimalFormat], missing: Sequence[str] | None) -> None:
        """`formats`: the number formats to try. `missing`: the option `missing_values`."""
        self._missing = missing
        self._numbers: dict[DecimalFormat, CellType] = dict.fromkeys(formats, "int64")
        self._is_bool = True
        self._has_codes = False
        self.has_values = False

    def add(self, cells: Any) -> None:
        """Exclude the types that do not fit these cells."""
        if not self._numbers and not self._is_bool:
            return
        values = pc.ascii_trim_whitespace(cells)
        if self._missing is not None:  # they may be numbers
            values = without_words(values, self._missing)
        smallest = self._numbers.get(PLAIN, "int64")
        if (plain := _number_type(values, PLAIN, smallest)) is None:
            # Looking for words takes as long as parsing.
            values = without_words(values, self._missing)
            plain = _number_type(values, PLAIN, smallest)
        if values.null_count == len(values):
            return
        self.has_values = True
        if plain == "int64" and not self._has_codes:
            is_long = pc.greater(pc.binary_length(values), 1)
            self._has_codes = _any(pc.and_(pc.starts_with(values, "0"), is_long))
        # A column of 0 and 1 has integers.
        is_bool = plain is None and _booleans(values, FALSE_AND_TRUE) is not None
        self._is_bool = self._is_bool and is_bool
        for number_format, dtype in list(self._numbers.items()):
            if plain == "int64" or (plain and number_format.decimal_point == "."):
                current: CellType | None = "float64" if dtype == "float64" else plain
            else:
                current = _number_type(values, number_format, dtype)
            if current is None:
                del self._numbers[number_format]
            else:
                self._numbers[number_format] = current

    def is_number(self, number_format: DecimalFormat) -> bool:
        """Whether all values are numbers in this format."""
        return self.has_values and number_format in self._numbers

    def dtype(self, number_format: DecimalFormat) -> CellType:
        """The type of all cells; text for columns without values, and for codes such as 02110."""
        if not self.has_values:
            return "string"
        dtype = "bool" if self._is_bool else self._numbers.get(number_format, "string")
        return "string" if dtype == "int64" and self._has_codes else dtype


def _number_type(values: Any, number_format: DecimalFormat, smallest: CellType) -> CellType | None:
    """The first type from `smallest` on that fits all values."""
    types: tuple[CellType, ...] = ("int64", "float64") if smallest == "int64" else ("float64",)
    return next(
        (dtype for dtype in types if _parse(values, dtype, number_format) is not None), None
    )


def without_words(cells: Any, missing: Sequence[str] | None) -> Any:
    """Cells without spaces around them, with null for words that mean a missing value.

    Args:
        cells: Text.
        missing: The words; None: the usual ones, ignoring case.
    """
    compared = pc.utf8_lower(cells) if missing is None else cells
    words = pa.array(MISSING_WORDS if missing is None else missing, pa.string())
    is_missing = pc.is_in(compared, words, skip_nulls=True)
    return pc.if_else(is_missing, pa.scalar(None, pa.string()), cells)


def parse_cells(
    cells: Any,
    dtype: CellType,
    number_format: DecimalFormat,
    missing: Sequence[str] | None,
    *,
    finite: bool,
) -> Any:
    """The cells as an Arrow array of the type that tables store; null where one is missing.

    Integers may be written as `1.0`, as pandas writes them in columns with missing values. `inf` is
    a number, as in other formats, unless `finite`; a job that uses it reports its row.

    Raises BadCell for the first cell that does not have this type.
    """

    def parse(values: Any) -> Any | None:
        parsed = _parse(values, dtype, number_format, finite=finite)
        return _parse_whole(values, dtype, number_format) if parsed is None else parsed

    values = cells if dtype == "string" else pc.ascii_trim_whitespace(cells)
    has_words = missing is not None and dtype != "string"  # they may be numbers
    parsed = None if has_words else _parse(values, dtype, number_format, finite=finite)
    if parsed is not None:
        return parsed
    values = without_words(values, missing)
    if (parsed := parse(values)) is not None:
        return parsed
    start, size = 0, len(values)
    while size > 1:  # bisect, since parsing cells one by one is slow
        half = size // 2
        if parse(values.slice(start, half)) is None:
            size = half
        else:
            start, size = start + half, size - half
    raise BadCell(start, cells[start].as_py())


def _parse(
    cells: Any, dtype: CellType, number_format: DecimalFormat, *, finite: bool = False
) -> Any | None:
    """The cells without spaces around them as this type; None if a cell does not fit.

    `inf` is a number unless `finite`.
    """
    stored = ARROW_TYPES[dtype]
    if dtype == "string":
        return cells.cast(stored)
    if dtype == "bool":
        return _booleans(cells, (*FALSE_AND_TRUE, *ZERO_AND_ONE))
    if number_format.thousands and (cells := _without_groups(cells, number_format)) is None:
        return None
    try:
        if dtype in ("uint8", "int32", "int64"):
            # Arrow reads 0x1F as 31, too.
            if _any(pc.match_substring(cells, "x", ignore_case=True)):
                return None
            return cells.cast(stored)
        if number_format.decimal_point != ".":
            if _any(pc.match_substring(cells, ".")):
                return None
            cells = pc.replace_substring(cells, number_format.decimal_point, ".")
        numbers = cells.cast(pa.float64()).cast(stored, safe=False)
    except pa.ArrowInvalid:
        return None
    # "nan" and "inf", and numbers that are too large for the type.
    wrong = pc.invert(pc.is_finite(numbers))
    if not finite and _any(wrong):
        wrong = pc.and_(wrong, pc.invert(pc.match_substring_regex(cells, INFINITE)))
    return numbers if not _any(wrong) else None


def _parse_whole(cells: Any, dtype: CellType, number_format: DecimalFormat) -> Any | None:
    """Integers from numbers without fractions; None for other types and numbers."""
    if dtype not in ("uint8", "int32", "int64"):
        return None
    numbers = _parse(cells, "float64", number_format)
    try:
        return None if numbers is None else numbers.cast(ARROW_TYPES[dtype])
    except pa.ArrowInvalid:  # a fraction, or out of range
        return None


def _without_groups(cells: Any, number_format: DecimalFormat) -> Any | None:
    """The cells without thousands separators; None if one has them in wrong places."""
    if number_format.thousands == " ":
        cells = pc.replace_substring_regex(cells, "[\u00a0\u202f]", " ")
    if _any(pc.invert(pc.match_substring_regex(cells, number_format.pattern))):
        return None
    return pc.replace_substring(cells, number_format.thousands, "")


def _booleans(cells: Any, spellings: Sequence[str]) -> Any | None:
    lower = pc.ascii_lower(cells)
    numbers = pc.index_in(lower, pa.array(spellings), skip_nulls=True)
    if numbers.null_count != cells.null_count:
        return None
    return pc.bit_wise_and(numbers, 1).cast(pa.uint8())


def _any(flags: Any) -> bool:
    """Whether one of the flags is true; nulls are not."""
    return bool(pc.any(flags).as_py())
