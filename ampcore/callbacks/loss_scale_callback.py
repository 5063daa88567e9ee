"""LossScaleCallback: reports the loss scale and the skipped steps of `model.fit`."""

import logging
from collections.abc import Callable
from typing import Any, NamedTuple

import keras

from ampcore.callbacks.fit_loss_scale import FitLossScale
from ampcore.precision.keras_optimizer import LossScaleOptimizer

log = logging.getLogger(__name__)


class SkipReport(NamedTuple):
    """Steps that `fit` skipped since the report before.

    Attributes:
        step: The number of steps so far, the skipped ones included.
        skipped: How many were skipped: with `steps_per_execution` more than one at a time.
        skipped_in_all: How many were skipped since the optimizer was built.
        loss_scale: The loss scale of the next step.
    """

    step: int
    skipped: int
    skipped_in_all: int
    loss_scale: float


def log_skip(report: SkipReport) -> None:
    """Log a warning about skipped steps."""
    log.warning(
        "step %d: the gradients were not finite, and %d step(s) were skipped (%d in all); "
        "the loss scale is now %g",
        *report,
    )


class LossScaleCallback(keras.callbacks.Callback):  # type: ignore[misc]
    """Reports the loss scale and the skipped steps of `fit` with a LossScaleOptimizer.

    The logs of each batch and epoch get `loss_scale` and `skipped_steps`, for the progress bar,
    History, CSVLogger and TensorBoard; `on_skip` is called for skipped steps.

    Args:
        on_skip: Called with a SkipReport; by default a warning is logged.

    Raises:
        TypeError: When `fit` begins with another optimizer.
    """

    def __init__(self, on_skip: Callable[[SkipReport], object] = log_skip) -> None:
        super().__init__()
        self._on_skip = on_skip
        self._reported = 0

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        """Check the optimizer; skips before this run are not reported."""
        if not isinstance(self.model.optimizer, LossScaleOptimizer):
            raise TypeError(
                "LossScaleCallback: expected a model compiled with ampcore.LossScaleOptimizer; "
                f"received {type(self.model.optimizer).__name__}."
            )
        self._loss_scale = FitLossScale(self.model.optimizer)
        self._reported = self._loss_scale.skipped_steps

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        """Report the steps skipped since the last call."""
        values = self._add_to(logs)
        if (skipped := values["skipped_steps"]) > self._reported:
            step = int(self.model.optimizer.iterations) + skipped
            new = skipped - self._reported
            self._reported = skipped
            self._on_skip(SkipReport(step, new, skipped, values["loss_scale"]))

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Add both values to the logs of the epoch."""
        self._add_to(logs)

    def _add_to(self, logs: dict[str, Any] | None) -> dict[str, Any]:
        values = {
            "loss_scale": self._loss_scale.current,
            "skipped_steps": self._loss_scale.skipped_steps,
        }
        if logs is not None:
            logs.update(values)
        return values
