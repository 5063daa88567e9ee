"""Losses: Keras loss objects from names, functions and other objects."""

from ampcore.losses.keras_losses import FunctionLoss, as_loss, example_losses
from ampcore.losses.kinds import build_loss

__all__ = ["FunctionLoss", "as_loss", "build_loss", "example_losses"]
