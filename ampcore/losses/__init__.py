"""Losses: Keras loss objects from names, functions and other objects."""

from ampcore.losses.keras_losses import FunctionLoss, as_loss, example_losses
from ampcore.losses.kinds import build_loss
from ampcore.losses.package_loss import check_package_loss

__all__ = ["FunctionLoss", "as_loss", "build_loss", "check_package_loss", "example_losses"]
