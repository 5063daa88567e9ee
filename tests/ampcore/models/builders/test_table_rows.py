"""The rows of a table on one rank are those of the whole table."""

import keras
import numpy as np
import pytest

from ampcore.distributed.row_shards import RowShard
from ampcore.models.builders import table_rows
from ampcore.models.builders.table_rows import assign_initial_rows


@pytest.mark.parametrize("piece_values", [1, 100, 2**22])
@pytest.mark.parametrize(("rows", "dim", "size"), [(64, 8, 2), (1000, 3, 3), (77, 5, 2), (9, 1, 4)])
def test_each_rank_draws_its_rows_of_the_whole_table(monkeypatch, rows, dim, size, piece_values):
    monkeypatch.setattr(table_rows, "PIECE_VALUES", piece_values)
    initializer = keras.initializers.RandomUniform(seed=123_456_789)
    whole = np.array(initializer((rows, dim)))
    for rank in range(size):
        shard = RowShard(rows, rank, size)
        table = keras.Variable(np.full((shard.local_rows, dim), np.nan, np.float32))
        assign_initial_rows(table, shard, initializer)
        np.testing.assert_array_equal(table.numpy(), shard.own_rows(whole))


def test_another_initializer_is_refused():
    table = keras.Variable(np.zeros((2, 1)))
    with pytest.raises(TypeError, match="Expected RandomUniform; received RandomNormal"):
        assign_initial_rows(table, RowShard(4, 0, 2), keras.initializers.RandomNormal())
