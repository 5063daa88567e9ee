"""The empty cells of a column: a NaN that computations do not return."""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

MISSING: Final = np.array([0x7FC007A2], np.uint32).view(np.float32)[0]
"""The float32 of an empty cell: a NaN whose payload, 1954, distinguishes it from computed NaNs.

Source: `NA_real_` of R (arithmetic.c), which has the same payload.
"""
_MISSING_BITS: Final = {
    dtype: np.array([MISSING], dtype).view(bits)[0]
    for dtype, bits in ((np.dtype(np.float32), np.uint32), (np.dtype(np.float64), np.uint64))
}


def is_missing(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Which values are empty cells; False for a computed NaN."""
    if (bits := _MISSING_BITS.get(values.dtype)) is None:
        return np.zeros(len(values), np.bool_)
    empty: NDArray[np.bool_] = np.ascontiguousarray(values).view(bits.dtype) == bits
    return empty
