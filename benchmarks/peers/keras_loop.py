"""Keras's custom training loop: one call of a tf.function for each step, as in its guide."""

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf
from compare.problems import Cnn, Mlp, batches
from compare.serve import TimedRound, serve

from peers import keras_models


def loop(build: Callable[[], Any], problem: Any, *, dynamic: bool, jit: bool = False) -> TimedRound:
    """An epoch over batches that already are tensors, on a GPU if there is one."""
    model, optimizer = build(), keras_models.adam(dynamic=dynamic)
    optimizer.build(model.trainable_variables)
    loss_function = keras_models.loss()

    @tf.function(jit_compile=jit)  # type: ignore[untyped-decorator]
    def step(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = loss_function(y, model(x, training=True))
            scaled = optimizer.scale_loss(loss) if dynamic else loss
        grads = tape.gradient(scaled, [variable.value for variable in model.trainable_variables])
        optimizer.apply(grads, model.trainable_variables)
        return loss

    x, y = batches(problem)
    data = [(tf.constant(one), tf.constant(labels)) for one, labels in zip(x, y, strict=True)]

    def run_steps() -> int:
        for examples, labels in data:
            loss = step(examples, labels)
        loss.numpy()  # wait for the last step
        return len(data)

    return run_steps


def cnn(policy: str) -> TimedRound:
    """The CNN under a global policy, without loss scaling."""
    keras.config.set_dtype_policy(policy)
    return loop(keras_models.cnn, Cnn, dynamic=False)


if __name__ == "__main__":
    serve(
        {
            "mlp": lambda: loop(keras_models.mlp, Mlp, dynamic=False),
            "mlp_dynamic": lambda: loop(keras_models.mlp, Mlp, dynamic=True),
            "cnn_float32": lambda: cnn("float32"),
            "cnn_bfloat16": lambda: cnn("mixed_bfloat16"),
        },
        "keras",
        "tensorflow-cpu",
    )
