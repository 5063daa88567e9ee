"""Calls a model on an example without changing anything, as no step of training does."""

from typing import Any

import keras
import tensorflow as tf

from ampcore.precision.layers.in_place import float32_dtypes


def call_on_example(model: Any, example: Any) -> Any:
    """The outputs of a built model for an example, in float32.

    States that layers change in their calls stay: statistics, seeds, the states of recurrent
    layers, the vectors of SpectralNormalization.
    """
    dtypes = float32_dtypes(model)
    wide = [(variable, tf.cast(variable._value, tf.float32)) for variable in dtypes.as_float32]
    with dtypes.applied(), keras.StatelessScope(wide):
        return model(example)
