"""Keras on an embedding table of a million rows, with its LossScaleOptimizer."""

from typing import Any

import keras
import tensorflow as tf
from compare.problems import LEARNING_RATE, Sparse, rows
from compare.serve import TimedRound, serve
from keras import layers


def loop() -> TimedRound:
    """One call of a tf.function for each step."""
    table = layers.Embedding(Sparse.VOCABULARY, Sparse.DIMENSION)
    model = keras.Sequential([keras.Input((), dtype="int32"), table, layers.Dense(1)])
    optimizer = keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam(LEARNING_RATE))
    optimizer.build(model.trainable_variables)
    loss_function = keras.losses.BinaryCrossentropy(from_logits=True)

    @tf.function  # type: ignore[untyped-decorator]
    def step(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = loss_function(y[:, None], model(x, training=True))
            scaled = optimizer.scale_loss(loss)
        # The gradient of the table is an IndexedSlices of rows, not a dense table.
        grads = tape.gradient(scaled, [variable.value for variable in model.trainable_variables])
        optimizer.apply(grads, model.trainable_variables)
        return loss

    data = [(tf.constant(x), tf.constant(y)) for x, y in zip(*rows(Sparse), strict=True)]

    def run_steps() -> int:
        for touched, labels in data:
            loss = step(touched, labels)
        loss.numpy()
        return len(data)

    return run_steps


if __name__ == "__main__":
    serve({"dynamic": loop}, "keras", "tensorflow-cpu")
