"""Converts a Keras model of a person's own into `model: {kind: layers}` and its weights."""

from ampcore.conversion.errors import OTHER_WAYS, NotConvertible
from ampcore.conversion.model import ConvertedModel, layers_spec_from_keras

__all__ = ["OTHER_WAYS", "ConvertedModel", "NotConvertible", "layers_spec_from_keras"]
