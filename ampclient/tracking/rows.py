"""Collects the rows of a run, and encodes them as blocks of steps."""

import base64
import math
import threading
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from ampclient.tracking.outbox import ENTRY_OVERHEAD_BYTES, PendingEntry
from ampcore.telemetry import COLUMNS, StepBlock, array_codec
from ampcore.telemetry.block import missing_column
from ampcore.telemetry.scale_health import ScaleBounds, ScaleHealth, ScaleHealthMonitor

MAX_ROWS: Final = 4096
"""Rows of a block; a program that is faster than the sender encodes them itself."""
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

    def encode(self) -> PendingEntry | None:
        """The rows so far as one entry; None without any. Call it from one thread at a time."""
        with self._lock:
            rows, self._rows = self._rows, []
            first_step = self.next_step - len(rows)
        if not rows:
            return None
        block = StepBlock(first_step, _columns(rows))
        arrays = {name: block[name] for name in block.names}
        packed = base64.b64encode(array_codec.encode(arrays)).decode()
        document = {"type": "steps", "first_step": first_step, "packed": packed}
        document["scale_health"] = self._health(block)
        size_bytes = len(packed) + ENTRY_OVERHEAD_BYTES
        return PendingEntry(document, size_bytes, first_step, len(rows))

    def _health(self, block: StepBlock) -> str:
        self._monitor.observe(block)
        scales = block["loss_scale"]
        if self._first_scale is None:
            self._first_scale = float(scales[0])
        self._scale_has_changed |= bool((scales != self._first_scale).any())
        if self._bounds is None and not self._scale_has_changed:
            return ScaleHealth.FIXED
        return self._monitor.current


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
