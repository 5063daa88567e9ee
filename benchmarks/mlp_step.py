"""One training step, ampcore's loop beside Keras's own: one JSON line of medians, in ms.

MLP 784-64-64-10, batch 128, float32, Adam. Keras: a tf.function of one step, called once a
batch that already lies on the device, without and with its LossScaleOptimizer (dynamic).
ampcore: its compiled loop, without and with DynamicLossScale. The runs are interleaved, so that
whatever else the machine does hits all of them alike.
"""

import json
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import tensorflow as tf

from ampcore import data, models
from ampcore.data import Dataset
from ampcore.precision import DynamicLossScale, LossScale, NoLossScale
from ampcore.spec.data import Synthetic
from ampcore.spec.model import Mlp
from ampcore.train.feed import Feed
from ampcore.train.loop import Loop
from ampcore.train.step import TrainStep

BATCH = 128
STEPS = 200
ROUNDS = 15
Run = Callable[[], object]


def main() -> None:
    """Measure and print."""
    keras.utils.set_random_seed(0)
    examples = STEPS * BATCH
    dataset = data.load(
        Synthetic(shape=(784,), examples=examples, batch_size=BATCH, validation_split=0.0), seed=0
    )
    runs: dict[str, Run] = {
        "keras": keras_run(dataset, dynamic=False),
        "ampcore": ampcore_run(dataset, NoLossScale()),
        "keras_dynamic": keras_run(dataset, dynamic=True),
        "ampcore_dynamic": ampcore_run(dataset, DynamicLossScale()),
    }
    step_ms = medians(runs)
    answer = {
        "benchmark": "mlp_step",
        "step_ms": {name: round(value, 4) for name, value in step_ms.items()},
        "ampcore_over_keras": ratio(step_ms, "ampcore", "keras"),
        "ampcore_over_keras_dynamic": ratio(step_ms, "ampcore_dynamic", "keras_dynamic"),
        "dynamic_over_none_ampcore": ratio(step_ms, "ampcore_dynamic", "ampcore"),
        "dynamic_over_none_keras": ratio(step_ms, "keras_dynamic", "keras"),
        "tensorflow": tf.__version__,
        "keras": keras.__version__,
    }
    print(json.dumps(answer))


def medians(runs: dict[str, Run]) -> dict[str, float]:
    """Milliseconds a step of each run, over interleaved rounds."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for run in runs.values():
        run()  # traces, compiles, fills the caches
    for _ in range(ROUNDS):
        for name, run in runs.items():
            start = time.perf_counter()
            run()
            times[name].append((time.perf_counter() - start) / STEPS * 1e3)
    return {name: statistics.median(values) for name, values in times.items()}


def ratio(values: dict[str, float], of: str, to: str) -> float:
    """One median over another."""
    return round(values[of] / values[to], 3)


def model_for(dataset: Dataset) -> Any:
    """The same model for both sides."""
    policy = keras.DTypePolicy("float32")
    return models.build(Mlp(), dataset.input_shape, dataset.classes, policy)


def ampcore_run(dataset: Dataset, scale: LossScale) -> Run:
    """An epoch in one call of the compiled loop, records included."""
    model, optimizer = model_for(dataset), keras.optimizers.Adam()
    optimizer.build(model.trainable_variables)
    epoch = Feed(dataset, shuffle=True, seed=0).epoch(0)
    loop = Loop(TrainStep(model, optimizer, scale), scale.init(), epoch, BATCH)
    return lambda: loop.run(epoch, 0, STEPS)


def keras_run(dataset: Dataset, *, dynamic: bool) -> Run:
    """An epoch in Keras's custom training loop: one call of a tf.function for each step."""
    model, optimizer = model_for(dataset), keras.optimizers.Adam()
    if dynamic:
        optimizer = keras.optimizers.LossScaleOptimizer(optimizer)
    optimizer.build(model.trainable_variables)
    loss_function = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    @tf.function  # type: ignore[untyped-decorator]
    def step(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = loss_function(y, model(x, training=True))
            scaled = optimizer.scale_loss(loss) if dynamic else loss
        grads = tape.gradient(scaled, [variable.value for variable in model.trainable_variables])
        optimizer.apply(grads, model.trainable_variables)
        return loss

    batches = list(
        tf.data.Dataset.from_tensor_slices((dataset.x_train, dataset.y_train)).batch(BATCH)
    )

    def epoch() -> None:
        for x, y in batches:
            loss = step(x, y)
        loss.numpy()  # wait for the last step

    return epoch


if __name__ == "__main__":
    main()
