import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

from ampcore.data import Batch
from ampcore.precision import DynamicLossScale, FixedLossScale, NoLossScale, all_finite, global_norm
from ampcore.training.step.clip import Clip
from ampcore.training.step.telemetry_columns import STEP_COLUMNS
from ampspec.objectives.optimizer import Adam, Sgd, Step

UNIT = Sgd(learning_rate=1.0)
"""With it a step changes each weight by its clipped gradient."""


def model_with_statistics(policy):
    """BatchNorm's statistics and Dropout's seed change in every forward pass."""
    policy = keras.DTypePolicy(policy)
    x = inputs = keras.Input((8, 8, 1))
    x = layers.Flatten(dtype=policy)(x)
    x = layers.Dense(8, dtype=policy)(x)
    x = layers.BatchNormalization(dtype=policy)(x)
    x = layers.Dropout(0.5, dtype=policy)(x)
    return keras.Model(inputs, layers.Dense(10, dtype="float32")(x))


@pytest.fixture
def statistics(make_step, task_of):
    """Makes a step of a model with statistics."""

    def make(policy):
        task = task_of(model_with_statistics(policy))
        return make_step(DynamicLossScale(), task=task, optimizer=Adam())

    return make


@pytest.fixture
def bad(batch):
    """The batch with infinities in it."""
    return Batch(tf.where(tf.reshape(tf.range(8) == 3, (8, 1)), np.inf, batch.x), batch.y)


@pytest.fixture
def weight_changes(train):
    """The change of each weight in a step of UNIT: its clipped gradient."""

    def run(step, batch):
        weights = [v for n in step.task.networks for v in n.model.trainable_variables]
        before = [np.array(weight.numpy()) for weight in weights]
        train(step, batch)
        return [old - weight.numpy() for old, weight in zip(before, weights, strict=True)]

    return run


def test_a_step_of_one_network_has_the_standard_columns(make_step, batch, train):
    step = make_step(FixedLossScale(256.0))
    row = train(step, batch).row
    assert step.columns == STEP_COLUMNS == tuple(row)
    assert (row["loss_scale"], row["skipped"]) == (256.0, 0.0)
    assert row["learning_rate"] == pytest.approx(0.1)


@pytest.mark.parametrize("policy", ["mixed_float16", "float32"])
def test_an_overflow_keeps_statistics_seeds_slots_and_weights_unchanged(
    statistics, bad, train, unchanged, policy
):
    step = statistics(policy)
    train(step, bad._replace(x=tf.zeros_like(bad.x)))
    with unchanged(step):
        after = train(step, bad)
    assert after.row["skipped"] == 1.0
    assert after.states[0].scale == 2.0**14


def test_a_good_step_updates_the_statistics_and_the_seed(statistics, batch, train):
    step = statistics("float32")
    non_trainable = step.task.networks[0].model.non_trainable_variables
    before = [np.array(variable.numpy()) for variable in non_trainable]
    train(step, batch)
    assert len(before) == 3  # moving mean, moving variance, seed
    for old, variable in zip(before, non_trainable, strict=True):
        assert not np.array_equal(old, variable.numpy())


def test_overflow_halves_the_scale_and_keeps_the_weights(make_step, batch, train, unchanged):
    step = make_step(DynamicLossScale(initial=2.0**24), policy="mixed_float16")
    with unchanged(step):
        after = train(step, batch)
    assert np.isfinite(after.row["loss"])
    assert not np.isfinite(after.row["grad_norm"])
    assert (after.row["loss_scale"], after.row["skipped"]) == (2.0**24, 1.0)
    assert after.states[0].scale == 2.0**23


def test_a_skipped_step_advances_neither_the_updates_nor_the_schedule(make_step, batch, bad, train):
    schedule = Step(boundaries=(1,), factor=0.5)
    optimizer = Sgd(learning_rate=1.0, schedule=schedule)
    step = make_step(DynamicLossScale(), optimizer=optimizer)
    skipped = train(step, bad, times=2)
    assert step.optimizers[0].iterations == 0
    assert [row["learning_rate"] for row in skipped.rows] == [1.0, 1.0]
    applied = train(step, batch, times=2)
    assert step.optimizers[0].iterations == 2
    # A step's rate is the one that it used.
    assert [row["learning_rate"] for row in applied.rows] == [1.0, 0.5]


def test_without_a_finite_check_a_bad_step_is_applied(make_step, bad, train):
    step = make_step(NoLossScale(), skip_nonfinite=False)
    assert train(step, bad).row["skipped"] == 0.0
    assert not np.isfinite(step.task.networks[0].model.get_weights()[0]).all()


@pytest.mark.parametrize("form", [lambda step: step, lambda step: step.for_xla()])
def test_without_a_loss_scale_a_bad_step_is_skipped_too(make_step, bad, train, values, form):
    step = make_step(NoLossScale())
    before = values(step)
    assert train(form(step), bad).row["skipped"] == 1.0
    np.testing.assert_equal(values(step), before)


@pytest.mark.parametrize("scale", [FixedLossScale(1024.0), DynamicLossScale()])
def test_a_power_of_two_scale_changes_no_bit_in_float32(make_step, batch, train, values, scale):
    plain, scaled = make_step(NoLossScale()), make_step(scale)
    one, other = train(plain, batch, times=5), train(scaled, batch, times=5)
    for column in ("loss", "grad_norm", "learning_rate"):
        assert [row[column] for row in one.rows] == [row[column] for row in other.rows]
    np.testing.assert_equal(values(scaled), values(plain))


def test_the_row_has_the_unscaled_loss_and_the_unclipped_norm(make_step, batch, train):
    plain = train(make_step(NoLossScale()), batch).row
    clips = [Clip(norm=0.01, value=0.001)]
    clipped = train(make_step(FixedLossScale(256.0), clips=clips), batch).row
    assert (clipped["loss"], clipped["grad_norm"]) == (plain["loss"], plain["grad_norm"])
    assert clipped["grad_norm"] > 0.01


@pytest.mark.parametrize("scale", [NoLossScale(), FixedLossScale(1024.0)])
def test_clip_norm_limits_the_unscaled_norm(make_step, batch, weight_changes, scale):
    steps = weight_changes(make_step(scale, optimizer=UNIT, clips=[Clip(norm=0.05)]), batch)
    assert np.sqrt(sum((part**2).sum() for part in steps)) == pytest.approx(0.05, rel=1e-3)


def test_gradients_below_the_limits_are_not_clipped(make_step, batch, weight_changes):
    unlimited = weight_changes(make_step(optimizer=UNIT), batch)
    limited = weight_changes(make_step(optimizer=UNIT, clips=[Clip(1e6, 1e6)]), batch)
    np.testing.assert_equal(limited, unlimited)


def test_clip_value_limits_every_element(make_step, batch, weight_changes):
    step = make_step(FixedLossScale(1024.0), optimizer=UNIT, clips=[Clip(value=0.01)])
    largest = max(np.abs(part).max() for part in weight_changes(step, batch))
    assert largest == pytest.approx(0.01, rel=1e-3)


@pytest.mark.parametrize("clip", [Clip(norm=1.0), Clip(value=1.0)])
def test_clipping_does_not_hide_an_overflow(make_step, batch, train, unchanged, clip):
    scale = DynamicLossScale(initial=2.0**24)
    step = make_step(scale, policy="mixed_float16", clips=[clip])
    with unchanged(step):
        assert train(step, batch).row["skipped"] == 1.0


@pytest.mark.parametrize("clip", [Clip(norm=1.0), Clip(value=1.0)])
@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
def test_clipping_keeps_gradients_that_are_not_finite_not_finite(clip, bad):
    grads = [tf.constant([1.0, bad])]
    assert not all_finite(clip(grads, global_norm(grads)))


def test_a_huge_finite_gradient_is_clipped_to_the_limit_not_to_zero():
    grads = [tf.constant([3e19, 4e19])]
    (clipped,) = Clip(norm=1.0)(grads, global_norm(grads))
    assert clipped.numpy() == pytest.approx([0.6, 0.8])


def test_clipping_limits_sparse_gradients_and_keeps_them_sparse():
    grads = [tf.IndexedSlices(tf.constant([[3.0], [4.0]]), tf.constant([7, 2]), (9, 1))]
    (by_norm,) = Clip(norm=1.0)(grads, global_norm(grads))
    (by_value,) = Clip(value=3.5)(grads, global_norm(grads))
    assert by_norm.values.numpy().ravel() == pytest.approx([0.6, 0.8])
    assert by_value.values.numpy().ravel() == pytest.approx([3.0, 3.5])
    assert by_norm.indices.numpy().tolist() == [7, 2]
