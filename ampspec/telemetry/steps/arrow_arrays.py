"""NumPy arrays of numbers as Arrow arrays, and back, without pandas.

`pyarrow.array` and `Array.to_numpy` import pandas where it is installed, and never use it for
numbers: 42 MB of the API process, and time of its first read.
"""

from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ampspec.telemetry.steps.missing import is_missing

_DTYPES: Final = {
    pa.from_numpy_dtype(dtype): dtype
    for dtype in map(
        np.dtype,
        (
            *("bool", "float16", "float32", "float64"),
            *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
        ),
    )
}
"""The dtype of each Arrow type."""


def to_arrow(values: NDArray[Any], *, with_nulls: bool = False) -> pa.Array:
    """The values as an Arrow array, on the same memory if possible; NaN stays NaN.

    Without nulls, or `with_nulls` for empty cells (`MISSING`).
    """
    if values.ndim != 1 or values.dtype not in _DTYPES.values():
        raise TypeError(
            "expected a one-dimensional array of numbers in the byte order of this machine, "
            f"received {values.ndim} dimensions of {values.dtype!r}"
        )
    # Arrow has one bit for each truth value.
    data = (
        np.packbits(values, bitorder="little")
        if values.dtype == np.bool_
        else np.ascontiguousarray(values)
    )
    kind = pa.from_numpy_dtype(values.dtype)
    valid = None
    if with_nulls and (empty := is_missing(values)).any():
        valid = pa.py_buffer(np.packbits(~empty, bitorder="little"))
    return pa.Array.from_buffers(kind, len(values), [valid, pa.py_buffer(data)])


def to_numpy(array: pa.Array) -> NDArray[Any]:
    """The values of an Arrow array, on the same memory if possible, then read-only.

    Raises ValueError for an array that has nulls or does not consist of numbers.
    """
    dtype = _DTYPES.get(array.type)
    if dtype is None:
        raise ValueError(f"expected an Arrow array of numbers, received one of {array.type}")
    if array.null_count:
        raise ValueError(f"expected an Arrow array without nulls, received {array.null_count}")
    data = array.buffers()[1]
    if not len(array):  # it may have no data
        return np.empty(0, dtype)
    if dtype == np.bool_:
        bits = np.frombuffer(data, np.uint8)
        end = array.offset + len(array)
        return np.unpackbits(bits, count=end, bitorder="little")[array.offset :].view(np.bool_)
    return np.frombuffer(data, dtype, len(array), array.offset * dtype.itemsize)
