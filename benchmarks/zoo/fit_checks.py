"""The checks of a model whose `train_step` is its own: Keras's `fit` with ampcore's parts."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np

import ampcore
from ampspec.errors import TrainingError
from ampspec.precision.precision import Policy
from zoo.architecture import Architecture, Model
from zoo.comparison import FLOAT32_LIMIT, NEAR, distance_of_ends, relative_difference
from zoo.outcome import CheckFailed
from zoo.training import FIRST_SCALE, train

Logs = Mapping[str, Sequence[float]]
"""By its name, what each batch of `fit` has reported: means of the epoch so far, or values."""


class RecordedRun:
    """A tracked run in memory."""

    next_step = 0
    cancel_requested = False

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []

    def log(self, **values: Any) -> None:
        """Record a row."""
        self.rows.append(values)

    def event(self, event: Any, data: Mapping[str, Any]) -> None:
        """Ignored."""

    def result(self, **values: Any) -> None:
        """Ignored."""

    def expect_steps(self, total_steps: int) -> None:
        """Ignored."""

    def use_scale_bounds(self, bounds: Any) -> None:
        """Ignored."""


class FitChecks:
    """The checks of a model that only Keras's `fit` trains.

    Each returns what it measured, or raises.

    Args:
        architecture: The architecture.
        folder: Unused: Keras saves these models.
    """

    def __init__(self, architecture: Architecture, folder: Path) -> None:
        self._architecture = architecture
        model = architecture.model()
        self.parameters = sum(
            int(part.count_params()) for part, _ in self._networks_of(architecture, model)
        )
        self._plain: Logs = {}

    def float32(self) -> str:
        """`fit` with TelemetryCallback reports what `fit` alone does, and its rows say the same."""
        architecture = self._architecture
        self._plain = _fit(architecture, architecture.model())
        run = RecordedRun()
        logs = _fit(architecture, architecture.model(), ampcore.TelemetryCallback(run))
        difference = max(
            relative_difference(logs[name], self._plain[name]) for name in architecture.columns
        )
        if not difference <= FLOAT32_LIMIT:
            raise CheckFailed(f"with the callback the logs differ by {difference:.1e}")
        self._check_rows(run.rows, logs)
        return f"{difference:.0e}" if difference else "0"

    def mixed_bfloat16(self) -> str:
        """`fit` in mixed_bfloat16 ends near the one in float32."""
        return self._check_mixed("mixed_bfloat16")

    def mixed_float16(self) -> str:
        """`fit` in mixed_float16 with ampcore's loss scale ends near the one in float32."""
        return self._check_mixed("mixed_float16")

    def refused(self) -> str:
        """`Trainer.from_keras` would not call the step, and says so."""
        try:
            training = train(self._architecture, self._architecture.model(), "float32")
        except TrainingError as error:
            if not re.search(self._architecture.refusal, str(error), re.DOTALL):
                raise CheckFailed(f"the message is {error}") from error
            return "by name"
        raise CheckFailed(f"the model was trained: {training.losses}")

    def _check_mixed(self, policy: Policy) -> str:
        architecture, run = self._architecture, RecordedRun()
        model = architecture.model()
        for part, example in self._networks_of(architecture, model):
            ampcore.apply_policy(part, policy, architecture.overrides, example=example)
        scaled = policy == "mixed_float16"
        logs = _fit(architecture, model, ampcore.TelemetryCallback(run), scaled=scaled)
        if len(run.rows) != architecture.steps:
            raise CheckFailed(f"{len(run.rows)} rows of {architecture.steps} steps")
        distances = []
        for name in architecture.columns:
            if not np.isfinite(logs[name]).all():
                raise CheckFailed(f"{name} is not finite: {logs[name]}")
            distances.append(distance_of_ends(logs[name], self._plain[name]))
        scales = {row["loss_scale"] for row in run.rows}
        if scaled != (max(scales) > 1):
            raise CheckFailed(f"the loss scales are {scales}")
        if any(row["skipped"] for row in run.rows[architecture.steps // 2 :]):
            raise CheckFailed("steps were skipped in the second half")
        if not max(distances) <= NEAR:
            raise CheckFailed(f"{architecture.columns} end {distances} away")
        return f"{max(distances):.2%}"

    def _check_rows(self, rows: list[dict[str, Any]], logs: Logs) -> None:
        """Each row has the values of its step under the names that the step returned."""
        for name in self._architecture.columns:
            values = [row[name] for row in rows]
            means = np.cumsum(values) / np.arange(1, len(values) + 1)
            differences = [relative_difference(each, logs[name]) for each in (values, means)]
            if min(differences) > FLOAT32_LIMIT:
                raise CheckFailed(f"rows have {name} {values}, the logs of fit {logs[name]}")
        if any(row["examples"] != self._architecture.batch_size for row in rows):
            raise CheckFailed(f"the examples of the rows are {[row['examples'] for row in rows]}")
        if any("learning_rate" not in row or not np.isfinite(row["loss"]) for row in rows):
            raise CheckFailed(f"a row lacks its loss or learning rate: {rows}")

    @staticmethod
    def _networks_of(architecture: Architecture, model: Model) -> Sequence[tuple[Model, Any]]:
        return [] if architecture.networks is None else architecture.networks(model)


class _Recorder(keras.callbacks.Callback):  # type: ignore[misc]
    """Keeps what each batch reports."""

    def __init__(self) -> None:
        super().__init__()
        self.logs: dict[str, list[float]] = {}

    def on_train_batch_end(self, batch: int, logs: Mapping[str, Any] | None = None) -> None:
        """Keep the values."""
        for name, value in (logs or {}).items():
            self.logs.setdefault(name, []).append(float(value))


def _fit(architecture: Architecture, model: Model, *callbacks: Any, scaled: bool = False) -> Logs:
    """What `fit` reports for each batch, with ampcore's loss scale or without one."""

    def wrap(optimizer: Any) -> Any:
        scale = ampcore.DynamicLossScale(initial=FIRST_SCALE)
        return ampcore.LossScaleOptimizer(optimizer, scale) if scaled else optimizer

    assert architecture.compile_model is not None
    architecture.compile_model(model, wrap)
    recorder = _Recorder()
    x, *y = architecture.examples()
    model.fit(
        x,
        *y,
        batch_size=architecture.batch_size,
        shuffle=False,
        verbose=0,
        callbacks=[recorder, *callbacks],
    )
    return recorder.logs
