import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

from ampcore.data import Batch
from ampcore.diagnostics.steps.replay import Replay
from ampcore.models.seeds import step_seed
from ampcore.precision import DynamicLossScale, FixedLossScale, NoLossScale
from ampspec.models.model import Mlp
from ampspec.objectives.optimizer import Adam, Momentum

PARTS, SIZE = 4, 16


@pytest.fixture(scope="module")
def statistics(make_step, task_of):
    """Makes a step over four micro-batches of a model with BatchNorm, and maybe Dropout."""

    def make(dropout=0.0):
        keras.utils.set_random_seed(0)
        x = inputs = keras.Input((8, 8, 1))
        x = layers.Dense(8, name="dense")(layers.Flatten()(x))
        x = layers.BatchNormalization(momentum=0.9, name="norm")(x)
        x = layers.Dropout(dropout)(x) if dropout else x
        task = task_of(keras.Model(inputs, layers.Dense(10, name="logits")(x)))
        return make_step(DynamicLossScale(), task=task, optimizer=Adam(), accumulate=PARTS)

    return make


def with_bad(batch, parts):
    """The batch with an infinity in the first example of each of these micro-batches."""
    x = np.array(batch.x)
    x[[part * SIZE for part in parts]] = np.inf
    return Batch(tf.constant(x), batch.y)


def test_dense_gradients_of_micro_batches_equal_those_of_one_batch(
    make_step, make_task, batch, train
):
    one, many = (
        make_step(
            FixedLossScale(256.0),
            task=make_task(Mlp(hidden=(16,))),
            optimizer=Momentum(learning_rate=0.1),
            accumulate=count,
        )
        for count in (1, PARTS)
    )
    whole, parts = train(one, batch, times=3), train(many, batch, times=3)
    for column in one.columns:
        expected = [row[column] for row in whole.rows]
        assert [row[column] for row in parts.rows] == pytest.approx(expected, rel=1e-4)
    for mine, other in zip(*(weights(step) for step in (many, one)), strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-4, atol=1e-6)


def weights(step):
    return step.task.networks[0].model.get_weights()


def test_sparse_gradients_of_micro_batches_equal_those_of_one_batch(make_step, clicks, train):
    random = np.random.default_rng(0)
    keys, labels = random.integers(9, size=(8, 2, 2)), random.integers(2, size=8)
    batch = Batch(tf.constant(keys, tf.int32), tf.constant(labels, tf.int32))
    momentum = Momentum(learning_rate=0.1)
    one, many = (
        make_step(NoLossScale(), task=clicks(), optimizer=momentum, accumulate=count)
        for count in (1, PARTS)
    )
    whole, parts = train(one, batch, times=3), train(many, batch, times=3)
    for column in ("loss", "grad_norm"):
        expected = [row[column] for row in whole.rows]
        assert [row[column] for row in parts.rows] == pytest.approx(expected, rel=1e-4)
    for mine, other in zip(*(weights(step) for step in (many, one)), strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-4, atol=1e-6)


def test_nonfinite_micro_batches_skip_the_step_and_are_counted(statistics, batch, train, unchanged):
    step = statistics(dropout=0.5)
    assert train(step, batch).row["nonfinite_micro_batches"] == 0.0
    for parts in ([0], [PARTS - 1], [1, 2], range(PARTS)):
        with unchanged(step):
            row = train(step, with_bad(batch, parts)).row
        assert (row["skipped"], row["nonfinite_micro_batches"]) == (1.0, len(parts))


def test_finite_gradients_whose_squares_overflow_are_not_counted_as_bad(
    make_step, task_of, batch, train
):
    inputs = keras.Input((8, 8, 1))
    outputs = layers.Dense(10, kernel_initializer="zeros")(layers.Flatten()(inputs))
    step = make_step(
        FixedLossScale(1.0), task=task_of(keras.Model(inputs, outputs)), accumulate=PARTS
    )
    row = train(step, Batch(batch.x * 1e25, batch.y)).row
    assert np.isinf(row["grad_norm"])
    assert (row["skipped"], row["nonfinite_micro_batches"]) == (0.0, 0.0)


def test_each_micro_batch_updates_the_statistics_in_turn(statistics, batch, train):
    step = statistics()
    model = step.task.networks[0].model
    kernel, bias = model.get_layer("dense").get_weights()
    mean, variance = np.zeros(8), np.ones(8)
    for part in np.split(batch.x.numpy().reshape(-1, 64), PARTS):
        features = part @ kernel + bias
        mean = 0.9 * mean + 0.1 * features.mean(axis=0)
        variance = 0.9 * variance + 0.1 * features.var(axis=0)
    train(step, batch)
    norm = model.get_layer("norm")
    np.testing.assert_allclose(norm.moving_mean.numpy(), mean, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(norm.moving_variance.numpy(), variance, rtol=1e-4)


def test_each_micro_batch_advances_the_dropout_seed(statistics, batch, train):
    step = statistics(dropout=0.5)
    seed = step.task.networks[0].model.non_trainable_variables[-1]
    before = seed.numpy()
    train(step, batch)
    assert (seed.numpy() - before).tolist() == [0, PARTS]


def test_each_micro_batch_has_its_own_noise_seed(make_step, gan, batch, train, monkeypatch):
    step, seeds = make_step(task=gan(), accumulate=2), []
    losses = type(step.task).losses

    def recorded(task, weights, non_trainable, part, seed):
        tf.py_function(lambda value: seeds.append(value.numpy().tolist()), [seed], [])
        return losses(task, weights, non_trainable, part, seed)

    monkeypatch.setattr(type(step.task), "losses", recorded)
    train(step, batch, times=2)
    assert len(seeds) == len({tuple(seed) for seed in seeds}) == 4


@pytest.mark.slow
def test_a_replay_uses_the_noise_of_each_micro_batch(make_step, gan, batch, train):
    step = make_step(task=gan(), accumulate=2)
    replay = Replay(step.task, step.loss_scales, accumulate=2)
    seed = step_seed(0, tf.constant(0, tf.int64))
    losses = [replayed.losses.sum() for _, replayed in replay.step([1.0, 1.0], batch, seed)]
    assert train(step, batch).row["loss"] == pytest.approx(np.mean(losses), rel=1e-5)


def test_nonfinite_micro_batches_are_a_column_only_with_accumulation(make_step):
    assert "nonfinite_micro_batches" not in make_step().columns
    assert make_step(accumulate=2).columns[-1] == "nonfinite_micro_batches"
