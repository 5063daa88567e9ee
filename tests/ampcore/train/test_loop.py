import keras
import numpy as np
import pytest
import tensorflow as tf

from ampcore.precision import DynamicLossScale
from ampcore.train.feed import Feed, permutation
from ampcore.train.loop import take


def adam_step(make_step):
    return make_step(
        DynamicLossScale(initial=2.0**24, growth_interval=4),
        keras.optimizers.Adam(0.01),
        policy="mixed_float16",
    )


def test_blocks_of_any_size_give_the_same_steps_bit_for_bit(make_step, make_loop):
    whole, parts = make_loop(adam_step(make_step)), make_loop(adam_step(make_step))
    rows = whole.run(0, 20)
    pieces = [parts.run(0, 1), parts.run(1, 2), parts.run(3, 7), parts.run(10, 10)]
    np.testing.assert_array_equal(rows, np.concatenate(pieces))
    for one, other in zip(whole.model.get_weights(), parts.model.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)
    assert 0 < rows[:, 2].sum() < 20  # some were skipped, some were not


def test_the_loop_is_traced_once_for_blocks_of_every_size_and_every_epoch(
    make_step, make_loop, digits
):
    made = make_loop(make_step())
    feed = Feed(digits, shuffle=True, seed=0)
    for epoch, count in enumerate((1, 3, 8)):
        made.loop.run(feed.epoch(epoch), epoch, count)
    assert made.loop.function.experimental_get_tracing_count() == 1


def test_the_state_after_a_block_is_that_of_the_next_step(make_step, make_loop):
    made = make_loop(adam_step(make_step))
    first = made.run(0, 1)
    assert first[0, 1] == 2.0**24
    assert made.loop.state.scale == 2.0**23
    assert made.run(1, 1)[0, 1] == 2.0**23


def test_a_batch_is_cut_from_its_place(digits):
    epoch = Feed(digits, shuffle=False, seed=0).epoch(0)
    batch = take(epoch, tf.constant(128), 64)
    np.testing.assert_array_equal(batch.x, digits.x_train[128:192])
    np.testing.assert_array_equal(batch.y, digits.y_train[128:192])


def test_an_epoch_shows_every_example_once_with_its_label(digits):
    feed = Feed(digits, shuffle=True, seed=3)
    x, y = feed.epoch(1)
    order = permutation(3, 1, len(digits.y_train))
    np.testing.assert_array_equal(np.sort(order), np.arange(len(digits.y_train)))
    np.testing.assert_array_equal(x, digits.x_train[order])
    np.testing.assert_array_equal(y, digits.y_train[order])


@pytest.mark.parametrize("other", [(3, 2), (4, 1)], ids=["epoch", "seed"])
def test_the_order_depends_on_seed_and_epoch_alone(other):
    assert np.array_equal(permutation(3, 1, 100), permutation(3, 1, 100))
    assert not np.array_equal(permutation(3, 1, 100), permutation(*other, 100))


def test_without_shuffling_every_epoch_has_the_order_of_the_data(digits):
    feed = Feed(digits, shuffle=False, seed=0)
    np.testing.assert_array_equal(feed.epoch(5).y, digits.y_train)
