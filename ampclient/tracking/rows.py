"""Collects the rows of a run, and encodes them as blocks of steps."""

import math
import threading
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from ampclient.tracking.entries import PendingEntry, event_entry, steps_entry
from ampcore.telemetry import COLUMNS, StepBlock
from ampcore.telemetry.block import missing_column
from ampcore.telemetry.scale_events import scale_events
from ampcore.telemetry.scale_health import ScaleBounds, ScaleHealth, ScaleHealthMonitor

MAX_ROWS: Final = 4096
"""Rows of a block; a program that is faster than the sender encodes them itself."""
SCALE_COLUMNS: Final = ("loss_scale", "skipped")
UNKNOWN_BOUNDS: Final = ScaleBounds(minimum=0.0, maximum=math.inf)
"""For a scale whose limits are not known: it is never reported at one of them."""

Row = Mapping[str, float]


class RowBuffer:
    """The rows that are not encoded yet; `add` and `encode` may run in different threads."""

    def __init__(self) -> None:
        self.next_step: int = 0
        """The number of the next row."""
        self._has_rows = False
        self._rows: list[Row] = []
        self._lock = threading.Lock()
        self._bounds: ScaleBounds | None = None
        self._has_bounds = False
        self._monitor = ScaleHealthMonitor(UNKNOWN_BOUNDS)
        self._first_scale: float | None = None
        self._scale_has_changed = False
        self._last: list[StepBlock] = []
        """The last row, if its events are still to come."""

    def add(self, step: int | None, row: dict[str, float]) -> bool:
        """Append a row; True if the buffer is full and should be encoded.

        The first row of a run has the number `step`; the rows after it are numbered on. A row that
        is given another number has it in the column `last_step`.
        """
        with self._lock:
            if not self._has_rows:
                self._has_rows = True
                self.next_step = step or 0
            if step is not None and step != self.next_step:
                row["last_step"] = step
            self.next_step += 1
            self._rows.append(row)
            return len(self._rows) >= MAX_ROWS

    def use_bounds(self, bounds: ScaleBounds | None) -> None:
        """Judge the scale by these bounds from now on; None: it does not change."""
        if bounds == self._bounds and self._has_bounds:
            return  # keep what was observed
        self._bounds, self._has_bounds = bounds, True
        self._monitor = ScaleHealthMonitor(bounds)

    def encode(self) -> list[PendingEntry]:
        """The rows so far as a block, and the events of its skips and of its loss scale.

        The event of a skip names the scale after it, so that of the last row comes with the next
        block. Call it from one thread at a time.
        """
        with self._lock:
            rows, self._rows = self._rows, []
            first_step = self.next_step - len(rows)
        if not rows:
            return []
        block = StepBlock(first_step, _columns(rows))
        known = [steps_entry(block, self._health(block))]
        waiting = StepBlock.concat([*self._last, block.select(SCALE_COLUMNS)])
        last = block.end_step - 1
        self._last = [waiting.between(last, block.end_step)]
        scale = float(block["loss_scale"][-1])
        return known + _events(waiting.between(waiting.first_step, last), scale)

    def encode_last_events(self) -> list[PendingEntry]:
        """The events of the last row of the run, after which there is no scale."""
        entries = [entry for step in self._last for entry in _events(step, step["loss_scale"][0])]
        self._last = []
        return entries

    def _health(self, block: StepBlock) -> str:
        self._monitor.observe(block)
        scales = block["loss_scale"]
        if self._first_scale is None:
            self._first_scale = float(scales[0])
        self._scale_has_changed |= bool((scales != self._first_scale).any())
        if self._bounds is None and not self._scale_has_changed:
            return ScaleHealth.FIXED
        return self._monitor.current


def _events(block: StepBlock, next_scale: float) -> list[PendingEntry]:
    found = scale_events(block, {"model": next_scale}) if len(block) else ()
    return [event_entry(event.type, event.data, event.step) for event in found]


def _columns(rows: Sequence[Row]) -> dict[str, Any]:
    """The columns of the rows; a value that a row lacks is `missing_column`."""
    names = dict.fromkeys(name for row in rows for name in row)
    columns = {}
    for name in names:
        column = missing_column(name, len(rows))
        with np.errstate(over="ignore"):  # a number beyond float32 becomes an infinity
            for index, row in enumerate(rows):
                if name in row:
                    column[index] = row[name]
        columns[name] = column
    ordered = [*(name for name in COLUMNS if name in columns), *columns]
    return {name: columns[name] for name in dict.fromkeys(ordered)}
