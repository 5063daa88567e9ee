"""Keras on a GPU, with its LossScaleOptimizer: `fit`, and its guide's custom training loop.

A variant is `<problem>-<policy>-<none|dynamic>-<way>`; ways are `fit<STEPS>` and `fitxla<STEPS>`,
with that many steps per execution, `loop` and `loopxla`: a compiled step for each call.
"""

import sys
from functools import partial
from typing import Any

import keras
import tensorflow as tf
from compare import problems
from compare.problems import CLASSES, batches
from compare.serve import TimedRound, serve
from keras import layers

from peers import keras_loop, keras_models

EPOCHS_IN_ONE = 5
"""An epoch of `fit` is this many passes over the batches, so that its own start is a small part."""


def dense(problem: Any) -> Any:
    """Dense layers with relu, to float32 logits."""
    hidden = [layers.Dense(units, activation="relu") for units in problem.HIDDEN]
    last = layers.Dense(CLASSES, dtype="float32")
    return keras.Sequential([keras.Input(problem.INPUT), *hidden, last])


MODELS: dict[str, tuple[Any, Any]] = {
    "cnn512": (problems.Cnn512, keras_models.cnn),
    "cnn4096": (problems.Cnn4096, keras_models.cnn),
    "dense4096": (problems.Dense4096, partial(dense, problems.Dense4096)),
    "dense4095": (problems.Dense4095, partial(dense, problems.Dense4095)),
}


def rounds(variant: str) -> TimedRound:
    """The candidate with a variant's name."""
    name, policy, loss_scale, way = variant.split("-")
    problem, build = MODELS[name]
    keras.config.set_dtype_policy(policy)
    # Keras wraps an optimizer under mixed_float16 itself; `none` asks for no scaling.
    dynamic, jit = loss_scale == "dynamic", "xla" in way
    if way.startswith("fit"):
        return fit(build(), problem, dynamic=dynamic, jit=jit, steps=int(way.lstrip("fitxla")))
    return keras_loop.loop(build, problem, dynamic=dynamic, jit=jit)


def fit(model: Any, problem: Any, *, dynamic: bool, jit: bool, steps: int) -> TimedRound:
    """An epoch of `fit` over batches in memory."""
    data = tf.data.Dataset.from_tensor_slices(batches(problem)).repeat(EPOCHS_IN_ONE)
    model.compile(
        keras_models.adam(dynamic=dynamic),
        keras_models.loss(),
        jit_compile=jit,
        steps_per_execution=steps,
        auto_scale_loss=False,
    )

    def run_steps() -> int:
        model.fit(data.prefetch(tf.data.AUTOTUNE), verbose=0)
        return EPOCHS_IN_ONE * problem.STEPS

    return run_steps


if __name__ == "__main__":
    serve({name: partial(rounds, name) for name in sys.argv[1:]}, "keras")
