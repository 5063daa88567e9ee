"""The sums over a run's blocks: steps, skips, losses, throughput; stored in checkpoints."""

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ampcore.training.evaluation.evaluate import Evaluation
from ampspec.telemetry import Event, EventType, StepBlock


@dataclass
class Epoch:
    """The sums of one epoch; its loss is the mean over the applied steps."""

    loss_sum: float = 0.0
    steps: int = 0
    skipped: int = 0

    def add(self, block: StepBlock) -> None:
        """Count the steps of a block of this epoch."""
        applied = ~block["skipped"]
        self.loss_sum += float(block["loss"][applied].sum(dtype=np.float64))
        self.steps += int(applied.sum())
        self.skipped += len(block) - int(applied.sum())

    @property
    def mean_loss(self) -> float:
        """The mean over the applied steps; NaN without any."""
        return self.loss_sum / self.steps if self.steps else math.nan

    def event(self, index: int, last_step: int) -> Event:
        """The event of the epoch; `loss` is the mean over the applied steps, NaN without any."""
        data = {
            "epoch": index,
            "loss": self.mean_loss,
            "steps": self.steps,
            "skipped": self.skipped,
        }
        return Event(EventType.EPOCH, last_step, data)


@dataclass
class Totals:
    """The sums of a run; `final_loss` is that of the last applied step, NaN before the first."""

    steps: int = 0
    skipped: int = 0
    first_skips: int = 0
    """The skipped steps before the first applied one, while a loss scale backs off."""
    final_loss: float = math.nan
    examples: int = 0
    seconds: float = 0.0
    first_examples_per_s: float = 0.0
    """The throughput of the first block, whose time includes compilation; in neither sum."""
    epoch: Epoch = field(default_factory=Epoch)
    """The current epoch."""
    evaluation: dict[str, float] = field(default_factory=dict)
    """The last evaluation, by metric."""

    @property
    def examples_per_s(self) -> float:
        """Throughput without the first block, unless there is no other."""
        return self.examples / self.seconds if self.seconds > 0 else self.first_examples_per_s

    def add(self, block: StepBlock, *, is_warm: bool) -> None:
        """Count a block; the time of one that is not `is_warm` includes a compilation."""
        self.steps = block.end_step
        applied = np.flatnonzero(~block["skipped"])
        if self.first_skips == block.first_step:
            self.first_skips += int(applied[0]) if len(applied) else len(block)
        self.skipped += int(block["skipped"].sum())
        self.epoch.add(block)
        if len(applied):
            self.final_loss = float(block["loss"][applied[-1]])
        if is_warm:
            self.examples += int(block["examples"].sum())
            self.seconds += float(block["step_time_s"].sum(dtype=np.float64))
        else:
            self.first_examples_per_s = block.examples_per_s

    def close_epoch(self, index: int) -> Event:
        """The event of the epoch that has ended; the next one begins."""
        event = self.epoch.event(index, self.steps - 1)
        self.epoch = Epoch()
        return event

    def keep(self, evaluation: Evaluation, *, is_best: bool = False) -> Event:
        """Keep the evaluation after the steps so far; returns its event.

        The event has `best: true` if the evaluation is better than all before it.
        """
        self.evaluation = dict(evaluation)
        data: dict[str, Any] = {**evaluation, **({"best": True} if is_best else {})}
        return Event(EventType.EVALUATION, self.steps - 1, data)
