"""The layers of every kind of model, without TensorFlow; the only description of them.

`ampcore.models` builds Keras models from it, `ampspec.preflight` estimates memory and FLOPs. The
models of keras.applications are not here: Keras alone knows their layers.
"""

from collections.abc import Callable
from typing import Any, Final

from ampspec.models.model import ModelSpec
from ampspec.networks import embedding, gan, images, language, own_layers
from ampspec.networks.layers import DataShape, InputConfig, LayerConfig, NetworkConfig

Architecture = Callable[[Any, DataShape], dict[str, NetworkConfig]]

ARCHITECTURES: Final[dict[str, Architecture]] = {
    "mlp": images.mlp,
    "cnn": images.cnn,
    "lenet5": images.lenet5,
    "resnet": images.resnet,
    "gan": gan.gan,
    "embedding": embedding.embedding,
    "lstm_lm": language.lstm_lm,
    "transformer_lm": language.transformer_lm,
    "layers": own_layers.own_layers,
}
"""By kind of model, the function from the model section and the data's shape to its networks."""

__all__ = [
    "ARCHITECTURES",
    "Architecture",
    "DataShape",
    "InputConfig",
    "LayerConfig",
    "NetworkConfig",
    "describe_networks",
]


def describe_networks(spec: ModelSpec, data: DataShape) -> dict[str, NetworkConfig]:
    """The networks of a model by name, for data that the model can take.

    Raises KeyError for a kind that is not in ARCHITECTURES.
    """
    return ARCHITECTURES[spec.kind](spec, data)
