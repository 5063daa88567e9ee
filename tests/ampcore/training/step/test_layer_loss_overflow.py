"""A loss of a layer that is not finite: the layer is named, in the event and in the error."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import ampcore
from ampspec.errors import NonFiniteResult
from ampspec.telemetry import EventType

ROWS = 32


class Penalty(keras.layers.Layer):
    """Adds a loss that is finite in float32, and not in float16."""

    def call(self, inputs):
        self.add_loss(tf.reduce_sum(tf.square(inputs) * tf.cast(6e4, inputs.dtype)))
        return inputs


class Block(keras.layers.Layer):
    """Adds a loss that is infinite in every dtype, of a layer inside of it."""

    def build(self, input_shape):
        self.inner = keras.layers.Dense(4, name="inner")
        self.inner.build(input_shape)

    def call(self, inputs):
        hidden = self.inner(inputs)
        self.add_loss(tf.reduce_sum(hidden**2 * tf.constant(np.inf, hidden.dtype)))
        return hidden


@keras.saving.register_keras_serializable()
class Infinite(keras.regularizers.Regularizer):
    def __call__(self, values):
        return tf.reduce_sum(values**2) * np.inf


@pytest.mark.parametrize(
    ("layer", "policy", "cause", "sentence"),
    [
        (lambda: Penalty(name="added"), "mixed_float16", "operation", "overflows in float16"),
        (lambda: Block(name="added"), "mixed_float16", "data", "even in float32"),
        (
            lambda: keras.layers.Dense(4, activity_regularizer=Infinite(), name="added"),
            "float32",
            "data",
            "Look at its regularizers",
        ),
        (
            lambda: keras.layers.Dense(4, kernel_regularizer=Infinite(), name="added"),
            "mixed_bfloat16",
            "data",
            "even in float32",
        ),
    ],
)
def test_the_layer_is_named(layer, policy, cause, sentence):
    keras.utils.set_random_seed(0)
    model = keras.Sequential(
        [
            keras.Input((4,)),
            keras.layers.Dense(8, name="before"),
            layer(),
            keras.layers.Dense(1, name="after"),
        ]
    )
    x = np.random.default_rng(0).normal(size=(ROWS, 4)).astype(np.float32)
    trainer = ampcore.Trainer.from_keras(
        model,
        x,
        x[:, :1],
        loss="mse",
        policy=policy,
        verbose=0,
        runtime={"engine": "graph"},
        telemetry={"ranges": {"enabled": False}},
    )
    events = []
    with pytest.raises(NonFiniteResult, match=r"every step was skipped.*A loss of layer added .*"):
        trainer.run(on_event=events.append)
    [facts] = [event.data for event in events if event.type is EventType.OVERFLOW]
    assert facts["diagnosis"] == cause
    assert sentence in facts["sentence"]
    first = facts["first_layer"]
    assert (first["layer"], first["part"], first["pass"]) == ("added", "loss", "forward")
