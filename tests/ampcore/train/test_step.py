import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

from ampcore.precision import (
    DynamicLossScale,
    FixedLossScale,
    NoLossScale,
    all_finite,
    global_norm,
)
from ampcore.train.step import Batch, mean_loss


def run(step, batch, times=1):
    """The records of the same batch, `times` over."""
    function = tf.function(step, autograph=False)
    state, records = step.loss_scale.init(), []
    for _ in range(times):
        state, record = function(state, batch)
        records.append([float(value) for value in record])
    return state, records


def model_with_statistics(policy):
    """BatchNorm's statistics and Dropout's seed change in every forward pass."""
    policy = keras.DTypePolicy(policy)
    x = inputs = keras.Input((8, 8, 1))
    x = layers.Flatten(dtype=policy)(x)
    x = layers.Dense(8, dtype=policy)(x)
    x = layers.BatchNormalization(dtype=policy)(x)
    x = layers.Dropout(0.5, dtype=policy)(x)
    return keras.Model(inputs, layers.Dense(10, dtype="float32")(x))


def assert_all_equal(before, after):
    for old, new in zip(before, after, strict=True):
        np.testing.assert_array_equal(old, new)


@pytest.mark.parametrize("policy", ["mixed_float16", "float32"])
def test_an_overflow_leaves_statistics_seeds_slots_and_weights_as_they_were(
    make_step, batch, values, policy
):
    bad = Batch(np.where(np.arange(8).reshape(8, 1) == 3, np.inf, batch.x), batch.y)
    step = make_step(
        DynamicLossScale(),
        keras.optimizers.Adam(),
        model=model_with_statistics(policy),
    )
    run(step, batch)
    before = values(step)
    state, [record] = run(step, bad)
    assert record[2] == 1.0
    assert state.scale == 2.0**14
    assert_all_equal(before, values(step))


def test_a_good_step_moves_the_statistics_and_the_seed(make_step, batch, values):
    step = make_step(DynamicLossScale(), model=model_with_statistics("float32"))
    before = [np.copy(variable.numpy()) for variable in step.model.non_trainable_variables]
    run(step, batch)
    after = [variable.numpy() for variable in step.model.non_trainable_variables]
    assert len(before) == 3  # moving mean, moving variance, seed
    assert not any(np.array_equal(old, new) for old, new in zip(before, after, strict=True))


def test_overflow_halves_the_scale_and_keeps_the_weights(make_step, batch, values):
    scale = DynamicLossScale(initial=2.0**24)
    step = make_step(scale, policy="mixed_float16")
    before = values(step)
    state, [[loss, used, skipped, norm, _]] = run(step, batch)
    assert np.isfinite(loss)
    assert (used, skipped, float(state.scale)) == (2.0**24, 1.0, 2.0**23)
    assert not np.isfinite(norm)
    assert_all_equal(before, values(step))


@pytest.mark.parametrize("scale", [FixedLossScale(1024.0), DynamicLossScale()])
def test_in_float32_a_power_of_two_as_scale_changes_not_one_bit(make_step, batch, values, scale):
    plain, scaled = make_step(NoLossScale()), make_step(scale)
    _, records = run(plain, batch, times=5)
    assert_all_equal(np.delete(records, 1, axis=1), np.delete(run(scaled, batch, 5)[1], 1, axis=1))
    assert_all_equal(values(plain), values(scaled))


def test_a_step_does_what_keras_does(make_step, batch):
    optimizer, theirs = keras.optimizers.Adam(0.01), keras.optimizers.Adam(0.01)
    ours = make_step(optimizer=optimizer)
    reference = make_step(optimizer=theirs).model
    reference.compile(theirs, keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    _, records = run(ours, batch, times=3)
    losses = [reference.train_on_batch(batch.x, batch.y) for _ in range(3)]
    assert records[0][0] == pytest.approx(float(losses[0]), rel=1e-5)
    for mine, other in zip(ours.model.get_weights(), reference.get_weights(), strict=True):
        np.testing.assert_allclose(mine, other, atol=1e-5)


def test_the_record_tells_the_unscaled_loss_and_the_unclipped_norm(make_step, batch):
    _, [plain] = run(make_step(NoLossScale()), batch)
    _, [clipped] = run(make_step(FixedLossScale(256.0), clip_norm=0.01, clip_value=0.001), batch)
    loss, scale, skipped, norm, rate = clipped
    assert (loss, norm) == (plain[0], plain[3])
    assert (scale, skipped) == (256.0, 0.0)
    assert norm > 0.01
    assert rate == pytest.approx(0.1)
    assert plain[1] == 1.0


def moved(step, batch):
    """How far one step of SGD at rate 1 moves each weight: its clipped gradient."""
    before = step.model.get_weights()
    run(step, batch)
    return [old - new for old, new in zip(before, step.model.get_weights(), strict=True)]


@pytest.mark.parametrize("scale", [NoLossScale(), FixedLossScale(1024.0)])
def test_clip_norm_limits_the_unscaled_norm(make_step, batch, scale):
    limit = 0.05
    step = make_step(scale, keras.optimizers.SGD(1.0), clip_norm=limit)
    steps = moved(step, batch)
    assert np.sqrt(sum((part**2).sum() for part in steps)) == pytest.approx(limit, rel=1e-3)


def test_gradients_below_the_limits_are_not_clipped(make_step, batch):
    free = moved(make_step(optimizer=keras.optimizers.SGD(1.0)), batch)
    step = make_step(optimizer=keras.optimizers.SGD(1.0), clip_norm=1e6, clip_value=1e6)
    for one, other in zip(free, moved(step, batch), strict=True):
        np.testing.assert_array_equal(one, other)


def test_clip_value_limits_every_element(make_step, batch):
    limit = 0.01
    step = make_step(FixedLossScale(1024.0), keras.optimizers.SGD(1.0), clip_value=limit)
    largest = max(np.abs(part).max() for part in moved(step, batch))
    assert largest == pytest.approx(limit, rel=1e-3)


@pytest.mark.parametrize("clip", [{"clip_norm": 1.0}, {"clip_value": 1.0}])
def test_clipping_does_not_hide_an_overflow(make_step, batch, values, clip):
    step = make_step(DynamicLossScale(initial=2.0**24), policy="mixed_float16", **clip)
    before = values(step)
    _, [record] = run(step, batch)
    assert record[2] == 1.0
    assert_all_equal(before, values(step))


def test_the_loss_of_float16_logits_is_taken_in_float32():
    logits = tf.constant([[-60000.0, 60000.0]], tf.float16)
    loss = mean_loss(logits, tf.constant([0]))
    assert loss.dtype == tf.float32
    assert float(loss) == pytest.approx(120000, rel=1e-2)


@pytest.mark.parametrize("clip", [{"clip_norm": 1.0}, {"clip_value": 1.0}])
@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
def test_a_gradient_that_is_not_finite_stays_so_when_it_is_clipped(make_step, clip, bad):
    grads = [tf.constant([1.0, bad])]
    clipped = make_step(**clip)._clip(grads, global_norm(grads))
    assert not all_finite(clipped)


def test_a_huge_finite_gradient_is_clipped_to_the_limit_not_to_zero(make_step):
    grads = [tf.constant([3e19, 4e19])]
    (clipped,) = make_step(clip_norm=1.0)._clip(grads, global_norm(grads))
    assert clipped.numpy() == pytest.approx([0.6, 0.8])


def test_the_learning_rate_of_a_step_is_the_one_it_used(make_step, batch):
    schedule = keras.optimizers.schedules.PiecewiseConstantDecay([0, 1], [1.0, 0.5, 0.25])
    step = make_step(optimizer=keras.optimizers.SGD(schedule))
    step.optimizer.build(step.model.trainable_variables)
    _, records = run(step, batch, times=3)
    assert [record[4] for record in records] == [1.0, 0.5, 0.25]
