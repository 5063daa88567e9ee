"""Which rank owns a row, and whole tables in pieces."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from ampcore.distributed.row_shards import RowShard
from ampcore.distributed.tables import whole_tables
from ampcore.distributed.tables.whole_tables import OwnRows, VariableRows, WholeTable
from tests.ampcore.distributed.thread_communicator import on_ranks


@pytest.mark.parametrize(("rows", "size"), [(7, 3), (6, 3), (5, 1), (3, 3)])
def test_every_row_has_one_owner_and_the_ranks_have_equal_shares(rows, size):
    shards = [RowShard(rows, rank, size) for rank in range(size)]
    table = np.arange(rows)
    assert sorted(np.concatenate([shard.own_rows(table) for shard in shards])) == list(table)
    counts = [shard.local_rows for shard in shards]
    assert max(counts) - min(counts) <= 1
    for key in range(rows):
        shard = shards[shards[0].owner(key)]
        assert shard.own_rows(table)[shard.local(key)] == key


@pytest.mark.parametrize(("rows", "rank"), [(2, 0), (9, 3), (9, -1)])
def test_a_rank_without_rows_is_refused(rows, rank):
    with pytest.raises(ValueError, match="expected"):
        RowShard(rows, rank, 3)


@pytest.mark.parametrize("piece_bytes", [1, 40, 2**20])
@pytest.mark.parametrize(
    "table", [np.arange(33).reshape(11, 3) / np.float16(7), np.arange(11)], ids=["rows", "counts"]
)
def test_a_table_is_put_together_and_divided_again(monkeypatch, piece_bytes, table):
    monkeypatch.setattr(whole_tables, "PIECE_BYTES", piece_bytes)

    def run(communicator):
        shard = RowShard(11, communicator.rank, communicator.size)
        whole = WholeTable(shard.own_rows(table), shard, communicator)
        assert (whole.shape, whole.dtype, whole.nbytes) == (table.shape, table.dtype, table.nbytes)
        pieces = list(whole.pieces())
        whole.finish()
        given = table if communicator.rank == 0 else None
        own = OwnRows(communicator, shard, given, table[:0]).receive()
        return pieces, own, shard.own_rows(table)

    for pieces, own, expected in on_ranks(3, run):
        assert np.concatenate(pieces).tobytes() == table.tobytes()
        assert len(pieces) > 1 or piece_bytes > table.nbytes
        assert own.tobytes() == np.ascontiguousarray(expected).tobytes()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int64"])
def test_rows_are_read_from_a_variable_and_assigned_to_one_in_pieces(monkeypatch, dtype):
    monkeypatch.setattr(whole_tables, "PIECE_BYTES", 12)
    table = (np.arange(33).reshape(11, 3) / 4).astype(tf.as_dtype(dtype).as_numpy_dtype)

    def run(communicator):
        shard = RowShard(11, communicator.rank, communicator.size)
        own = keras.Variable(np.zeros_like(shard.own_rows(table)), dtype=dtype)
        given = table if communicator.rank == 0 else None
        OwnRows(communicator, shard, given, table[:0]).assign_to(own)
        rows = VariableRows(own)
        assert (rows.shape, rows.dtype) == (tuple(own.shape), table.dtype)
        pieces = list(rows.pieces())
        assert len(pieces) > 1
        assert np.concatenate(pieces).tobytes() == shard.own_rows(table).tobytes()
        return np.concatenate(list(WholeTable(rows, shard, communicator).pieces()))

    for found in on_ranks(2, run):
        assert found.tobytes() == table.tobytes()


def test_rows_of_a_variable_are_those_at_the_time_when_they_are_read():
    variable = keras.Variable(np.zeros(3, np.float32))
    rows = VariableRows(variable)
    variable.assign([1.0, 2.0, 3.0])
    assert rows[1:].tolist() == [2.0, 3.0]


def test_a_rank_that_takes_no_pieces_passes_over_them():
    def run(communicator):
        shard = RowShard(5, communicator.rank, communicator.size)
        table = WholeTable(shard.own_rows(np.arange(5.0)), shard, communicator)
        if communicator.rank == 0:
            return next(table.pieces()), table.finish()
        return table.finish()

    [(piece, _), _] = on_ranks(2, run)
    assert piece.tolist() == [0, 1, 2, 3, 4]
