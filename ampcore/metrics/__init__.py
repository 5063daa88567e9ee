"""Metrics: Keras metric objects from names, functions and other objects."""

from ampcore.metrics.keras_metrics import as_metric
from ampcore.metrics.kinds import build_metric
from ampcore.metrics.package_metric import check_package_metric

__all__ = ["as_metric", "build_metric", "check_package_metric"]
