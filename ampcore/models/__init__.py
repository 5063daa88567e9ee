"""Keras models by `kind`; each module registers its builder."""

from ampcore.models import cnn, lenet5, mlp
from ampcore.models.registry import BUILDERS, build

__all__ = ["BUILDERS", "build", "cnn", "lenet5", "mlp"]
