"""Copies named arrays of any dtype from rank 0 to all other ranks, in pieces."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from ampcore.distributed.communicator import Communicator

Array = NDArray[Any]
Arrays = dict[str, Array]
Bytes = NDArray[np.uint8]

PIECE_BYTES: Final = 16 * 2**20
"""How many bytes are sent at once."""
WORD: Final = np.dtype(np.int32)
"""Bytes travel as integers, which all collectives can transfer."""


def broadcast_arrays(communicator: Communicator, arrays: Mapping[str, Array] | None) -> Arrays:
    """The arrays of rank 0 on every rank, bit for bit.

    No rank needs memory for more than the arrays and one piece.

    Args:
        communicator: The ranks of the job.
        arrays: On rank 0, the arrays; the other ranks pass None.

    Returns:
        On rank 0 the given arrays; on the other ranks new ones.
    """
    if communicator.size == 1:
        return dict(arrays or {})
    mine = {name: np.asarray(array, order="C") for name, array in (arrays or {}).items()}
    header = communicator.broadcast_object(
        [[name, array.dtype.name, list(array.shape)] for name, array in mine.items()]
    )
    if communicator.rank > 0:
        mine = {name: np.empty(shape, _dtype(dtype)) for name, dtype, shape in header}
    for piece in _pieces([array.reshape(-1).view(np.uint8) for array in mine.values()]):
        size = sum(map(len, piece))
        if communicator.rank == 0:
            broadcast_bytes(communicator, np.concatenate(piece), size)
            continue
        received = broadcast_bytes(communicator, None, size)
        for part in piece:
            part[:], received = received[: len(part)], received[len(part) :]
    return mine


def broadcast_bytes(communicator: Communicator, data: Bytes | None, size: int) -> Bytes:
    """The `size` bytes of rank 0 on every rank; the other ranks' `data` is not used."""
    words = in_words(np.empty(0, np.uint8) if data is None else data, size)
    [sent] = communicator.broadcast([tf.constant(words)])
    received: Bytes = sent.numpy().view(np.uint8)[:size]
    return received


def in_words(data: Bytes, size: int) -> NDArray[np.int32]:
    """Bytes as integers, with zeros after them up to `size` bytes or a little more."""
    words = np.zeros(-(-size // WORD.itemsize), WORD)
    words.view(np.uint8)[: len(data)] = data
    return words


def _pieces(parts: Sequence[Bytes]) -> Iterator[list[Bytes]]:
    """The parts one after the other, as lists of views with `PIECE_BYTES` together."""
    piece: list[Bytes] = []
    room = PIECE_BYTES
    for part in parts:
        unsent_part = part
        while len(unsent_part):
            piece.append(unsent_part[:room])
            unsent_part, room = unsent_part[room:], room - len(piece[-1])
            if room == 0:
                yield piece
                piece, room = [], PIECE_BYTES
    if piece:
        yield piece


def _dtype(name: str) -> np.dtype[Any]:
    """The dtype of a name; bfloat16 and float8 are those of TensorFlow."""
    dtype: np.dtype[Any] = np.dtype(tf.as_dtype(name).as_numpy_dtype)
    return dtype
