"""What a run's blocks add up to: steps, skips, losses, throughput; a checkpoint keeps them."""

import math
from dataclasses import dataclass, field

import numpy as np

from ampcore.series import Event, EventType, StepBlock
from ampcore.train.evaluate import Evaluation


@dataclass
class Epoch:
    """The applied steps of one epoch: skipped ones are counted, and not in its loss."""

    loss_sum: float = 0.0
    steps: int = 0
    skipped: int = 0

    def add(self, block: StepBlock) -> None:
        """Count the steps of a block of this epoch."""
        applied = ~block["skipped"]
        self.loss_sum += float(block["loss"][applied].sum(dtype=np.float64))
        self.steps += int(applied.sum())
        self.skipped += len(block) - int(applied.sum())

    def event(self, index: int, last_step: int) -> Event:
        """The epoch in the ledger; `loss` is the mean over the applied steps, NaN without any."""
        loss = self.loss_sum / self.steps if self.steps else math.nan
        facts = {"epoch": index, "loss": loss, "steps": self.steps, "skipped": self.skipped}
        return Event(EventType.EPOCH, last_step, facts)


@dataclass
class Totals:
    """`final_loss` is that of the newest step that was applied; NaN before the first."""

    steps: int = 0
    skipped: int = 0
    final_loss: float = math.nan
    examples: int = 0
    seconds: float = 0.0
    first_examples_per_s: float = 0.0
    """Of the first block, which holds the compilation and is in neither sum."""
    epoch: Epoch = field(default_factory=Epoch)
    """The epoch under way."""
    evaluation: dict[str, float] = field(default_factory=dict)
    """The newest one, by metric."""

    @property
    def examples_per_s(self) -> float:
        """Throughput without the first block, unless it is alone."""
        return self.examples / self.seconds if self.seconds > 0 else self.first_examples_per_s

    def add(self, block: StepBlock, *, warm: bool) -> None:
        """Count a block; one that is not `warm` holds a compilation, and its time says nothing."""
        self.steps = block.end_step
        self.skipped += int(block["skipped"].sum())
        self.epoch.add(block)
        applied = np.flatnonzero(~block["skipped"])
        if len(applied):
            self.final_loss = float(block["loss"][applied[-1]])
        if warm:
            self.examples += int(block["examples"].sum())
            self.seconds += float(block["step_time_s"].sum(dtype=np.float64))
        else:
            self.first_examples_per_s = block.examples_per_s

    def close_epoch(self, index: int) -> Event:
        """The event of the epoch that has ended; the next one begins."""
        event = self.epoch.event(index, self.steps - 1)
        self.epoch = Epoch()
        return event

    def keep(self, evaluation: Evaluation) -> Event:
        """Keep the evaluation after the steps so far; returns its event."""
        self.evaluation = dict(evaluation)
        return Event(EventType.EVALUATION, self.steps - 1, dict(evaluation))
