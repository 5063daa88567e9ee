"""Builds Keras models from `ampspec.networks`, and checks that data are images."""

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

import keras
from keras import layers, ops

from ampcore.data.dataset import Signature
from ampcore.data.examples import single_or_all
from ampspec.errors import InvalidModel
from ampspec.layers.base import Layer, default_name
from ampspec.layers.weight_options import Constraint, Initializer, Regularizer, WeightOption
from ampspec.models.model import ModelSpec
from ampspec.networks import DataShape, NetworkDescription, describe_networks
from ampspec.networks.description import PositionNumbers
from ampspec.networks.images import image_shape

OPTION_MODULES: Final[dict[type[WeightOption], Any]] = {
    Initializer: keras.initializers,
    Regularizer: keras.regularizers,
    Constraint: keras.constraints,
}
"""Where Keras has the classes of each option, under the names that a spec gives."""


def build_networks(spec: ModelSpec, signature: Signature) -> dict[str, Any]:
    """The float32 Keras models of a spec by name, for data that the model can take."""
    networks = describe_networks(spec, data_shape(signature))
    return {name: build_network(network) for name, network in networks.items()}


def data_shape(signature: Signature) -> DataShape:
    """What the description of a network needs to know of the data."""
    return DataShape(
        signature.input_shape,
        signature.classes,
        dtype=signature.input_dtype,
        vocabulary=signature.vocabulary,
    )


def build_network(network: NetworkDescription) -> Any:
    """A functional Keras model; its layers are made in the order of the description.

    Each layer draws seeds for its initial weights when it is made, so the order decides them. A
    model with several inputs or outputs takes or returns them by name.
    """
    inputs = {
        description.name: keras.Input(
            description.shape, dtype=description.dtype, name=description.name
        )
        for description in network.inputs
    }
    tensors, keras_layers = dict(inputs), {}
    for description in network.layers:
        layer, layer_inputs = description.layer, [tensors[name] for name in description.inputs]
        if isinstance(layer, PositionNumbers):
            tensors[description.name] = _position_numbers(*layer_inputs)
            continue
        if description.shares is None:
            keras_layers[description.name] = keras_layer(
                layer.layer, description.keras_arguments, description.name
            )
        call = partial(keras_layers[description.shares or description.name], **layer.call_arguments)
        tensors[description.name] = call(layer_inputs) if layer.input_list else call(*layer_inputs)
    outputs = {name: tensors[name] for name in network.outputs}
    return keras.Model(single_or_all(inputs), single_or_all(outputs), name=network.name)


def keras_layer(kind: str, arguments: Mapping[str, Any], name: str) -> Any:
    """A layer of Keras, with options of weights and layers inside as Keras's own objects."""
    keyword_arguments = {key: _keras_argument(value) for key, value in arguments.items()}
    trainable = keyword_arguments.pop("trainable", True)
    layer = getattr(layers, kind)(**keyword_arguments, name=name)
    # Some constructors do not take it.
    layer.trainable = trainable
    return layer


def _keras_argument(value: Any) -> Any:
    match value:
        case Initializer() | Regularizer() | Constraint():
            return getattr(OPTION_MODULES[type(value)], value.name)(**value.given_arguments)
        case Layer():
            return keras_layer(value.layer, value.keras_arguments, default_name(value.layer))
    return value


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
