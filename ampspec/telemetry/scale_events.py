"""The events of a block of steps: its skipped steps, and the growth of its loss scales."""

from collections.abc import Collection, Iterator, Mapping
from itertools import islice
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ampspec.telemetry.events import Event, EventType
from ampspec.telemetry.steps.block import StepBlock

MAX_EVENTS: Final = 100
"""Maximum number of scale events per block; its columns contain all skips and scales."""

LOSS_SCALE: Final = "loss_scale"
NONFINITE_MICRO_BATCHES: Final = "nonfinite_micro_batches"
"""A column of runs with accumulation; version 0.5 wrote `bad_micro_batches`."""

OverflowCauses = Mapping[int, Mapping[str, Any]]
"""By step: the data of its overflow event about the cause."""


def scale_events(
    block: StepBlock,
    next_scales: Mapping[str, float],
    overflow_causes: OverflowCauses | None = None,
) -> Iterator[Event]:
    """An event for each skipped step and each growth of a loss scale, at most MAX_EVENTS.

    `next_scales` are the scales of the step after the block, by network.
    """
    events = _scale_events(block, next_scales, overflow_causes or {})
    yield from islice(events, MAX_EVENTS)
    if dropped := sum(1 for _ in events):
        last = block.end_step - 1
        message = f"{dropped} more skips and loss-scale increases up to step {last} have no events."
        yield Event.warning("events_left_out", message, last)


def _scale_events(
    block: StepBlock, next_scales: Mapping[str, float], overflow_causes: OverflowCauses
) -> Iterator[Event]:
    columns = scale_columns(block, next_scales)
    scales = {
        name: (scales_before, np.append(scales_before[1:], np.float32(next_scales[name])))
        for name, scales_before in columns.items()
    }
    grown = {
        name: scales_after > scales_before for name, (scales_before, scales_after) in scales.items()
    }
    skipped = block["skipped"]
    scales_before, scales_after = (
        np.min([pair[side] for pair in scales.values()], axis=0) for side in (0, 1)
    )
    for index in np.flatnonzero(skipped | np.any(list(grown.values()), axis=0)):
        step = int(block["step"][index])
        if skipped[index]:
            change: dict[str, Any] = _scale_change(scales_before, scales_after, index)
            if len(scales) > 1:
                change["networks"] = {
                    name: _scale_change(*pair, index) for name, pair in scales.items()
                }
            if NONFINITE_MICRO_BATCHES in block:
                change[NONFINITE_MICRO_BATCHES] = int(block[NONFINITE_MICRO_BATCHES][index])
            yield Event(EventType.OVERFLOW, step, change | dict(overflow_causes.get(step, {})))
        for name, pair in scales.items():
            if grown[name][index]:
                network = {"network": name} if len(scales) > 1 else {}
                yield Event(EventType.SCALE_GROWTH, step, _scale_change(*pair, index) | network)


def scale_columns(block: StepBlock, networks: Collection[str]) -> dict[str, NDArray[np.float32]]:
    """The loss scale of each step, by network."""
    single_network = len(networks) == 1
    return {
        name: block[LOSS_SCALE if single_network else f"{LOSS_SCALE}/{name}"] for name in networks
    }


def _scale_change(
    scales_before: NDArray[np.float32], scales_after: NDArray[np.float32], index: np.intp
) -> dict[str, Any]:
    return {"scale_before": float(scales_before[index]), "scale_after": float(scales_after[index])}
