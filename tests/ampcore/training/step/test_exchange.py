"""Ranks with different examples combine losses, gradients and statistics once a step."""

import ml_dtypes
import pytest
import tensorflow as tf

from ampcore.distributed import SingleRank
from ampcore.distributed.compression import mean_in_16_bits
from ampcore.training.step.exchange import all_reduce_gradients
from ampcore.training.step.gradients import NetworkGradients, StepGradients
from tests.ampcore.distributed.thread_communicator import on_ranks

ONES = tf.ones([2])


def make_gradients(nonfinite=0.0, **parts):
    statistic, seed = tf.constant(4.0), tf.constant([1, 2])
    network = NetworkGradients(
        loss=tf.constant(1.0),
        gradients=[ONES, None],
        state_updates={1: statistic, 3: seed},
        overwrites={1: tf.constant(8.0)},
        amaxes=[],
        recompute_gradients=lambda: [ONES, None],
    )
    return StepGradients([network._replace(**parts)], tf.constant(nonfinite))


def test_a_single_rank_gets_the_same_object_back():
    gradients = make_gradients()
    assert all_reduce_gradients(SingleRank(), gradients) is gradients


def test_losses_and_gradients_are_averaged_and_the_largest_overwrite_is_used(two_ranks):
    communicator = two_ranks(other=lambda tensor: tensor * 3)
    mean = all_reduce_gradients(communicator, make_gradients(nonfinite=1.0))
    [network] = mean.networks
    assert float(network.loss) == 2.0
    assert network.gradients[0].numpy().tolist() == [2.0, 2.0]
    assert network.gradients[1] is None
    assert {index: float(value) for index, value in network.overwrites.items()} == {1: 24.0}
    assert float(mean.nonfinite_micro_batches) == 4.0


def test_reduced_gradients_are_not_recomputed_from_one_rank(two_ranks):
    [network] = all_reduce_gradients(two_ranks(), make_gradients()).networks
    assert network.recompute_gradients is None
    assert network.recompute_norm_inputs is None


def test_statistics_are_averaged_and_dropout_seeds_are_not(two_ranks):
    communicator = two_ranks(other=lambda tensor: tensor * 3)
    gradients = make_gradients()
    [network] = all_reduce_gradients(communicator, gradients).networks
    assert float(network.state_updates[1]) == 8.0
    assert network.state_updates[3] is gradients.networks[0].state_updates[3]


def test_each_rank_may_keep_its_own_statistics(two_ranks):
    communicator = two_ranks(other=lambda tensor: tensor * 3)
    gradients = make_gradients()
    [network] = all_reduce_gradients(communicator, gradients, average_statistics=False).networks
    assert network.state_updates[1] is gradients.networks[0].state_updates[1]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_gradients_that_travel_in_16_bits_are_added_up_in_float32(dtype):
    # Half the distance from 1 to the next number of the dtype: added to 1 in it, each one is lost.
    half_an_ulp = float(ml_dtypes.finfo(tf.as_dtype(dtype).as_numpy_dtype).eps) / 2

    def mean(communicator):
        own = 1.0 if communicator.rank == 0 else half_an_ulp
        [found] = mean_in_16_bits(communicator, [tf.fill([6], own)], dtype)
        return found.numpy().tolist()

    exact = (1 + 3 * half_an_ulp) / 4
    [rounded] = tf.cast(tf.cast([exact], dtype), tf.float32).numpy().tolist()
    assert rounded > 0.25
    assert on_ranks(4, mean) == [[rounded] * 6] * 4
