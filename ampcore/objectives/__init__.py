"""Losses and metrics: objects of Keras from names, functions and other objects."""

from ampcore.objectives.keras_losses import FunctionLoss, as_loss, example_losses
from ampcore.objectives.keras_metrics import as_metric
from ampcore.objectives.loss_kinds import build_loss
from ampcore.objectives.metric_kinds import build_metric
from ampcore.objectives.package_loss import check_package_loss
from ampcore.objectives.package_metric import check_package_metric

__all__ = [
    "FunctionLoss",
    "as_loss",
    "as_metric",
    "build_loss",
    "build_metric",
    "check_package_loss",
    "check_package_metric",
    "example_losses",
]
