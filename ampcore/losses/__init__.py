"""Losses: Keras loss objects from names, functions and other objects."""

from ampcore.losses.keras_losses import FunctionLoss, as_loss, example_losses

__all__ = ["FunctionLoss", "as_loss", "example_losses"]
