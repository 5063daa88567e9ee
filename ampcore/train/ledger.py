"""The ledger of one run: passes blocks and events on as they come, and adds the blocks up."""

import math
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, Final

import numpy as np

from ampcore.series import Event, EventType, StepBlock
from ampcore.train.evaluate import Evaluation
from ampcore.train.report import scale_events, warning

OnBlock = Callable[[StepBlock], object]
OnEvent = Callable[[Event], object]


EVERY_S: Final = 0.2
"""Short epochs make many small blocks; they are passed on together, not oftener than this."""


class Ledger:
    """What has happened so far; `final_loss` and `evaluation` are the newest ones.

    The first block is passed on at once; whoever fills a ledger flushes it at the end.
    """

    def __init__(self, on_block: OnBlock | None, on_event: OnEvent | None) -> None:
        self._on_block = on_block or _ignore
        self._on_event = on_event or _ignore
        self._blocks: list[StepBlock] = []
        self._events: list[Event] = []
        self._flushed_at = -math.inf
        self.steps = 0
        self.skipped = 0
        self.final_loss = math.nan
        self.evaluation: Evaluation | None = None
        self._first: StepBlock | None = None
        self._examples, self._seconds = 0, 0.0
        self._applied_non_finite = False

    @property
    def examples_per_s(self) -> float:
        """Throughput without the first block, which holds the compilation, unless it is alone."""
        if self._seconds > 0:
            return self._examples / self._seconds
        return self._first.examples_per_s if self._first is not None else 0.0

    def add_event(self, event: Event) -> None:
        """Pass an event on, behind the blocks that wait."""
        self._events.append(event)
        if not self._blocks:
            self.flush()

    def add_block(self, block: StepBlock, next_scale: float) -> None:
        """Pass a block on, then the events in it; `next_scale` is the scale after it."""
        self._count(block)
        self._blocks.append(block)
        self._events += scale_events(block, next_scale)
        self._warn_of_damage(block)
        if time.monotonic() - self._flushed_at >= EVERY_S:
            self.flush()
            self._flushed_at = time.monotonic()

    def flush(self) -> None:
        """Pass on what waits: the blocks as one, then the events in order."""
        blocks, self._blocks = self._blocks, []
        events, self._events = self._events, []
        if blocks:
            self._on_block(StepBlock.concat(blocks))
        for event in events:
            self._on_event(event)

    def add_evaluation(self, evaluation: Evaluation) -> None:
        """Keep the evaluation after the steps so far, and pass it on."""
        self.evaluation = evaluation
        self.add_event(Event(EventType.EVALUATION, self.steps - 1, asdict(evaluation)))

    def summary(self) -> dict[str, Any]:
        """What the ledger knows of a TrainResult."""
        evaluation = self.evaluation
        return {
            "steps": self.steps,
            "skipped": self.skipped,
            "final_loss": self.final_loss,
            "val_loss": evaluation.val_loss if evaluation else None,
            "val_accuracy": evaluation.val_accuracy if evaluation else None,
            "examples_per_s": self.examples_per_s,
        }

    def _count(self, block: StepBlock) -> None:
        self.steps = block.end_step
        self.skipped += int(block["skipped"].sum())
        self.final_loss = float(block["loss"][-1])
        if self._first is None:
            self._first = block
        else:
            self._examples += int(block["examples"].sum())
            self._seconds += float(block["step_time_s"].sum(dtype=np.float64))

    def _warn_of_damage(self, block: StepBlock) -> None:
        """Warn once when a step with a loss that is not finite was applied all the same."""
        damaged = ~np.isfinite(block["loss"]) & ~block["skipped"]
        if damaged.any() and not self._applied_non_finite:
            self._applied_non_finite = True
            message = "The loss is not finite, and without a finite check the step was applied."
            step = block.first_step + int(damaged.argmax())
            self.add_event(warning("non_finite_loss", message, step))


def _ignore(_: object) -> None:
    """The callback of somebody who does not want to know."""
