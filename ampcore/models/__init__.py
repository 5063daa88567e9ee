"""The models by `kind`; each module registers its builder and its task."""

from ampcore.models import (
    cnn,
    embedding,
    gan,
    keras_application,
    language,
    lenet5,
    mlp,
    own_layers,
    package_model,
    resnet,
)
from ampcore.models.registry import BUILDERS, build
from ampcore.models.task import Network, Task

__all__ = [
    "BUILDERS",
    "Network",
    "Task",
    "build",
    "cnn",
    "embedding",
    "gan",
    "keras_application",
    "language",
    "lenet5",
    "mlp",
    "own_layers",
    "package_model",
    "resnet",
]
