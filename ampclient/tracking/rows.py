"""Collects the rows of a run, and encodes them as blocks of steps."""

import math
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from ampclient.tracking.entries import PendingEntry, event_entry, steps_entry
from ampclient.tracking.row_values import LOGGED_STEP, Row
from ampspec.telemetry import COLUMN_DTYPES, StepBlock
from ampspec.telemetry.scale_events import scale_events
from ampspec.telemetry.scale_health import ScaleBounds, ScaleHealth, ScaleHealthMonitor
from ampspec.telemetry.steps.block import missing_column

MAX_ROWS: Final = 4096
"""Rows of a block; a program that is faster than the sender encodes them itself."""
ALWAYS: Final = ("loss", "loss_scale", "skipped", "step_time_s", "examples")
"""Columns of every block."""
OPEN_S: Final = 15.0
"""How long columns can be added to a row before it is sent: a program that is killed, or that logs
a row in an hour, must not keep its last one for itself."""
SCALE_COLUMNS: Final = ("loss_scale", "skipped")
UNKNOWN_BOUNDS: Final = ScaleBounds(minimum=0.0, maximum=math.inf)
"""For a scale whose limits are not known: it is never reported at one of them."""


class RowBuffer:
    """The rows that are not encoded yet; `add` and `encode` may run in different threads.

    Steps keep the numbers that the program gives them, and ascend. A row with the number of the
    row before adds its columns to that; so the last row of a program that numbers its steps is
    kept until the next one, at most for `OPEN_S`. A row whose number is not above the last one, and
    which cannot be added to it, is numbered on, and has its number in the column `logged_step`.

    Args:
        clock: Returns seconds since any fixed time.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.on_block: Callable[[StepBlock, Sequence[float]], object] | None = None
        """Called with each block, and when each of its rows was logged."""
        self.knows_scale = False
        """Whether the program has given a loss scale, or its bounds."""
        self._clock, self._opened_at = clock, 0.0
        self.next_step: int = 0
        """The number of the next row, if the program gives it none."""
        self.renumbered = 0
        """How many rows have another number than the program gave them."""
        self._rows: list[Row] = []
        self._steps: list[int] = []
        self._times: list[float] = []
        """When each row was logged, in seconds of the Unix epoch."""
        self._open_step: float | None = None
        """The number that the program gave to the last row, to which columns can be added."""
        self._scale = 1.0
        self._lock = threading.Lock()
        self._bounds: ScaleBounds | None = None
        self._has_bounds = False
        self._monitor = ScaleHealthMonitor(UNKNOWN_BOUNDS)
        self._first_scale: float | None = None
        self._scale_has_changed = False
        self._last: list[StepBlock] = []
        """The last row, if its events are still to come."""

    def add(self, step: int | None, row: Row, logged_step: float | None = None) -> bool:
        """Append a row, or add its columns to the last one; True if the buffer should be encoded.

        Args:
            step: The number of the step; None: the next one.
            row: Its columns. A row without a loss scale has that of the row before.
            logged_step: The number that the program gave it, if no step can have that.
        """
        logged = logged_step if step is None else float(step)
        with self._lock:
            if logged is not None and logged == self._open_step and self._is_added(row):
                return False
            if logged is not None and (step is None or step < self.next_step):
                row[LOGGED_STEP] = logged
                self.renumbered += 1
                step = None
            number = self.next_step if step is None else step
            self.knows_scale |= "loss_scale" in row
            self._scale = row.setdefault("loss_scale", self._scale)
            self._rows.append(row)
            self._steps.append(number)
            self._times.append(time.time())
            self.next_step, self._open_step = number + 1, logged
            self._opened_at = self._clock()
            return len(self._rows) >= MAX_ROWS

    def _is_added(self, row: Row) -> bool:
        """Add the columns that the last row lacks, if the others are equal."""
        last = self._rows[-1]
        shared_names = [name for name in row if name in last and name != "step_time_s"]
        if len(shared_names) == len(row.keys() - {"step_time_s"}) or any(
            row[name] != last[name] for name in shared_names if name != "loss_scale"
        ):
            return False
        self.knows_scale |= "loss_scale" in row
        self._scale = row.get("loss_scale", self._scale)
        last |= {name: value for name, value in row.items() if name != "step_time_s"}
        return True

    def use_bounds(self, bounds: ScaleBounds | None) -> None:
        """Judge the scale by these bounds from now on; None: it does not change."""
        if bounds == self._bounds and self._has_bounds:
            return  # keep what was observed
        self._bounds, self._has_bounds, self.knows_scale = bounds, True, True
        self._monitor = ScaleHealthMonitor(bounds)

    def encode(self, *, is_last: bool = False) -> list[PendingEntry]:
        """The complete rows as a block, and the events of its skips and of its loss scale.

        The event of a skip names the scale after it, so that of the last row comes with the next
        block. Call it from one thread at a time.
        """
        with self._lock:
            if is_last or self._clock() - self._opened_at >= OPEN_S:
                self._open_step = None
            complete = len(self._rows) - (self._open_step is not None)
            rows, self._rows = self._rows[:complete], self._rows[complete:]
            steps, self._steps = self._steps[:complete], self._steps[complete:]
            times, self._times = self._times[:complete], self._times[complete:]
        if not rows:
            return []
        block = StepBlock(steps[0], _columns(rows), steps)
        if self.on_block is not None:
            self.on_block(block, times)
        entries = [steps_entry(block, self._health(block))]
        waiting = StepBlock.concat([*self._last, block.select(SCALE_COLUMNS)])
        last = block.end_step - 1
        self._last = [waiting.between(last, block.end_step)]
        scale = float(block["loss_scale"][-1])
        return entries + _events(waiting.between(waiting.first_step, last), scale)

    def encode_last_events(self) -> list[PendingEntry]:
        """The events of the last row of the run, after which there is no scale."""
        entries = [entry for step in self._last for entry in _events(step, step["loss_scale"][0])]
        self._last = []
        return entries

    def _health(self, block: StepBlock) -> str | None:
        self._monitor.observe(block)
        scales = block["loss_scale"]
        if self._first_scale is None:
            self._first_scale = float(scales[0])
        self._scale_has_changed |= bool((scales != self._first_scale).any())
        if not self.knows_scale:
            return None
        if self._bounds is None and not self._scale_has_changed:
            return ScaleHealth.FIXED
        return self._monitor.current


def _events(block: StepBlock, next_scale: float) -> list[PendingEntry]:
    events = scale_events(block, {"model": next_scale}) if len(block) else ()
    return [event_entry(event.type, event.data, event.step) for event in events]


def _columns(rows: Sequence[Row]) -> dict[str, Any]:
    """The columns of the rows; a value that a row lacks is an empty cell."""
    names = dict.fromkeys((*ALWAYS, *(name for row in rows for name in row)))
    columns = {}
    for name in names:
        column = missing_column(name, len(rows))
        with np.errstate(over="ignore"):  # a number beyond float32 becomes an infinity
            for index, row in enumerate(rows):
                if name in row:
                    column[index] = row[name]
        columns[name] = column
    ordered = [*(name for name in COLUMN_DTYPES if name in columns), *columns]
    return {name: columns[name] for name in dict.fromkeys(ordered)}
