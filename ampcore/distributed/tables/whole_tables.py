"""Tables whose rows live on several ranks, passed between the ranks and a file in pieces.

A file has the whole table under its usual name, so it does not depend on the number of ranks. No
rank holds more of the table than its own rows and some pieces, and of its own rows it makes no
copy: they are read from the variable, and assigned to it, piece by piece.
"""

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from ampcore.distributed.arrays import broadcast_bytes, in_words
from ampcore.distributed.communicator import Communicator
from ampcore.distributed.row_shards import RowShard

Array = NDArray[Any]

PIECE_BYTES: Final = 4 * 2**20
"""How many bytes of a table are passed on at once: some twelve buffers of this size are in use."""


class VariableRows:
    """The rows of a variable as they are when they are read; they are not copied before.

    Args:
        variable: A variable of Keras, which nobody changes until all rows are read.
    """

    def __init__(self, variable: Any) -> None:
        self._variable = variable.value
        self.shape = tuple(variable.shape)
        self.dtype: np.dtype[Any] = np.dtype(self._variable.dtype.as_numpy_dtype)

    def __getitem__(self, rows: slice) -> Array:
        start, stop, _ = rows.indices(self.shape[0])
        # Gathered from the variable itself: its value would be copied first.
        array: Array = tf.gather(self._variable, tf.range(start, stop)).numpy()
        return array

    def pieces(self) -> Iterator[Array]:
        """All rows in order, in pieces."""
        count = max(1, PIECE_BYTES // _row_bytes(self))
        for start in range(0, self.shape[0], count):
            yield self[start : start + count]


class WholeTable:
    """A whole table, of which this rank has its own rows.

    All ranks take its pieces, or finish it, together and in the same order as other tables.

    Args:
        rank_rows: The rows of this rank, which nobody changes until the table is finished.
        shard: Which rows they are.
        communicator: The ranks that have the others.
    """

    def __init__(
        self, rank_rows: Array | VariableRows, shard: RowShard, communicator: Communicator
    ) -> None:
        self.rank_rows, self.shard, self.communicator = rank_rows, shard, communicator
        self._pieces = self._receive()

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the whole table."""
        return (self.shard.rows, *self.rank_rows.shape[1:])

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of its elements."""
        return self.rank_rows.dtype

    @property
    def nbytes(self) -> int:
        """The size of the whole table."""
        return self.shard.rows * _row_bytes(self.rank_rows)

    def pieces(self) -> Iterator[Array]:
        """The rows of the whole table in order, in pieces; each one once."""
        return self._pieces

    def finish(self) -> None:
        """Pass over the pieces that this rank has not taken."""
        for _ in self._pieces:
            pass

    def _receive(self) -> Iterator[Array]:
        shard, row_bytes = self.shard, _row_bytes(self.rank_rows)
        local = _local_rows(row_bytes, shard)
        for first in range(0, shard.rows_of(0), local):
            local_rows = self.rank_rows[first : first + local]
            words = in_words(_bytes(local_rows), local * row_bytes)
            [gathered_words] = self.communicator.all_gather([tf.constant(words)])
            parts = gathered_words.numpy().view(np.uint8).reshape(shard.size, words.nbytes)
            start = first * shard.size
            count = min(local * shard.size, shard.rows - start)
            piece = np.empty((count, *local_rows.shape[1:]), local_rows.dtype)
            for rank, part in enumerate(parts):
                rows = piece[rank :: shard.size]
                rows[...] = part[: rows.nbytes].view(local_rows.dtype).reshape(rows.shape)
            yield piece


class OwnRows:
    """The rows of this rank in a table that rank 0 has. All ranks receive them together, once.

    Args:
        communicator: The ranks.
        shard: The rows of this rank.
        whole: On rank 0, the whole table, perhaps a file that is mapped into memory.
        like: An array with the dtype, and the shape of the rows, on every rank.
    """

    def __init__(
        self, communicator: Communicator, shard: RowShard, whole: Array | None, like: Array
    ) -> None:
        self._communicator, self._shard, self._whole, self._like = communicator, shard, whole, like
        self.shape = (shard.local_rows, *like.shape[1:])
        self.dtype = like.dtype

    def receive(self) -> Array:
        """All of them."""
        array = np.empty(self.shape, self.dtype)
        for first, rows in self._pieces():
            array[first : first + len(rows)] = rows
        return array

    def assign_to(self, variable: Any) -> None:
        """Make them the rows of a variable of Keras, of the same shape and dtype."""
        for first, rows in self._pieces():
            places = tf.range(first, first + len(rows))
            variable.value.scatter_update(tf.IndexedSlices(rows, places))

    def _pieces(self) -> Iterator[tuple[int, Array]]:
        """The local number of the first row of each piece, and its rows."""
        shard, like, row_bytes = self._shard, self._like, _row_bytes(self)
        rows = _local_rows(row_bytes, shard) * shard.size
        for start in range(0, shard.rows, rows):
            piece = None if self._whole is None else _bytes(self._whole[start : start + rows])
            data = broadcast_bytes(self._communicator, piece, rows * row_bytes)
            count = min(rows, shard.rows - start)
            part = data[: count * row_bytes].view(like.dtype).reshape(count, *like.shape[1:])
            yield start // shard.size, shard.own_rows(part)


def _bytes(array: Array) -> NDArray[np.uint8]:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _row_bytes(array: Array | VariableRows | OwnRows) -> int:
    return int(np.prod(array.shape[1:], dtype=np.int64)) * array.dtype.itemsize


def _local_rows(row_bytes: int, shard: RowShard) -> int:
    """The rows of each rank in a piece."""
    return max(1, min(shard.rows_of(0), PIECE_BYTES // (row_bytes * shard.size)))
