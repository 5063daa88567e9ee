"""A column of a dataset version as its description tells, which is not trusted."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

MAX_CLASSES: Final = 1000
"""A description lists no more classes."""


@dataclass(frozen=True)
class DescribedColumn:
    """A column as far as a valid description tells.

    Attributes:
        name: Of the column.
        dtype: `string`, `image`, or the name of a dtype.
        shape: Of one example; None for a size that differs.
        missing: The rows without a value.
        nan: The rows whose number is NaN; as a target it is missing, too.
        has_fractions: Whether a number among the first rows is not whole.
        classes: How many classes it has; None where the format has no names of classes.
        distinct: How many values differ among the first rows; None if unknown, or for very many.
        low: The smallest number among the first rows; None if unknown.
        high: The largest one.
    """

    name: str
    dtype: str
    shape: tuple[int | None, ...] = ()
    missing: int = 0
    nan: int = 0
    has_fractions: bool = False
    classes: int | None = None
    distinct: int | None = None
    low: float | None = None
    high: float | None = None

    @classmethod
    def of(cls, column: Mapping[str, Any]) -> "DescribedColumn":
        """The column of an entry of the description."""
        shape, missing, classes = (column.get(name) for name in ("shape", "missing", "classes"))
        nan = column.get("nan")
        stored = column.get("statistics") or column.get("range")
        dtype = str(column.get("dtype", ""))
        statistics = stored if isinstance(stored, dict) else {}
        distinct = statistics.get("distinct")
        return cls(
            str(column.get("name", "")),
            dtype,
            tuple(size if isinstance(size, int) else None for size in shape)
            if isinstance(shape, list)
            else (),
            missing if isinstance(missing, int) else 0,
            nan if isinstance(nan, int) else 0,
            dtype.startswith("float") and statistics.get("is_whole") is False,
            len(classes) if isinstance(classes, list) and len(classes) < MAX_CLASSES else None,
            distinct if isinstance(distinct, int) else None,
            _number(statistics.get("low")),
            _number(statistics.get("high")),
        )

    @property
    def has_any_size(self) -> bool:
        """Whether its images have several sizes."""
        return self.dtype == "image" and None in self.shape[:2]


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) else None
