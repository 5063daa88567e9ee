"""Tables whose rows live on several ranks, passed between the ranks and a file in pieces.

A file has the whole table under its usual name, so it does not depend on the number of ranks. No
rank holds more of the table than its own rows and one piece.
"""

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from ampcore.distributed.arrays import broadcast_bytes, in_words
from ampcore.distributed.replicas import Replicas
from ampcore.distributed.row_shards import RowShard

Array = NDArray[Any]

PIECE_BYTES: Final = 16 * 2**20
"""How many bytes of a table are passed on at once."""


class WholeTable:
    """A whole table, of which this rank has its own rows.

    All ranks take its pieces, or finish it, together and in the same order as other tables.

    Args:
        own: The rows of this rank, a copy that nobody changes.
        shard: Which rows they are.
        replicas: The ranks that have the others.
    """

    def __init__(self, own: Array, shard: RowShard, replicas: Replicas) -> None:
        self.own, self.shard, self.replicas = own, shard, replicas
        self._pieces = self._receive()

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the whole table."""
        return (self.shard.rows, *self.own.shape[1:])

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of its elements."""
        return self.own.dtype

    @property
    def nbytes(self) -> int:
        """The size of the whole table."""
        return self.shard.rows * _row_bytes(self.own)

    def pieces(self) -> Iterator[Array]:
        """The rows of the whole table in order, in pieces; each one once."""
        return self._pieces

    def finish(self) -> None:
        """Pass over the pieces that this rank has not taken."""
        for _ in self._pieces:
            pass

    def _receive(self) -> Iterator[Array]:
        shard, row_bytes = self.shard, _row_bytes(self.own)
        local = _local_rows(row_bytes, shard)
        for first in range(0, shard.rows_of(0), local):
            own = self.own[first : first + local]
            words = in_words(_bytes(own), local * row_bytes)
            [found] = self.replicas.all_gather([tf.constant(words)])
            parts = found.numpy().view(np.uint8).reshape(shard.size, words.nbytes)
            start = first * shard.size
            count = min(local * shard.size, shard.rows - start)
            piece = np.empty((count, *own.shape[1:]), own.dtype)
            for rank, part in enumerate(parts):
                rows = piece[rank :: shard.size]
                rows[...] = part[: rows.nbytes].view(own.dtype).reshape(rows.shape)
            yield piece


def receive_own_rows(
    replicas: Replicas, shard: RowShard, whole: Array | None, like: Array
) -> Array:
    """The rows of this rank in a table that rank 0 has; all ranks call it together.

    Args:
        replicas: The ranks.
        shard: The rows of this rank.
        whole: On rank 0, the whole table, perhaps a file that is mapped into memory.
        like: An array with the dtype, and the shape of the rows, on every rank.
    """
    row_bytes = _row_bytes(like)
    rows = _local_rows(row_bytes, shard) * shard.size
    found = np.empty((shard.local_rows, *like.shape[1:]), like.dtype)
    for start in range(0, shard.rows, rows):
        piece = None if whole is None else _bytes(whole[start : start + rows])
        data = broadcast_bytes(replicas, piece, rows * row_bytes)
        count = min(rows, shard.rows - start)
        part = data[: count * row_bytes].view(like.dtype).reshape(count, *like.shape[1:])
        own = shard.own_rows(part)
        first = start // shard.size
        found[first : first + len(own)] = own
    return found


def _bytes(array: Array) -> NDArray[np.uint8]:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _row_bytes(array: Array) -> int:
    return int(np.prod(array.shape[1:], dtype=np.int64)) * array.dtype.itemsize


def _local_rows(row_bytes: int, shard: RowShard) -> int:
    """The rows of each rank in a piece."""
    return max(1, min(shard.rows_of(0), PIECE_BYTES // (row_bytes * shard.size)))
