"""What the classifiers share: their ends, and what counts as an image."""

from typing import Any

import keras
from keras import layers

from ampcore.data.dataset import Signature
from ampcore.errors import InvalidModel


def classifier(inputs: Any, features: Any, classes: int, name: str) -> Any:
    """A model from `inputs` over `features` (batch, …, n) to logits (batch, …, classes)."""
    logits = layers.Dense(classes, name="predictions")(features)
    return keras.Model(inputs, logits, name=name)


def dense_stack(features: Any, units: tuple[int, ...], activation: str, dropout: float) -> Any:
    """Dense layers of `units`, each followed by dropout when there is any."""
    for index, width in enumerate(units, start=1):
        features = layers.Dense(width, activation=activation, name=f"dense_{index}")(features)
        if dropout:
            features = layers.Dropout(dropout, name=f"dense_dropout_{index}")(features)
    return features


def image_input(signature: Signature) -> tuple[Any, Any]:
    """The model's input, and the same as images (batch, height, width, channels).

    Images of rank 2 get a channel axis. Raises InvalidModel for anything but images.
    """
    shape = signature.input_shape
    if signature.input_dtype != "float32" or len(shape) not in (2, 3):
        raise InvalidModel(
            "model.kind",
            expected="images, [height, width] or [height, width, channels], for this kind",
            received=f"{signature.input_dtype} examples of shape {list(shape)}",
        )
    inputs = keras.Input(shape, dtype="float32", name="images")
    if len(shape) == 3:
        return inputs, inputs
    return inputs, layers.Reshape((*shape, 1), name="channel")(inputs)
