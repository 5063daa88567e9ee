"""Finds arrays with non-finite values: a state with such arrays is not saved."""

from collections.abc import Mapping
from typing import Any, Final

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

FLOATS: Final = {np.dtype(kind) for kind in (np.float16, ml_dtypes.bfloat16, np.float32, float)}

CHUNK_ELEMENTS: Final = 2**18
"""Elements checked at a time, so that the intermediate results fit into the CPU's cache."""


def nonfinite_names(arrays: Mapping[str, NDArray[Any]]) -> list[str]:
    """The names of the arrays with an element that is NaN or infinite, in their order."""
    return [name for name, array in arrays.items() if not array_is_finite(array)]


def array_is_finite(array: NDArray[Any]) -> bool:
    """Whether all elements are finite; True for dtypes other than floats."""
    if array.dtype not in FLOATS:
        return True
    flat = array.reshape(-1)
    starts = range(0, flat.size, CHUNK_ELEMENTS)
    return all(bool(np.isfinite(flat[start : start + CHUNK_ELEMENTS]).all()) for start in starts)
