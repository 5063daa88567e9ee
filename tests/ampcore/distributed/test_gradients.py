"""Replicas with different examples combine losses, gradients and statistics once a step."""

import ml_dtypes
import pytest
import tensorflow as tf

from ampcore.distributed import SingleReplica
from ampcore.distributed.compression import mean_in_16_bits
from ampcore.distributed.gradients import all_reduce_gradients
from ampcore.models.gradients import Gradients
from tests.ampcore.distributed.thread_replicas import on_ranks

ONES = tf.ones([2])
SEED = tf.constant([1, 2])


def make_gradients(**parts):
    statistic, seed = tf.constant(4.0), tf.constant([1, 2])
    plain = {
        "losses": [tf.constant(1.0)],
        "gradients": [[ONES, None]],
        "state_updates": [[statistic, seed]],
        "overwrites": [[None, tf.constant(8.0)]],
        "recompute_gradients": (lambda: [ONES, None],),
    }
    return Gradients(**(plain | parts))


def test_a_single_replica_gets_the_same_objects_back():
    given, bad = make_gradients(), tf.constant(0.0)
    combined = all_reduce_gradients(SingleReplica(), [[ONES, SEED]], given, bad)
    assert combined == (given, bad)
    assert combined[0] is given


def test_losses_and_gradients_are_averaged_and_the_largest_overwrite_is_used(two_replicas):
    replicas = two_replicas(other=lambda tensor: tensor * 3)
    before = [[tf.constant(0.0), tf.constant([0, 0])]]
    combined, bad = all_reduce_gradients(replicas, before, make_gradients(), tf.constant(1.0))
    assert float(combined.losses[0]) == 2.0
    assert combined.gradients[0][0].numpy().tolist() == [2.0, 2.0]
    assert combined.gradients[0][1] is None
    assert float(combined.overwrites[0][1]) == 24.0
    assert combined.overwrites[0][0] is None
    assert float(bad) == 4.0


def test_reduced_gradients_are_not_recomputed_from_one_replica(two_replicas):
    combined, _ = all_reduce_gradients(
        two_replicas(), [[ONES, SEED]], make_gradients(), tf.constant(0.0)
    )
    assert combined.recompute_gradients is None


def test_statistics_are_averaged_and_dropout_seeds_are_not(two_replicas):
    given = make_gradients()
    replicas = two_replicas(other=lambda tensor: tensor * 3)
    before = [[tf.constant(0.0), tf.constant([0, 0])]]
    combined, _ = all_reduce_gradients(replicas, before, given, tf.constant(0.0))
    [[statistic, seed]] = combined.state_updates
    assert float(statistic) == 8.0
    assert seed is given.state_updates[0][1]


def test_unchanged_state_is_not_reduced(two_replicas):
    given = make_gradients()
    combined, _ = all_reduce_gradients(
        two_replicas(other=lambda tensor: tensor * 3), given.state_updates, given, tf.constant(0.0)
    )
    assert all(
        new is old
        for new, old in zip(combined.state_updates[0], given.state_updates[0], strict=True)
    )


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_gradients_that_travel_in_16_bits_are_added_up_in_float32(dtype):
    # Half the distance from 1 to the next number of the dtype: added to 1 in it, each one is lost.
    half_an_ulp = float(ml_dtypes.finfo(tf.as_dtype(dtype).as_numpy_dtype).eps) / 2

    def mean(replicas):
        own = 1.0 if replicas.rank == 0 else half_an_ulp
        [found] = mean_in_16_bits(replicas, [tf.fill([6], own)], dtype)
        return found.numpy().tolist()

    exact = (1 + 3 * half_an_ulp) / 4
    [rounded] = tf.cast(tf.cast([exact], dtype), tf.float32).numpy().tolist()
    assert rounded > 0.25
    assert on_ranks(4, mean) == [[rounded] * 6] * 4
