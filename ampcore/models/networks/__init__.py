"""The networks by `kind`; each module registers its builder and its task."""

from ampcore.models.networks import (
    cnn,
    embedding,
    gan,
    keras_application,
    language,
    layers,
    lenet5,
    mlp,
    package_model,
    resnet,
)

__all__ = [
    "cnn",
    "embedding",
    "gan",
    "keras_application",
    "language",
    "layers",
    "lenet5",
    "mlp",
    "package_model",
    "resnet",
]
