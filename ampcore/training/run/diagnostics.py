"""Diagnostics of a run: causes of skipped steps, health and choice of loss scales, and ranges."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from ampcore.data import Batch
from ampcore.diagnostics.ranges.range_probe import RangeProbe
from ampcore.diagnostics.ranges.range_sampler import RangeSampler
from ampcore.diagnostics.ranges.scale_table import ScaleTable
from ampcore.diagnostics.steps.overflow import OverflowDiagnostics
from ampcore.diagnostics.steps.probe import Measured
from ampcore.diagnostics.steps.replay import Replay
from ampcore.diagnostics.steps.skipped_step import BatchPosition, SkippedStep
from ampcore.diagnostics.steps.step_diagnosis import StepValues
from ampcore.training.context import RunContext
from ampcore.training.run.diagnosis_context import step_context
from ampcore.training.step.step_runner import StepRunner
from ampspec.telemetry import Event, EventType, StepBlock
from ampspec.telemetry.anomalies import SpikeDetector
from ampspec.telemetry.scale_events import OverflowCauses, scale_columns
from ampspec.telemetry.scale_health import ScaleBounds, ScaleHealth, ScaleHealthMonitor
from ampspec.training.telemetry import RangeSampling


class RunDiagnostics:
    """Monitors the steps of a run; between samples, those not skipped cost next to nothing.

    Args:
        context: The run. If steps are repeated, nothing is done that repeats steps itself:
            explanations and samples. Of several ranks only the first one takes samples.
        runner: Trains its steps.
    """

    def __init__(self, context: RunContext, runner: StepRunner) -> None:
        self._context, self._runner = context, runner
        replay = Replay(
            runner.local_task,
            runner.train_step.loss_scales,
            runner.train_step.accumulate,
            runner.train_step.shard,
        )
        self._overflow_causes = OverflowDiagnostics(replay)
        has_float16 = "float16" in runner.policies.compute_dtypes
        samples = context.communicator.rank == 0 and not context.is_replay
        self._scale_table = ScaleTable(replay) if has_float16 and samples else None
        self._spikes = SpikeDetector()
        self.at_start: Measured | None = None
        """Loss and gradient norm of the first step of the run with a finite loss, whose weights
        were untrained; None before it."""
        self._has_applied = False
        probe = RangeProbe(runner.local_task, runner.train_step.accumulate)
        sampling = context.spec.telemetry.ranges if samples else RangeSampling(enabled=False)
        self._ranges = RangeSampler(probe, sampling, context.plan.total_steps)
        is_multi_network = len(runner.networks) > 1
        self._scale_health = {
            network.name: ScaleHealthMonitor(
                ScaleBounds.of(scale), network.name if is_multi_network else None
            )
            for network, scale in zip(runner.networks, runner.train_step.loss_scales, strict=True)
        }

    @property
    def explains_next_skip(self) -> bool:
        """Whether the next skip is explained, which requires the state of that step."""
        may_explain = self._runner.train_step.checks_finite and not self._context.is_replay
        return may_explain and self._overflow_causes.is_due

    def steps_until_sample(self, step: int) -> int | None:
        """The maximum number of steps in the next block; None: any."""
        return self._ranges.steps_until_due(step)

    def is_sample_due(self, step: int) -> bool:
        """Whether `before_block` measures something, which pauses the training."""
        return self._samples_table(step) or self._ranges.is_due(step)

    def before_block(self, step: int) -> Iterator[Event]:
        """Sample the gradients and the ranges of the next step, where a sample is due.

        Returns:
            The sample as an event, or a warning that nothing more is sampled.
        """
        table = self._scale_table if self._samples_table(step) else None
        if self._fetches_rows(is_due=table is not None or self._ranges.is_due(step)):
            batch, _ = self._runner.step_inputs(step)
            self._runner.local_task.fetch_rows(batch)
        if table is not None:
            scales = list(self._runner.state.scale_by_network.values())
            table.sample(step, scales, *self._runner.step_inputs(step))
        if self._ranges.is_due(step):
            yield self._sample_ranges(step)

    def after_block(self, block: StepBlock, *, stopped_at_skip: bool) -> OverflowCauses:
        """Observe a block, and explain its last step if the block stopped at a skip."""
        self._ranges.observe(block)
        self._observe_start(block)
        causes: dict[int, dict[str, Any]] = {}
        last = block.end_step - 1
        if stopped_at_skip and block["skipped"][-1]:
            scales = [
                float(column[-1]) for column in scale_columns(block, self._scale_health).values()
            ]
            batch, seed = self._runner.step_inputs(last)
            self._runner.local_task.fetch_rows(batch)
            causes[last] = self._explain_skip(block, scales, batch, seed)
        self._overflow_causes.observe(int(block["skipped"].sum()))
        for health in self._scale_health.values():
            health.observe(block)
        return causes

    def spikes(self, block: StepBlock) -> Iterator[Event]:
        """The events of a block's loss spikes and gradient-norm jumps; call it once a block."""
        return self._spikes.observe(block)

    @property
    def scale_health(self) -> str:
        """The health of the loss scale; of several, of the first that is not steady or fixed."""
        states = [health.current for health in self._scale_health.values()]
        unhealthy = (
            current for current in states if current not in (ScaleHealth.STEADY, ScaleHealth.FIXED)
        )
        return next(unhealthy, states[0])

    def scale_table(self, step: int) -> Event | None:
        """The loss-scale table: underflow and overflow at each scale; None without samples."""
        facts = self._scale_table.event_data() if self._scale_table is not None else None
        return Event(EventType.SCALE_TABLE, step, facts) if facts else None

    def to_json(self) -> dict[str, Any]:
        """The counters, for a checkpoint."""
        return {
            "overflow_causes": self._overflow_causes.to_json(),
            "table": self._scale_table.to_json() if self._scale_table is not None else None,
            "ranges": self._ranges.to_json(),
            "health": {name: health.to_json() for name, health in self._scale_health.items()},
            "spikes": self._spikes.to_json(),
            "at_start": self.at_start.to_json() if self.at_start is not None else None,
            "has_applied": self._has_applied,
        }

    def restore(self, document: Mapping[str, Any]) -> None:
        """Restore the counters that `to_json` wrote, as far as this precision has them.

        Counters that another version did not write start from the beginning.
        """
        # Version 0.5 wrote "verdicts".
        causes = document.get("overflow_causes") or document.get("verdicts") or {}
        self._overflow_causes.restore(causes)
        if self._scale_table is not None:
            self._scale_table.restore(document.get("table") or {})
        self._ranges.restore(document.get("ranges") or {})
        self._spikes.restore(document.get("spikes") or {})
        at_start = document.get("at_start")
        self.at_start = Measured(**at_start) if at_start else None
        # A checkpoint of an earlier version has no first loss, and later ones are not it.
        self._has_applied = document.get("has_applied", True)
        health_by_name = document.get("health") or {}
        for name, health in self._scale_health.items():
            health.restore(health_by_name.get(name) or {})

    def _samples_table(self, step: int) -> bool:
        return self._scale_table is not None and self._scale_table.is_due(step)

    def _fetches_rows(self, *, is_due: bool) -> bool:
        """Whether a sample of the first rank needs rows of the others: the same on all."""
        runner = self._runner
        return bool(runner.tables.shards) and bool(runner.communicator.broadcast_object(is_due))

    def _sample_ranges(self, step: int) -> Event:
        scales = list(self._runner.state.scale_by_network.values())
        sample = self._ranges.sample(step, scales, *self._runner.step_inputs(step))
        if sample is not None:
            return Event(EventType.RANGES, step, sample.to_json())
        message = f"The ranges of the layers are no longer sampled: {self._ranges.error}"
        return Event.warning("ranges_not_sampled", message, step)

    def _explain_skip(
        self, block: StepBlock, scales: list[float], batch: Batch, seed: Any
    ) -> dict[str, Any]:
        """Explain the last step of a block."""
        runner, step = self._runner, block.end_step - 1
        position = BatchPosition(*runner.position(step), runner.example_indices(step))
        learning_rate = float(block["learning_rate"][-1])
        context = step_context(self._context, runner, step, learning_rate, self.at_start)
        values = StepValues(loss=float(block["loss"][-1]), grad_norm=float(block["grad_norm"][-1]))
        skipped = SkippedStep(scales, batch, seed, position)
        return self._overflow_causes.diagnose(skipped, context, values)

    def _observe_start(self, block: StepBlock) -> None:
        """Keep the loss of the first step, up to the first one that was applied."""
        if self._has_applied or self.at_start is not None:
            return
        applied = np.flatnonzero(~block["skipped"])
        untrained = int(applied[0]) + 1 if len(applied) else len(block)
        self._has_applied = bool(len(applied))
        finite = np.flatnonzero(np.isfinite(block["loss"][:untrained]))
        if len(finite):
            first = int(finite[0])
            loss, norm = float(block["loss"][first]), float(block["grad_norm"][first])
            self.at_start = Measured(loss, norm)
