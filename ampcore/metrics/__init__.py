"""Metrics: Keras metric objects from names, functions and other objects."""

from ampcore.metrics.keras_metrics import as_metric

__all__ = ["as_metric"]
