"""Passes a run's blocks and events to its callbacks, in order; small blocks are merged."""

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from ampspec.telemetry import Event, StepBlock
from ampspec.telemetry.activities import Activity

OnBlock = Callable[[StepBlock], object]
OnEvent = Callable[[Event], object]
OnActivity = Callable[[Activity], object]

FLUSH_INTERVAL_S: Final = 0.2
"""The minimum time between two calls with blocks; blocks in between are merged."""


class CallbackBuffer:
    """Buffers blocks, except for the first one; the user of the buffer calls `flush` at the end."""

    def __init__(
        self,
        on_block: OnBlock | None,
        on_event: OnEvent | None,
        on_activity: OnActivity | None = None,
    ) -> None:
        self.activity = on_activity or _ignore
        """Called with what the run does from now on, at once: it is no part of its results."""
        self._on_block = on_block or _ignore
        self._on_event = on_event or _ignore
        self._blocks: list[StepBlock] = []
        self._events: list[Event] = []
        self._flushed_at = -math.inf

    @contextmanager
    def during(self, activity: Activity) -> Iterator[None]:
        """Report that the run does this inside, and that it trains afterwards."""
        self.activity(activity)
        try:
            yield
        finally:
            self.activity(Activity.TRAINING)

    def event(self, event: Event) -> None:
        """Pass on an event, after the buffered blocks."""
        self._events.append(event)
        if not self._blocks:
            self.flush()

    def block(self, block: StepBlock) -> None:
        """Pass on a block, now or with later ones."""
        self._blocks.append(block)
        if time.monotonic() - self._flushed_at >= FLUSH_INTERVAL_S:
            self.flush()
            self._flushed_at = time.monotonic()

    def flush(self) -> None:
        """Pass on what is buffered: the merged blocks, then the events in order."""
        blocks, self._blocks = self._blocks, []
        events, self._events = self._events, []
        if blocks:
            self._on_block(StepBlock.concat(blocks))
        for event in events:
            self._on_event(event)


def _ignore(_: object) -> None:
    """The default callback, which does nothing."""
