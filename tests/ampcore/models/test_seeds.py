"""The seeds of the micro-batches of a step."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from ampcore.models.seeds import MicroBatchShard, micro_batch_seed, step_seed

STEPS = st.one_of(st.integers(0, 2**20), st.sampled_from([k * 1_000_003 for k in range(9)]))


@tf.function(autograph=False, reduce_retracing=True)
def seeds_of(job_seed, steps, parts):
    """The seed of each part of each step, int64 (n, 2)."""
    pairs = (tf.cast(steps, tf.int64), parts)
    return tf.map_fn(
        lambda pair: micro_batch_seed(tf.stack([job_seed, pair[0]]), pair[1], 64),
        pairs,
        fn_output_signature=tf.int64,
    )


@settings(max_examples=25, deadline=None)
@given(
    job_seed=st.integers(0, 2**32 - 1),
    positions=st.sets(st.tuples(STEPS, st.integers(0, 63)), min_size=2, max_size=100),
)
def test_no_two_micro_batches_of_any_steps_have_the_same_seed(job_seed, positions):
    steps, parts = zip(*sorted(positions), strict=True)
    found = seeds_of(
        tf.constant(job_seed, tf.int64), tf.constant(steps, tf.int64), tf.constant(parts)
    )
    assert len({tuple(seed) for seed in found.numpy()}) == len(positions)


def test_a_seed_differs_from_that_of_a_step_a_million_later():
    near = micro_batch_seed(step_seed(0, tf.constant(0, tf.int64)), 1, 2)
    far = micro_batch_seed(step_seed(0, tf.constant(1_000_003, tf.int64)), 0, 2)
    assert near.numpy().tolist() != far.numpy().tolist()


def test_a_step_that_is_not_divided_keeps_its_own_seed():
    seed = step_seed(3, tf.constant(5, tf.int64))
    assert micro_batch_seed(seed, 0, 1) is seed


def test_ranks_draw_the_seeds_of_one_process_that_trains_on_all_of_a_step():
    seed = step_seed(3, tf.constant(5, tf.int64))
    alone = [MicroBatchShard(count=4).seed(seed, index).numpy().tolist() for index in range(4)]
    together = [
        MicroBatchShard(count=2, rank=rank, ranks=2).seed(seed, index).numpy().tolist()
        for rank in range(2)
        for index in range(2)
    ]
    assert together == alone
    assert len({tuple(each) for each in alone}) == 4


@pytest.mark.parametrize("jit_compile", [False, True])
def test_every_engine_derives_the_same_seeds(jit_compile):
    seed = step_seed(3, tf.constant(5, tf.int64))

    def each(seed):
        array = tf.TensorArray(tf.int64, size=4, element_shape=(2,))
        body = lambda i, a: (i + 1, a.write(i, micro_batch_seed(seed, i, 4)))  # noqa: E731
        return tf.while_loop(lambda i, _: i < 4, body, (tf.constant(0), array))[1].stack()

    looped = tf.function(each, autograph=False, jit_compile=jit_compile)(seed)
    eager = [micro_batch_seed(seed, index, 4).numpy() for index in range(4)]
    np.testing.assert_array_equal(looped.numpy(), eager)
