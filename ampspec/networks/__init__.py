"""The layers of built-in and listed models, without TensorFlow; the only description of them.

`ampcore.models` builds Keras models from it, `ampspec.preflight` estimates memory and FLOPs. The
models of keras.applications, packages and bundles are not here: Keras alone knows their layers.
"""

from collections.abc import Callable
from typing import Any, Final

from ampspec.models.model import ModelSpec
from ampspec.networks import custom_layers, embedding, gan, images, language
from ampspec.networks.description import (
    DataShape,
    InputDescription,
    LayerDescription,
    NetworkDescription,
)

NetworkFunction = Callable[[Any, DataShape], dict[str, NetworkDescription]]

NETWORKS: Final[dict[str, NetworkFunction]] = {
    "mlp": images.mlp,
    "cnn": images.cnn,
    "lenet5": images.lenet5,
    "resnet": images.resnet,
    "gan": gan.gan,
    "embedding": embedding.embedding,
    "lstm_lm": language.lstm_lm,
    "transformer_lm": language.transformer_lm,
    "layers": custom_layers.custom_layers,
}
"""By kind of model, the function from the model section and the data's shape to its networks."""

__all__ = [
    "NETWORKS",
    "DataShape",
    "InputDescription",
    "LayerDescription",
    "NetworkDescription",
    "NetworkFunction",
    "describe_networks",
]


def describe_networks(spec: ModelSpec, data: DataShape) -> dict[str, NetworkDescription]:
    """The networks of a model by name, for data that the model can take.

    Raises KeyError for a kind that is not in NETWORKS.
    """
    return NETWORKS[spec.kind](spec, data)
