"""Callbacks for `model.fit`: they report its loss scale, and send its steps to a server."""

from ampcore.callbacks.loss_scale_callback import LossScaleCallback, SkipReport
from ampcore.callbacks.telemetry_callback import TelemetryCallback

__all__ = ["LossScaleCallback", "SkipReport", "TelemetryCallback"]
