"""A step of a model with a float8 layer of Keras: its scales and amax histories are overwritten."""

from dataclasses import replace

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

from ampcore import optimizers
from ampcore.data import Batch
from ampcore.diagnostics.steps.replay import Replay
from ampcore.models.seeds import step_seed
from ampcore.precision import FixedLossScale, is_overwritten
from ampcore.training.step.clip import Clip
from ampspec.objectives.optimizer import Adam

FORMS = [(False, 1), (True, 1), (False, 4)]
"""Whether XLA compiles the step, and its micro-batches."""
graph_only = pytest.mark.parametrize("shared_step", FORMS[:1], indirect=True)


@pytest.fixture(scope="module", params=FORMS, ids=str)
def shared_step(request, make_step, task_of):
    """A step of a float8 layer and a plain one, with limits that would change a history."""
    keras.utils.set_random_seed(0)
    inputs = keras.Input((8, 8, 1))
    narrow = layers.Dense(8, name="narrow", kernel_constraint="max_norm")
    outputs = layers.Dense(10, name="logits")(narrow(layers.Flatten()(inputs)))
    narrow.quantize("float8")
    made = make_step(
        FixedLossScale(2.0**10),
        task=task_of(keras.Model(inputs, outputs)),
        optimizer=Adam(ema=0.9),
        clips=[Clip(norm=1e-3, value=1e-6)],
    )
    xla, accumulate = request.param
    made = replace(made, accumulate=accumulate)
    return made.for_xla() if xla else made


@pytest.fixture
def step(shared_step, values, reset):
    """The shared step, which is compiled once for all tests, as it was before them."""
    before = values(shared_step)
    yield shared_step
    reset(shared_step, before)


def latest_amax(step):
    """The largest magnitudes that the layer has seen in the last step: inputs and kernel."""
    layer = step.task.networks[0].model.get_layer("narrow")
    histories = layer.inputs_amax_history, layer.kernel_amax_history
    return [float(history.numpy()[0]) for history in histories]


def test_amax_histories_are_neither_unscaled_nor_clipped_nor_averaged(step, batch, train):
    layer = step.task.networks[0].model.get_layer("narrow")
    largest = [np.abs(batch.x.numpy()).max(), np.abs(layer.kernel.numpy()).max()]
    row = train(step, batch).row
    assert row["skipped"] == 0
    assert latest_amax(step) == largest
    assert np.isfinite(row["grad_norm"])
    # What is evaluated and saved is the newest value: a history has no average.
    history = layer.inputs_amax_history
    assert optimizers.averaged(step.optimizers[0], [history])[0] is history.value
    optimizers.assign_averages(step.optimizers[0], [history])
    assert latest_amax(step) == largest


def test_a_skipped_step_keeps_histories_and_constrained_weights_unchanged(
    step, batch, train, unchanged
):
    train(step, batch)
    step.task.networks[0].model.get_layer("narrow").kernel.assign(tf.fill([64, 8], 2.0))
    x = batch.x.numpy()
    # An infinity would be clipped by the layer to the largest number in 8 bits.
    x[-1] = np.nan
    with unchanged(step):
        assert train(step, Batch(tf.constant(x), batch.y)).row["skipped"] == 1


@graph_only
def test_the_norm_excludes_values_that_overwrite_their_variables(step, batch, train):
    layer = step.task.networks[0].model.get_layer("narrow")
    layer.kernel_amax_history.assign(tf.fill([1024], 1e6))
    assert train(step, batch).row["grad_norm"] < 1e3


@graph_only
def test_a_replay_has_no_gradients_of_overwritten_variables(step, batch):
    replay = Replay(step.task, step.loss_scales, step.accumulate)
    seed = step_seed(0, tf.constant(0, tf.int64))
    _, replayed = next(replay.step([1.0], batch, seed))
    rows = zip(step.task.networks[0].model.trainable_variables, replayed.gradients[0], strict=True)
    assert all(is_overwritten(variable) is (grad is None) for variable, grad in rows)
