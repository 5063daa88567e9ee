"""Finds arrays with non-finite values: a state with such arrays is not saved."""

from collections.abc import Iterator, Mapping
from typing import Any, Final, Protocol

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

FLOATS: Final = {np.dtype(kind) for kind in (np.float16, ml_dtypes.bfloat16, np.float32, float)}

CHUNK_ELEMENTS: Final = 2**18
"""Elements checked at a time, so that the intermediate results fit into the CPU's cache."""


class RowsInPieces(Protocol):
    """Rows of an array of which only a piece is in memory at once."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of its elements."""

    def pieces(self) -> Iterator[NDArray[Any]]:
        """The rows in order."""


def nonfinite_names(arrays: Mapping[str, NDArray[Any] | RowsInPieces]) -> list[str]:
    """The names of the arrays with an element that is NaN or infinite, in their order."""
    return [name for name, array in arrays.items() if not array_is_finite(array)]


def array_is_finite(array: NDArray[Any] | RowsInPieces) -> bool:
    """Whether all elements are finite; True for dtypes other than floats."""
    if array.dtype not in FLOATS:
        return True
    if not isinstance(array, np.ndarray):
        return all(array_is_finite(piece) for piece in array.pieces())
    flat = array.reshape(-1)
    starts = range(0, flat.size, CHUNK_ELEMENTS)
    return all(bool(np.isfinite(flat[start : start + CHUNK_ELEMENTS]).all()) for start in starts)
