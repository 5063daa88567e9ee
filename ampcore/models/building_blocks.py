"""Builds Keras models from `ampcore.architectures`, and checks that data are images."""

from typing import Any

import keras
from keras import layers, ops

from ampcore.architectures import DataShape, LayerConfig, NetworkConfig, describe_networks
from ampcore.architectures.images import image_shape
from ampcore.architectures.layers import POSITION_NUMBERS
from ampcore.data.dataset import Signature
from ampcore.errors import InvalidModel
from ampcore.spec.model import ModelSpec


def build_networks(spec: ModelSpec, signature: Signature) -> dict[str, Any]:
    """The float32 Keras models of a spec by name, for data that the model can take."""
    shape = DataShape(signature.input_shape, signature.classes)
    networks = describe_networks(spec, shape)
    return {name: build_network(network) for name, network in networks.items()}


def build_network(network: NetworkConfig) -> Any:
    """A functional Keras model; its layers are made in the order of the description.

    Each layer draws seeds for its initial weights when it is made, so the order decides them.
    """
    inputs = keras.Input(network.input_shape, dtype=network.input_dtype, name=network.input_name)
    outputs = {network.input_name: inputs}
    for layer in network.layers:
        outputs[layer.name] = _call(layer, [outputs[name] for name in layer.inputs])
    return keras.Model(inputs, outputs[network.layers[-1].name], name=network.name)


def _call(layer: LayerConfig, inputs: list[Any]) -> Any:
    if layer.kind == POSITION_NUMBERS:
        return _position_numbers(*inputs)
    made = getattr(layers, layer.kind)(**layer.arguments, name=layer.name)
    if layer.kind == "Add":  # the one kind that takes a list
        return made(inputs)
    return made(*inputs, **layer.call_arguments)


def _position_numbers(tokens: Any) -> Any:
    """0 … T - 1 for tokens (batch, T), as (1, T)."""
    # Counted from the tokens: a functional model has no layer for a plain constant.
    return ops.cumsum(ops.ones_like(ops.take(tokens, [0], axis=0)), axis=1) - 1


def check_images(signature: Signature) -> None:
    """Raise InvalidModel unless the examples are images."""
    shape = signature.input_shape
    if signature.input_dtype != "float32" or len(shape) not in (2, 3):
        raise InvalidModel(
            "model.kind",
            expected="images, [height, width] or [height, width, channels], for this kind of model",
            received=f"{signature.input_dtype} examples of shape {list(shape)}",
        )


def image_input(signature: Signature) -> tuple[Any, Any]:
    """The model's input, and the same as images (batch, height, width, channels).

    Images of rank 2 get a channel axis. Raises InvalidModel for anything but images.
    """
    check_images(signature)
    shape = signature.input_shape
    inputs = keras.Input(shape, dtype="float32", name="images")
    if len(shape) == 3:
        return inputs, inputs
    return inputs, layers.Reshape(image_shape(shape), name="channel")(inputs)
