"""Keras's `fit` on the MLP with its LossScaleOptimizer, at its fastest settings.

The settings vary: compiled by XLA or not, and the number of steps per execution.
"""

from typing import Any

import tensorflow as tf
from compare.problems import Mlp, batches
from compare.serve import TimedRound, serve

from peers import keras_models

STEPS_PER_EXECUTION = (1, 20, 100)


def fits() -> dict[str, TimedRound]:
    """A TimedRound for each combination of settings."""
    data = tf.data.Dataset.from_tensor_slices(batches(Mlp)).prefetch(tf.data.AUTOTUNE)
    return {
        f"jit_compile={jit} steps_per_execution={steps}": fit(data, jit=jit, steps=steps)
        for jit in (False, True)
        for steps in STEPS_PER_EXECUTION
    }


def fit(data: Any, *, jit: bool, steps: int) -> TimedRound:
    """One epoch of `fit` over batches that already are in memory."""
    model = keras_models.mlp()
    model.compile(
        keras_models.adam(dynamic=True),
        keras_models.loss(),
        jit_compile=jit,
        steps_per_execution=steps,
    )

    def run_steps() -> int:
        model.fit(data, verbose=0)
        return Mlp.STEPS

    return run_steps


if __name__ == "__main__":
    serve({"dynamic": fits}, "keras", "tensorflow-cpu")
