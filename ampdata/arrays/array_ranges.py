"""The range of the numbers in columns of arrays, among the first rows."""

import math
from typing import Final

import numpy as np

from ampdata.file_description import ArrayRange
from ampdata.source import Column, Source

MAX_VALUES: Final = 2_000_000
"""Maximum number of values read from the first rows of a column."""
MAX_ROWS: Final = 1000


def array_ranges(source: Source) -> dict[str, ArrayRange]:
    """The ranges of columns whose rows are arrays of numbers of one shape.

    Raises InvalidData for a bad row.
    """
    names = [name for name, column in source.columns.items() if _has_arrays(column)]
    ranges = {}
    for name in names:
        size = math.prod(source.columns[name].shape)
        rows = min(source.rows, MAX_ROWS, MAX_VALUES // size)
        if rows < 1:
            continue
        values = source.read(np.arange(rows), [name])[name].astype(np.float64)
        finite = values[np.isfinite(values)]
        if len(finite):
            is_whole = bool((finite == np.floor(finite)).all())
            low, high = float(finite.min()), float(finite.max())
            ranges[name] = ArrayRange(rows=rows, low=low, high=high, is_whole=is_whole)
    return ranges


def _has_arrays(column: Column) -> bool:
    is_number = column.dtype.startswith(("int", "uint", "float"))
    return is_number and math.prod(column.shape) > 1 and None not in column.shape
