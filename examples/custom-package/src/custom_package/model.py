"""A classifier of images with two towers, one of convolutions and one of dense layers.

A job trains it with `model: {kind: package, package: custom-package, name: two_towers}`.
"""

from typing import Any

import keras
from keras import layers
from pydantic import BaseModel, ConfigDict, Field

from ampcore.data import Signature
from ampcore.plugins import PackageModel


class Options(BaseModel):
    """The options of the model."""

    model_config = ConfigDict(extra="forbid")

    units: int = Field(default=16, ge=1, le=4096)
    """Of the dense tower, and of the layer after both."""
    filters: int = Field(default=8, ge=1, le=1024)


def build(options: Options, signature: Signature) -> Any:
    """Two towers over an image; their outputs are joined before the logits."""
    image = keras.Input(signature.input_shape, name="image")
    near = layers.Conv2D(options.filters, 3, activation="relu", name="near")(image)
    near = layers.GlobalAveragePooling2D(name="pool")(near)
    flat = layers.Flatten(name="flat")(image)
    far = layers.Dense(options.units, activation="relu", name="far")(flat)
    joined = layers.Concatenate(name="joined")([near, far])
    hidden = layers.Dense(options.units, activation="relu", name="hidden")(joined)
    return keras.Model(image, layers.Dense(signature.classes, name="logits")(hidden))


two_towers = PackageModel(build, Options)
