"""Sparse gradients of several ranks, which stay sparse."""

import numpy as np
import pytest
import tensorflow as tf

from ampcore.distributed.sparse_gradients import mean_of_rows, shard_norms
from ampcore.precision import global_norm, sum_duplicate_rows
from ampcore.training.step.exchange import all_reduce_gradients
from ampcore.training.step.gradients import NetworkGradients, StepGradients
from tests.ampcore.distributed.thread_communicator import on_ranks

BIG = float(np.finfo(np.float32).max)


def sparse(rows, values):
    grad = tf.IndexedSlices(
        tf.constant(values, tf.float32)[:, tf.newaxis], tf.constant(rows), tf.constant([6, 1])
    )
    return sum_duplicate_rows([grad])[0]


GIVEN = [([1, 4, 4], [1.0, 2.0, 3.0]), ([0, 4], [7.0, 9.0]), ([2], [5.0])]


def test_gradients_of_a_replicated_table_become_the_mean_on_all_ranks():
    found = on_ranks(3, lambda own: mean_of_rows(own, [sparse(*GIVEN[own.rank])]))
    for [grad] in found:
        assert isinstance(grad, tf.IndexedSlices)
        rows = dict(zip(grad.indices.numpy().tolist(), grad.values[:, 0].numpy(), strict=True))
        assert rows == pytest.approx({0: 7 / 3, 1: 1 / 3, 2: 5 / 3, 4: 14 / 3})
        assert grad.values.numpy().tobytes() == found[0][0].values.numpy().tobytes()


@pytest.mark.parametrize(
    ("values", "finite"), [([3.0, 4.0], True), ([1e30, 0.0], True), ([np.inf, 1.0], False)]
)
def test_the_norms_of_shards_are_finite_exactly_if_their_gradients_are(values, finite):
    def run(own):
        mine = values if own.rank == 1 else [12.0]
        return own.all_reduce([shard_norms(own, [sparse(range(len(mine)), mine)])], "sum")[0]

    for norms in on_ranks(2, run):
        assert norms[0] == 12.0
        assert np.isfinite(norms[1]) == finite
        if values == [3.0, 4.0]:
            assert global_norm([norms]) == 13.0


def test_a_norm_beyond_float32_of_finite_gradients_is_finite():
    [norms, _] = on_ranks(2, lambda own: shard_norms(own, [sparse([0, 1], [BIG, BIG])]))
    assert norms.numpy().tolist() == [BIG, 0.0]


def test_the_gradient_of_a_shard_stays_on_its_rank_and_becomes_the_mean():
    def run(own):
        grads = [sparse([own.rank], [6.0]), tf.constant([float(own.rank)]), None]
        network = NetworkGradients(tf.constant(1.0), grads, {}, {}, [])
        step = StepGradients([network], tf.constant(0.0))
        [mean] = all_reduce_gradients(own, step, sharded=[[True, False, False]]).networks
        return mean

    for rank, mean in enumerate(on_ranks(2, run)):
        table, dense, none = mean.gradients
        assert table.indices.numpy().tolist() == [rank]
        assert table.values.numpy().tolist() == [[3.0]]
        assert (dense.numpy().tolist(), none) == ([0.5], None)
        of_dense, of_none, of_table = mean.norm_inputs
        assert (of_dense is dense, of_none) == (True, None)
        assert of_table.numpy().tolist() == [3.0, 3.0]


def test_a_shard_that_the_loss_does_not_depend_on_has_no_norm(two_ranks):
    network = NetworkGradients(tf.constant(1.0), [None, tf.ones([2])], {}, {}, [])
    step = StepGradients([network], tf.constant(0.0))
    [mean] = all_reduce_gradients(two_ranks(), step, sharded=[[True, False]]).networks
    assert mean.gradients[0] is None
    assert mean.norm_inputs is None
