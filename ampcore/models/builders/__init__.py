"""The networks by `kind`; each module registers its builder and its task."""

from ampcore.models.builders import (
    classifiers,
    embedding,
    gan,
    keras_application,
    language,
    layers,
    package_model,
)

__all__ = [
    "classifiers",
    "embedding",
    "gan",
    "keras_application",
    "language",
    "layers",
    "package_model",
]
