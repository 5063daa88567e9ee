"""From the loop's rows to what a run tells: blocks of steps, and the events in them."""

from collections.abc import Iterator
from itertools import islice
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ampcore.series import Event, EventType, StepBlock
from ampcore.train.step import Record

MAX_EVENTS: Final = 100
"""Scale events of one block; its `skipped` and `loss_scale` columns tell the rest."""


def step_block(
    first_step: int, rows: NDArray[np.float32], seconds: float, batch_size: int
) -> StepBlock:
    """The block of steps that took `seconds` together; one row a step, in Record's order."""
    count = len(rows)
    values = {name: rows[:, index] for index, name in enumerate(Record._fields)}
    shared = {
        "step_time_s": np.full(count, seconds / count),
        "examples": np.full(count, batch_size),
    }
    return StepBlock(first_step, values | shared)


def scale_events(block: StepBlock, next_scale: float) -> Iterator[Event]:
    """An event for each skipped step and each growth of the loss scale, at most MAX_EVENTS.

    `next_scale` is the scale of the step after the block.
    """
    events = _scale_events(block, next_scale)
    yield from islice(events, MAX_EVENTS)
    if left := sum(1 for _ in events):
        last = block.end_step - 1
        message = f"{left} more skips and growths up to step {last} have no event of their own."
        yield warning("events_left_out", message, last)


def _scale_events(block: StepBlock, next_scale: float) -> Iterator[Event]:
    before = block["loss_scale"]
    after = np.append(before[1:], np.float32(next_scale))
    for index in np.flatnonzero(block["skipped"] | (after > before)):
        kind = EventType.OVERFLOW if block["skipped"][index] else EventType.SCALE_GROWTH
        scales = {"scale_before": float(before[index]), "scale_after": float(after[index])}
        yield Event(kind, block.first_step + int(index), scales)


def warning(code: str, message: str, step: int | None = None) -> Event:
    """A warning for people (`message`) and programs (`code`)."""
    return Event(EventType.WARNING, step, {"code": code, "message": message})
