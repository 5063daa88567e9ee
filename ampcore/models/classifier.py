"""What the classifiers share: their ends, and what counts as an image."""

from typing import Any

import keras
from keras import layers

from ampcore.errors import InvalidModel

Shape = tuple[int, ...]


def classifier(inputs: Any, features: Any, classes: int, name: str) -> Any:
    """A model from `inputs` over `features` (batch, n) to float32 logits (batch, classes).

    Logits in 16 bits would lose the loss's precision where it matters most.
    """
    logits = layers.Dense(classes, dtype="float32", name="predictions")(features)
    return keras.Model(inputs, logits, name=name)


def dense_stack(
    features: Any, units: tuple[int, ...], activation: str, dropout: float, policy: Any
) -> Any:
    """Dense layers of `units`, each followed by dropout when there is any."""
    for index, width in enumerate(units, start=1):
        dense = layers.Dense(width, activation=activation, dtype=policy, name=f"dense_{index}")
        features = dense(features)
        if dropout:
            drop = layers.Dropout(dropout, dtype=policy, name=f"dense_dropout_{index}")
            features = drop(features)
    return features


def image_input(input_shape: Shape, policy: Any) -> tuple[Any, Any]:
    """The model's input, and the same as images (batch, height, width, channels).

    Images of rank 2 get a channel axis. Raises InvalidModel for other ranks than 2 and 3.
    """
    if len(input_shape) not in (2, 3):
        raise InvalidModel(
            "model.kind",
            expected="images, [height, width] or [height, width, channels], for this kind",
            received=f"examples of shape {list(input_shape)}",
        )
    inputs = keras.Input(input_shape, dtype="float32", name="images")
    if len(input_shape) == 3:
        return inputs, inputs
    channel = layers.Reshape((*input_shape, 1), dtype=policy, name="channel")
    return inputs, channel(inputs)
