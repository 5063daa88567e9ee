"""Copies named arrays of any dtype from rank 0 to all other ranks."""

import math
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from ampcore.distributed.replicas import Replicas

Arrays = dict[str, NDArray[Any]]

PIECE_BYTES: Final = 16 * 2**20
"""The size of the pieces that are sent: one operation for each, of a size that all ranks know."""


def broadcast_arrays(replicas: Replicas, arrays: Mapping[str, NDArray[Any]] | None) -> Arrays:
    """The arrays of rank 0 on every rank, bit for bit.

    Args:
        replicas: The replicas of the job.
        arrays: On rank 0, the arrays; the other ranks pass None.
    """
    if replicas.size == 1:
        return dict(arrays or {})
    mine = {name: np.asarray(array, order="C") for name, array in (arrays or {}).items()}
    header = replicas.broadcast_object(
        [[name, array.dtype.name, list(array.shape)] for name, array in mine.items()]
    )
    data = b"".join(array.tobytes() for array in mine.values())
    sizes = [_dtype(name).itemsize * math.prod(shape) for _, name, shape in header]
    received = _broadcast_bytes(replicas, data, sum(sizes))
    found, start = {}, 0
    for (name, dtype, shape), size in zip(header, sizes, strict=True):
        part = received[start : start + size]
        found[name] = np.frombuffer(part, _dtype(dtype)).reshape(shape).copy()
        start += size
    return found


def _dtype(name: str) -> np.dtype[Any]:
    """The dtype of a name; bfloat16 and float8 are those of TensorFlow."""
    found: np.dtype[Any] = np.dtype(tf.as_dtype(name).as_numpy_dtype)
    return found


def _broadcast_bytes(replicas: Replicas, data: bytes, size: int) -> bytes:
    parts = []
    piece_bytes = min(PIECE_BYTES, size + -size % np.dtype(np.int32).itemsize)
    for start in range(0, size, PIECE_BYTES):
        piece = data[start : start + PIECE_BYTES].ljust(piece_bytes, b"\0")
        numbers = np.frombuffer(piece, np.int32)
        [sent] = replicas.broadcast([tf.constant(numbers)])
        parts.append(sent.numpy().tobytes())
    return b"".join(parts)[:size]
