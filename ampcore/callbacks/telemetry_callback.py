"""TelemetryCallback: sends the steps of `model.fit` to an ampcore server, as a tracked run."""

import functools
import logging
import math
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar, cast

import keras

from ampcore.callbacks.custom_step import CustomStep, has_custom_step, scaled_optimizer
from ampcore.callbacks.fit_loss_scale import FitLossScale
from ampspec.telemetry.scale_health import ScaleBounds

Method = TypeVar("Method", bound=Callable[..., None])

log = logging.getLogger(__name__)


class RunLogger(Protocol):
    """What the callback needs of a run: `ampclient.TrackedRun` has it."""

    @property
    def next_step(self) -> int:
        """The number of the next row."""

    @property
    def cancel_requested(self) -> bool:
        """Whether a user has cancelled the run."""

    def log(self, **values: Any) -> None:
        """Record a row."""

    def event(self, event: Any, data: Mapping[str, Any]) -> None:
        """Add an entry to the event log."""

    def result(self, **values: Any) -> None:
        """Set results of the run."""

    def expect_steps(self, total_steps: int) -> None:
        """Tell how many rows the run will have."""

    def use_scale_bounds(self, bounds: ScaleBounds | None) -> None:
        """Judge the health of the loss scale by its bounds."""


def _never_fails(method: Method) -> Method:
    """Log the first error of the callback, and end it: the training goes on."""

    @functools.wraps(method)
    def guarded(self: "TelemetryCallback", *args: Any, **kwargs: Any) -> None:
        if self._has_failed:
            return
        try:
            method(self, *args, **kwargs)
        except Exception:
            self._has_failed = True
            log.exception("TelemetryCallback has stopped because of an error")

    return cast("Method", guarded)


class TelemetryCallback(keras.callbacks.Callback):  # type: ignore[misc]
    """Sends each step of `fit` to a tracked run: loss, loss scale, skips, throughput.

        with ampclient.Client() as client, client.runs.track("baseline") as run:
            model.fit(x, y, callbacks=[ampcore.TelemetryCallback(run)])

    Works with ampcore's and Keras's LossScaleOptimizer, and without loss scaling (the scale is 1).
    Each epoch adds an event, and one with the `val_…` metrics. Further calls of `fit` continue the
    numbers of steps. When a user cancels the run, `model.stop_training` is set. An error in the
    callback is logged, and never ends `fit`.

    With `steps_per_execution` above 1, Keras reports once for each execution, and so does this
    callback: a row holds the mean loss of the execution, its time and examples, the loss scale at
    its begin, and whether any of its steps was skipped. Its number is that of its last step.

    The loss of a single step is the difference of two sums over the epoch, in float32: it is exact
    to about 1e-7 of the sum of all losses of the epoch. After a loss that is not finite, the losses
    of the rest of the epoch are not finite either.

    Of a model with a `train_step` of its own, the row has what that returned, under its names: of a
    `keras.metrics.Mean`, the mean of the step. Without a `loss`, that column is the sum of the
    values whose names end in `loss`; the learning rates are those of the optimizers that the step
    has applied.

    Args:
        run: From `client.runs.track`.
    """

    def __init__(self, run: RunLogger) -> None:
        super().__init__()
        self._run = run
        self._has_failed = False
        self._steps = run.next_step
        """Steps of all calls of `fit`."""
        self._has_rows_of_steps = True
        """Whether each row so far was one step."""

    @_never_fails
    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        """Find out what the model is compiled with."""
        custom = has_custom_step(self.model)
        optimizer = scaled_optimizer(self.model) if custom else self.model.optimizer
        self._loss_scale = FitLossScale(optimizer)
        self._run.use_scale_bounds(self._loss_scale.bounds)
        self._optimizer = optimizer
        self._has_schedule = not isinstance(optimizer.learning_rate, keras.Variable)
        self._learning_rate = float(optimizer.learning_rate)
        self._loss_metric = next((m for m in self.model.metrics if _is_loss(m)), None)
        self._counts_examples = self._loss_metric is getattr(self.model, "_loss_tracker", None)
        self._custom_step = CustomStep(self.model) if custom else None
        self._expects_steps = True

    @_never_fails
    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Begin to measure; the sums of Keras begin at 0."""
        if self._expects_steps:
            self._expects_steps = False
            self._expect_steps(epoch)
        self._batch, self._total, self._count = -1, 0.0, 0.0
        self._rows = self._skipped_rows = 0
        if self._custom_step is not None:
            self._custom_step.begin_epoch()
        self._step_began = time.perf_counter()

    @_never_fails
    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        """Record the step, or the steps of an execution."""
        now = time.perf_counter()
        step_time_s, self._step_began = now - self._step_began, now
        # Keras reports the last execution of an epoch as if it had all of its steps.
        if in_epoch := self.params.get("steps"):
            batch = min(batch, in_epoch - 1)
        steps, self._batch = batch - self._batch, batch
        self._steps += steps
        self._has_rows_of_steps &= steps == 1
        scaled, values = self._loss_scale.read(), logs or {}
        row = {
            "step": None if self._has_rows_of_steps else self._steps - 1,
            "loss_scale": scaled.loss_scale,
            "skipped": scaled.skipped,
            "step_time_s": step_time_s,
            "grad_norm": values.get("grad_norm"),
        }
        if self._custom_step is not None:
            row |= self._custom_step.row(values)
        else:
            row["loss"], row["examples"] = self._loss_and_examples(values)
            row["learning_rate"] = self._next_learning_rate()
        self._run.log(**row)
        self._rows += 1
        self._skipped_rows += scaled.skipped
        if self._run.cancel_requested:
            self.model.stop_training = True

    @_never_fails
    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Add the events of the epoch and of its validation."""
        values = logs or {}
        loss = float(values.get("loss", math.nan))
        if self._custom_step is not None:
            loss = self._custom_step.loss_of_epoch(values)
        data = {"epoch": epoch, "loss": loss}
        applied = self._rows - self._skipped_rows
        self._run.event("epoch", data | {"steps": applied, "skipped": self._skipped_rows})
        metrics = {name: float(value) for name, value in values.items() if name.startswith("val_")}
        if metrics:
            self._run.event("evaluation", {"epoch": epoch, **metrics})
        results = {name: metrics.get(name) for name in ("val_loss", "val_accuracy")}
        self._run.result(final_loss=data["loss"], **results)

    @_never_fails
    def on_train_end(self, logs: dict[str, Any] | None = None) -> None:
        """Add what is known about the model once it is built."""
        self._run.result(parameters=self.model.count_params())

    def _expect_steps(self, first_epoch: int) -> None:
        epochs, steps = self.params.get("epochs"), self.params.get("steps")
        if epochs and steps:
            self._run.expect_steps(self._steps + (epochs - first_epoch) * steps)

    def _loss_and_examples(self, logs: Mapping[str, Any]) -> tuple[float, int]:
        """The mean loss and the examples since the last row.

        Keras logs the mean loss of the epoch so far, weighted by the sizes of its batches.
        """
        loss = float(logs.get("loss", math.nan))
        if self._loss_metric is not None:
            count = float(self._loss_metric.count)
            total, weight = loss * count, count - self._count
            loss_sum = total - self._total
            self._total, self._count = total, count
            if weight > 0:
                return loss_sum / weight, round(weight) if self._counts_examples else 0
        return loss, 0

    def _next_learning_rate(self) -> float:
        """The learning rate of the step that has ended."""
        # A schedule has moved on to the next step; a variable is set before a step.
        step_rate = self._learning_rate
        self._learning_rate = float(self._optimizer.learning_rate)
        return step_rate if self._has_schedule else self._learning_rate


def _is_loss(metric: Any) -> bool:
    return metric.name == "loss" and isinstance(metric, keras.metrics.Mean)
