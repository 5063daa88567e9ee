"""What TensorFlow's check_numerics names for a planted fault: `python -m … FILE`, one JSON line.

Keras trains the same model on the same data in mixed float16, with its LossScaleOptimizer, while
`tf.debugging.enable_check_numerics` watches all operations. It ends at the first one whose output
is not finite.
"""

import json
import re
import sys
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

STEPS = 32
BATCH = 64


class Times(keras.layers.Layer):
    """Multiplies by a number."""

    def __init__(self, factor: float, **options: Any) -> None:
        super().__init__(**options)
        self.factor = factor

    def call(self, inputs: Any) -> Any:
        """Multiply."""
        return inputs * self.factor


def model_of(fault: dict[str, Any], features: int) -> Any:
    """An MLP, with a layer that overflows or a damaged weight where the fault says so."""
    layers: list[Any] = [keras.Input((features,))]
    layers += [keras.layers.Dense(32, activation="relu", name=f"hidden_{n}") for n in range(2)]
    if fault["factor"]:
        layers.append(Times(fault["factor"], name="too_high"))
    model = keras.Sequential([*layers, keras.layers.Dense(4, name="logits")])
    if fault["weight"]:
        kernel = np.array(model.get_layer("hidden_1").kernel)
        kernel[3, 4] = fault["weight"]
        model.get_layer("hidden_1").kernel.assign(kernel)
    return model


def main() -> None:
    """Train, and print what the check says."""
    fault = json.loads(Path(sys.argv[1]).read_text())
    data = np.load(sys.argv[2])
    keras.utils.set_random_seed(0)
    keras.mixed_precision.set_global_policy("mixed_float16")
    model = model_of(fault, data["x"].shape[1])
    optimizer = keras.optimizers.SGD(fault["learning_rate"], momentum=0.9)
    scaled = keras.optimizers.LossScaleOptimizer(optimizer, initial_scale=fault["initial_scale"])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer=scaled, loss=loss)
    tf.debugging.enable_check_numerics()
    batches = tf.data.Dataset.from_tensor_slices((data["x"], data["y"])).batch(BATCH).repeat()
    try:
        model.fit(batches, steps_per_epoch=STEPS, verbose=0)
        said = ""
    except (tf.errors.InvalidArgumentError, tf.errors.OpError) as error:
        said = str(error)
    operation = re.search(r"in output \d+ of graph op \"(\w+)\"|op \"(\w+)\"", said)
    names = sorted(set(re.findall(r"hidden_\d|too_high|logits", said)))
    print(json.dumps({"operation": operation and (operation[1] or operation[2]), "layers": names}))


if __name__ == "__main__":
    main()
