"""Explains one step of a run: repeats it exactly, and finds out what it is due to.

The step is run twice from the same state. If the results differ in a single bit on a processor, or
differ from what the run recorded, the step is not reproducible. Otherwise it is replayed at other
loss scales and in float32, and compared with other batches and with the start of the run.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from ampcore.diagnostics.steps.attribution import StepFinding, StepKind, not_reproducible
from ampcore.training.callback_buffer import OnBlock
from ampcore.training.explain.step_analysis import StepAnalysis, row_value
from ampcore.training.explain.step_replay import (
    ReplayCost,
    ReplayedRun,
    ReplayStart,
    ShouldStop,
    check_has_step,
    replay_to,
)
from ampcore.training.jobs.job import TrainingJob
from ampcore.training.run.prepared_context import prepared_context
from ampcore.training.run.repeat import RepeatedStep, repeat_step
from ampspec.telemetry import Event, EventType, StepBlock
from ampspec.telemetry.json_values import json_safe

RECORDED: Final = ("loss", "grad_norm", "loss_scale", "skipped")
"""The recorded values that a replay must reproduce."""


@dataclass(frozen=True)
class StepRecord:
    """What is known of a step from the telemetry of its run."""

    values: Mapping[str, Any] | None = None
    """Its values by column; None if they were not recorded."""
    engine: str | None = None
    """The engine of the run."""
    examples_per_s: float | None = None
    """The throughput of the run."""


class StepExplainer:
    """Explains a step of a run.

    Args:
        job: What the run trained.
        checkpoints: The folder with checkpoints of the run; None: it is repeated from its start.
        step: The step, counted from 0.
        record: What the run recorded.
    """

    def __init__(
        self,
        job: TrainingJob,
        checkpoints: Path | None,
        step: int,
        record: StepRecord | None = None,
    ) -> None:
        self._job, self._step, self._record = job, step, record or StepRecord()
        self._start = ReplayStart.find(checkpoints, step, self._record.engine)

    @property
    def cost(self) -> ReplayCost:
        """What has to be repeated first."""
        return self._start.cost(self._job.spec, self._step, self._record.examples_per_s)

    def run(
        self, on_block: OnBlock | None = None, should_stop: ShouldStop | None = None
    ) -> dict[str, Any]:
        """The explanation, as JSON values; it is described in docs/reference/explanations.md.

        Raises:
            InvalidData: The run has no such step.
            ReplayStopped: `should_stop` returned true.
            TrainingError: The run cannot be repeated.
        """
        with prepared_context(self._job, is_replay=True) as context:
            check_has_step(context, self._step)
            stop = should_stop or (lambda: False)
            replayed = replay_to(context, self._step, self._start, on_block, stop)
            return self._explain(replayed, on_block)

    def _explain(self, replayed: ReplayedRun, on_block: OnBlock | None) -> dict[str, Any]:
        runner, step = replayed.run.runner, self._step
        repeated = repeat_step(runner, step)
        if on_block is not None:
            on_block(repeated.block)
        spikes = list(replayed.run.diagnostics.spikes(repeated.block))
        analysis = StepAnalysis(replayed, repeated, _kind(repeated.block, spikes))
        document = analysis.document(self._not_reproduced(repeated, replayed))
        document |= {
            "step": step,
            "cost": self.cost.to_json(),
            "recorded": dict(self._record.values) if self._record.values else None,
            "spikes": [event.data | {"type": event.type.value} for event in spikes],
        }
        safe: dict[str, Any] = json_safe(document)
        return safe

    def _not_reproduced(self, repeated: RepeatedStep, replayed: ReplayedRun) -> StepFinding | None:
        """The finding if the step gave another result when it was repeated."""
        is_exact = replayed.context.device.kind == "cpu"
        if not repeated.is_reproducible(is_exact=is_exact):
            return not_reproducible(
                "The step was run twice from the same state, and the results differ: "
                f"{repeated.describe()}."
            )
        differences = _recorded_differences(self._record.values, repeated.block)
        if "skipped" in differences or (differences and is_exact and not repeated.differences):
            values = self._record.values or {}
            shown = ", ".join(
                f"{name} was {values[name]!r} and is {row_value(repeated.block, name)!r}"
                for name in differences
            )
            same_machine = (
                "Run again on this machine, the step gave the same result twice, but not the one "
                f"that was recorded: {shown}."
            )
            return not_reproducible(same_machine)
        return None


def _kind(block: StepBlock, spikes: list[Event]) -> StepKind:
    if block["skipped"][0]:
        return StepKind.SKIP
    if not np.isfinite(block["loss"][0]):
        return StepKind.NONFINITE_LOSS
    if not np.isfinite(block["grad_norm"][0]):
        return StepKind.NONFINITE_GRADIENTS
    types = {event.type for event in spikes}
    if EventType.LOSS_SPIKE in types:
        return StepKind.LOSS_SPIKE
    return StepKind.GRAD_NORM_JUMP if types else StepKind.NORMAL


def _recorded_differences(values: Mapping[str, Any] | None, block: StepBlock) -> list[str]:
    """The names of the recorded values that are not those of the repeated step, bit for bit."""
    recorded_values = {name: values.get(name) for name in RECORDED} if values is not None else {}
    return [
        name
        for name, value in recorded_values.items()
        if value is not None
        and not np.array_equal(np.float32(value), np.float32(block[name][0]), equal_nan=True)
    ]
