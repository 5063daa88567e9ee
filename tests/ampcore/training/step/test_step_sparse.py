"""The gradient of an embedding table stays sparse from the tape to the optimizer."""

import numpy as np
import pytest
import tensorflow as tf

from ampcore.data import Batch
from ampcore.precision import DynamicLossScale, FixedLossScale
from ampcore.training.step.clip import Clip
from ampspec.objectives.optimizer import Adam, Sgd

KEYS = [[[1, 1], [4, 1]], [[4, 1], [1, 2]]]
"""The lookups: of 9 rows, row 1 five times, row 2 once, row 4 twice."""


@pytest.fixture(scope="module")
def batch():
    return Batch(tf.constant(KEYS), tf.constant([1, 1]))


@pytest.fixture
def step_of(make_step, clicks):
    """Makes a step of the embedding model."""

    def make(scale=None, policy="float32", **how):
        return make_step(scale or FixedLossScale(), task=clicks(policy), **how)

    return make


def table(step):
    """The table of a step's model, and the optimizer's slots for it."""
    slots = [variable for variable in step.optimizers[0].variables if variable.shape == (9, 3)]
    return [step.task.networks[0].model.get_layer("embedding").embeddings, *slots]


def dense_gradient(step, batch):
    """The gradient of the table as Keras makes it, (9, 3)."""
    model = step.task.networks[0].model
    with tf.GradientTape() as tape:
        labels = tf.cast(batch.y, tf.float32)
        losses = tf.nn.sigmoid_cross_entropy_with_logits(labels, model(batch.x)[:, 0])
        loss = tf.reduce_mean(losses)
    return tf.convert_to_tensor(tape.gradient(loss, table(step)[0].value)).numpy()


@pytest.mark.parametrize("accumulate", [1, 2])
def test_the_optimizer_gets_one_sparse_gradient_for_the_table(
    step_of, batch, train, monkeypatch, accumulate
):
    step = step_of(accumulate=accumulate)
    given, apply = [], step.optimizers[0].apply

    def recorded(grads, variables):
        given.extend(grads)
        return apply(grads, variables)

    monkeypatch.setattr(step.optimizers[0], "apply", recorded)
    train(step, batch)
    sparse = [grad for grad in given if isinstance(grad, tf.IndexedSlices)]
    assert len(sparse) == 1
    assert sparse[0].dense_shape is not None
    assert len(given) > 1


def test_lookups_of_one_row_are_added_up_before_the_norm_and_the_update(step_of, batch, train):
    step = step_of(optimizer=Sgd(learning_rate=1.0))
    model = step.task.networks[0].model
    [before, *dense] = [np.array(v.numpy()) for v in model.trainable_variables]
    expected = dense_gradient(step, batch)
    row = train(step, batch).row
    moved = before - table(step)[0].numpy()
    np.testing.assert_allclose(moved, expected, rtol=1e-5, atol=1e-7)
    rest = [old - v.numpy() for old, v in zip(dense, model.trainable_variables[1:], strict=True)]
    norm = np.sqrt(sum((part**2).sum() for part in [expected, *rest]))
    assert row["grad_norm"] == pytest.approx(norm, rel=1e-5)


def test_clip_value_limits_the_sum_of_duplicate_rows(step_of, batch, train):
    unit = Sgd(learning_rate=1.0)
    step = step_of(optimizer=unit, clips=[Clip(value=1e-3)])
    before = table(step)[0].numpy()
    expected = np.clip(dense_gradient(step, batch), -1e-3, 1e-3)
    assert np.abs(expected).max() == pytest.approx(1e-3)
    train(step, batch)
    np.testing.assert_allclose(before - table(step)[0].numpy(), expected, rtol=1e-3, atol=1e-7)


def test_rows_that_no_example_looks_up_keep_their_weights_and_slots(step_of, batch, train):
    step = step_of(optimizer=Adam())
    variables = table(step)
    before = [np.array(variable.numpy()) for variable in variables]
    train(step, batch, times=2)
    assert len(variables) == 3
    for old, variable in zip(before, variables, strict=True):
        touched = (old != variable.numpy()).any(axis=1)
        assert np.flatnonzero(touched).tolist() == [1, 2, 4]


def test_an_overflow_in_the_rows_skips_the_step(step_of, batch, train, unchanged):
    scale = DynamicLossScale(initial=2.0**24)
    step = step_of(scale, "mixed_float16", optimizer=Adam())
    with unchanged(step):
        assert train(step, batch).row["skipped"] == 1.0
