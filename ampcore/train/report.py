"""From the loop's rows to what a run tells: blocks of steps, and the events in them."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ampcore.series import Event, EventType, StepBlock
from ampcore.series.block import COLUMNS

MAX_EVENTS: Final = 100
"""Scale events of one block; its `skipped` and `loss_scale` columns tell the rest."""

LOSS_SCALE: Final = "loss_scale"

Verdicts = Mapping[int, Mapping[str, Any]]
"""By step, what is known about the cause of an overflow."""


def step_block(
    first_step: int,
    columns: Sequence[str],
    rows: NDArray[np.float32],
    seconds: float,
    examples: int,
) -> StepBlock:
    """The block of steps that took `seconds` together; one row a step, `examples` in each."""
    count = len(rows)
    values = {name: rows[:, index] for index, name in enumerate(columns)}
    shared = {
        "step_time_s": np.full(count, seconds / count),
        "examples": np.full(count, examples),
    }
    return StepBlock(first_step, {name: (values | shared)[name] for name in _ordered(columns)})


def _ordered(columns: Sequence[str]) -> list[str]:
    """The columns of every block first, then the extras."""
    return [*COLUMNS, *(name for name in columns if name not in COLUMNS)]


def scale_events(
    block: StepBlock, next_scales: Mapping[str, float], verdicts: Verdicts | None = None
) -> Iterator[Event]:
    """An event for each skipped step and each growth of a loss scale, at most MAX_EVENTS.

    `next_scales` are the scales of the step after the block, by network.
    """
    events = _scale_events(block, next_scales, verdicts or {})
    yield from islice(events, MAX_EVENTS)
    if left := sum(1 for _ in events):
        last = block.end_step - 1
        message = f"{left} more skips and growths up to step {last} have no event of their own."
        yield warning("events_left_out", message, last)


def _scale_events(
    block: StepBlock, next_scales: Mapping[str, float], verdicts: Verdicts
) -> Iterator[Event]:
    columns = scale_columns(block, next_scales)
    scales = {
        name: (before, np.append(before[1:], np.float32(next_scales[name])))
        for name, before in columns.items()
    }
    grown = {name: after > before for name, (before, after) in scales.items()}
    skipped = block["skipped"]
    before, after = (np.min([pair[side] for pair in scales.values()], axis=0) for side in (0, 1))
    for index in np.flatnonzero(skipped | np.any(list(grown.values()), axis=0)):
        step = block.first_step + int(index)
        if skipped[index]:
            facts: dict[str, Any] = _change(before, after, index)
            if len(scales) > 1:
                facts["networks"] = {name: _change(*pair, index) for name, pair in scales.items()}
            if "bad_micro_batches" in block:
                facts["bad_micro_batches"] = int(block["bad_micro_batches"][index])
            yield Event(EventType.OVERFLOW, step, facts | dict(verdicts.get(step, {})))
        for name, pair in scales.items():
            if grown[name][index]:
                own = {"network": name} if len(scales) > 1 else {}
                yield Event(EventType.SCALE_GROWTH, step, _change(*pair, index) | own)


def scale_columns(block: StepBlock, networks: Collection[str]) -> dict[str, NDArray[np.float32]]:
    """The loss scale of each step, by network."""
    alone = len(networks) == 1
    return {name: block[LOSS_SCALE if alone else f"{LOSS_SCALE}/{name}"] for name in networks}


def _change(
    before: NDArray[np.float32], after: NDArray[np.float32], index: np.intp
) -> dict[str, Any]:
    return {"scale_before": float(before[index]), "scale_after": float(after[index])}


def warning(code: str, message: str, step: int | None = None) -> Event:
    """A warning for people (`message`) and programs (`code`)."""
    return Event(EventType.WARNING, step, {"code": code, "message": message})
