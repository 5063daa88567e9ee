"""Number formats in text: the decimal sign and the thousands separator."""

import re
from typing import Final, Literal, NamedTuple

DecimalPoint = Literal[".", ","]
Thousands = Literal["", ",", ".", " ", "'"]

MISSING_WORDS: Final = (
    *(
        "",
        "na",
        "n/a",
        "nan",
        "null",
        "none",
        "nat",
        "<na>",
        "?",
        "-",
        "--",
        "–",
        "—",
        ".",
        "..",
        ":",
        "n.a.",
    ),
    "\\n",
    *("#n/a", "#n/a n/a", "#na", "#div/0!", "#num!", "#null!", "#ref!", "#value!", "#name?"),
    *("-nan", "1.#ind", "-1.#ind", "1.#qnan", "-1.#qnan"),
)
r"""Words for a missing number, in lower case: words of programs, `\N` of MySQL
and Hive, errors of Excel, and NaN as old C libraries write it."""
_NUMBER: Final = re.compile(
    r"[-+]?(\d+([.,]\d*)?|[.,]\d+|\d{1,3}(([ ,.'\u00a0\u202f])\d{3})+([.,]\d+)?)([eE][-+]?\d+)?"
)


class DecimalFormat(NamedTuple):
    """The characters of numbers besides digits."""

    decimal_point: DecimalPoint
    thousands: Thousands

    @property
    def pattern(self) -> str:
        """A regular expression for numbers with groups of three digits, or without."""
        group, point = re.escape(self.thousands), re.escape(self.decimal_point)
        digits = rf"(\d+|\d{{1,3}}({group}\d{{3}})+)"
        return rf"^[-+]?({digits}({point}\d*)?|{point}\d+)([eE][-+]?\d+)?$"


PLAIN: Final = DecimalFormat(".", "")
_WITH_POINT: Final = (DecimalFormat(".", ","), DecimalFormat(".", " "), DecimalFormat(".", "'"))
_WITH_COMMA: Final = (DecimalFormat(",", ""), DecimalFormat(",", "."), DecimalFormat(",", " "))


def number_formats(
    delimiter: str, decimal_point: DecimalPoint | None, thousands: Thousands | None
) -> list[DecimalFormat]:
    """The formats that the numbers of a file may have, the most likely first.

    Args:
        delimiter: If commas separate cells, they are rarely decimal signs.
        decimal_point: The decimal sign, if it is known.
        thousands: The thousands separator, if it is known.
    """
    if decimal_point is not None and thousands is not None:
        return [DecimalFormat(decimal_point, thousands)]
    usual = _WITH_POINT + _WITH_COMMA if delimiter == "," else _WITH_COMMA + _WITH_POINT
    formats = [
        format_
        for format_ in (PLAIN, *usual)
        if decimal_point in (None, format_.decimal_point) and thousands in (None, format_.thousands)
    ]
    return formats or [DecimalFormat("." if thousands == "," else ",", thousands or "")]


def is_number(cell: str) -> bool:
    """Whether a cell is a number in one of the formats, or `nan` or `inf`."""
    text = cell.strip()
    return _NUMBER.fullmatch(text) is not None or text.lower() in ("nan", "inf", "-inf")


def is_value(cell: str) -> bool:
    """Whether a cell is a number or a missing value."""
    return is_number(cell) or cell.strip().lower() in MISSING_WORDS
