"""Puts layers that vary the training examples at random in front of a model."""

from collections.abc import Sequence
from typing import Any, Final

import keras

from ampspec.data.preprocessing import AnyAugmentation
from ampspec.errors import InvalidModel

Model = Any
PREFIX: Final = "augmentation_"
"""The beginning of the names of these layers."""


def with_augmentation(model: Model, augmentation: Sequence[AnyAugmentation]) -> Model:
    """The model with these layers after its input; they do nothing outside of training.

    Their random seeds are variables of the model, so that a resumed run draws the same numbers.

    Raises:
        InvalidModel: The model has several inputs, takes no images, or a layer changes their
            size.
    """
    if not augmentation:
        return model
    if len(model.inputs) != 1:
        raise InvalidModel(
            "data.augmentation",
            expected="a model with one input",
            received=f"{len(model.inputs)} inputs",
        )
    [tensor] = model.inputs
    if len(tensor.shape) != 4 and any(layer.layer != "GaussianNoise" for layer in augmentation):
        raise InvalidModel(
            "data.augmentation",
            expected="images [height, width, channels]",
            received=f"inputs of shape {list(tensor.shape[1:])}",
        )
    inputs = keras.Input(tensor.shape[1:], dtype=tensor.dtype, name=tensor.name)
    varied = inputs
    for number, layer in enumerate(augmentation, start=1):
        arguments = layer.model_dump(exclude={"layer"})
        kind = getattr(keras.layers, layer.layer)
        varied = kind(**arguments, name=f"{PREFIX}{number}")(varied)
    if varied.shape != inputs.shape:
        raise InvalidModel(
            "data.augmentation",
            expected=f"images of {list(inputs.shape[1:])} after all layers",
            received=f"{list(varied.shape[1:])}; set the size of the images to what is cropped",
        )
    # The call of a functional model runs its layers, so that all keep their own paths.
    return keras.Model(inputs, model.call(varied), name=model.name)


def without_augmentation(model: Model) -> Model:
    """The model without these layers, for saving: called on its own, Keras would apply them."""
    added = [layer for layer in getattr(model, "layers", ()) if layer.name.startswith(PREFIX)]
    if not added:
        return model
    return keras.Model(added[-1].output, model.output, name=model.name)
