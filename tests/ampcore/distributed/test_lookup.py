"""Rows of a table that several ranks share, looked up and differentiated."""

import numpy as np
import pytest
import tensorflow as tf

from ampcore.distributed import SingleRank
from ampcore.distributed.lookup import sharded_lookup
from ampcore.distributed.row_shards import RowShard
from tests.ampcore.distributed.thread_communicator import on_ranks

ROWS, DIM = 23, 3
TABLE = np.random.default_rng(0).normal(size=(ROWS, DIM)).astype(np.float32)


def look_up(keys_of_ranks, dtype="float32", gradient=None):
    """On each rank its vectors and the gradient by its own rows; by default the vectors count."""

    def run(communicator):
        shard = RowShard(ROWS, communicator.rank, communicator.size)
        table = tf.Variable(shard.own_rows(TABLE))
        keys = tf.constant(keys_of_ranks[communicator.rank], tf.int32)
        with tf.GradientTape() as tape:
            vectors = sharded_lookup(communicator, shard, table, keys, dtype)
        by_vectors = vectors if gradient is None else tf.fill(vectors.shape, gradient)
        found = tape.gradient(vectors, table, tf.cast(by_vectors, dtype))
        return shard, vectors.numpy(), found, communicator.sent_bytes

    return on_ranks(len(keys_of_ranks), run)


def expected_gradient(keys_of_ranks, values):
    expected = np.zeros_like(TABLE)
    for keys in keys_of_ranks:
        flat = np.ravel(keys).astype(int)
        np.add.at(expected, flat, values[flat])
    return expected


KEYS = {
    "random": np.random.default_rng(1).integers(0, ROWS, (2, 7, 2)),
    "three_ranks": np.random.default_rng(2).integers(0, ROWS, (3, 5)),
    "one_owner": [[0, 2, 4, 2], [22, 22, 0, 6]],
    "all_equal": [[5] * 6, [5] * 6],
    "other_sizes": [[1, 2, 3], [4] * 9],
}


@pytest.mark.parametrize("name", KEYS)
def test_vectors_and_gradients_are_those_of_the_whole_table(name):
    keys = KEYS[name]
    whole = expected_gradient(keys, TABLE)
    for rank, (shard, vectors, grad, _) in enumerate(look_up(keys)):
        np.testing.assert_array_equal(vectors, TABLE[np.asarray(keys[rank])])
        assert isinstance(grad, tf.IndexedSlices)
        own = np.zeros((shard.local_rows, DIM), np.float32)
        np.add.at(own, grad.indices.numpy(), grad.values.numpy())
        np.testing.assert_allclose(own, shard.own_rows(whole), rtol=1e-6)


def test_rows_that_no_rank_names_have_no_gradient():
    [(_, _, first, _), (_, _, second, _)] = look_up([[0, 2, 4, 2], [22, 22, 0, 6]])
    assert sorted(set(first.indices.numpy())) == [0, 1, 2, 3, 11]
    assert second.indices.shape == (0,)


def test_vectors_travel_in_the_dtype_of_the_model_and_sums_of_gradients_do_not_overflow():
    # 9 × 30000 is beyond float16.
    [(_, vectors, _, _), (shard, _, grad, _)] = look_up([[5] * 9, [5]], "float16", 30_000.0)
    np.testing.assert_array_equal(vectors, np.float16(TABLE[[5] * 9]))
    assert grad.values.dtype == tf.float32
    np.testing.assert_array_equal(np.sum(grad.values, axis=0), [300_000.0] * DIM)
    assert set(grad.indices.numpy()) == {shard.local(5)}


def test_an_infinite_gradient_reaches_the_owner_of_its_row():
    [(_, _, first, _), (_, _, second, _)] = look_up([[5, 2], [4]], "float16", np.inf)
    assert not np.isfinite(first.values).any()
    assert not np.isfinite(second.values).any()
    [(_, _, first, _), (_, _, second, _)] = look_up([[5, 7], [5]], "float16", np.inf)
    assert first.values.shape[0] == 0
    assert not np.isfinite(second.values).any()


def test_a_key_travels_once_however_often_a_batch_names_it():
    few, many = (look_up([[5, 6, 7] * times] * 2)[0][3] for times in (1, 50))
    assert few == many


def test_one_rank_gathers_from_its_own_table():
    with tf.GradientTape() as tape:
        table = tf.Variable(TABLE)
        vectors = sharded_lookup(SingleRank(), RowShard(ROWS, 0, 1), table, tf.constant([[3, 3]]))
    np.testing.assert_array_equal(vectors, TABLE[[[3, 3]]])
    assert isinstance(tape.gradient(vectors, table), tf.IndexedSlices)
