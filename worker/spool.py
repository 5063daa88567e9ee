"""What waits in memory for the database: in order, in batches, and no more than there is room."""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from sqlalchemy.orm import Session

from store.ingest import Entry

ROOM_BYTES: Final = 64 * 2**20
BATCH_BYTES: Final = 4 * 2**20
BATCH_ITEMS: Final = 500

Act = Callable[[Session], object]
"""A transaction of its own, in its place among the entries."""


@dataclass(frozen=True)
class Waiting:
    """Something that waits, and since when."""

    item: Entry | Act
    size_bytes: int
    since: float = field(default_factory=time.monotonic)

    @property
    def is_act(self) -> bool:
        """Whether it is a transaction of its own."""
        return callable(self.item)


class Spool:
    """Between the thread that puts in and the one that takes out."""

    def __init__(self, room_bytes: int = ROOM_BYTES) -> None:
        self._room_bytes = room_bytes
        self._waiting: deque[Waiting] = deque()
        self._bytes = self._taken = 0
        self._is_out = self._is_closing = self._is_shut = False
        self._changed = threading.Condition()

    @property
    def has_room(self) -> bool:
        """Whether more may be put in; what must be put in always can."""
        return self._bytes < self._room_bytes

    def put(self, things: Iterable[Waiting]) -> None:
        """Put something in, behind all that waits; into one that is shut nothing goes."""
        with self._changed:
            if not self._is_shut:
                for waiting in things:
                    self._waiting.append(waiting)
                    self._bytes += waiting.size_bytes
                self._changed.notify_all()

    def take(self, timeout_s: float) -> list[Waiting] | None:
        """What belongs into the next transaction; empty when nothing came, None at the end.

        It counts as waiting until `done` is called.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._is_closing, timeout_s)
            if self._is_closing and not self._waiting:
                return None
            batch: list[Waiting] = []
            size_bytes = 0
            while self._waiting and size_bytes < BATCH_BYTES and len(batch) < BATCH_ITEMS:
                if batch and (batch[0].is_act or self._waiting[0].is_act):
                    break
                batch.append(self._waiting.popleft())
                size_bytes += batch[-1].size_bytes
            self._taken = size_bytes
            self._is_out = bool(batch)
            return batch

    def done(self) -> None:
        """What was taken is committed."""
        with self._changed:
            self._bytes -= self._taken
            self._taken, self._is_out = 0, False
            self._changed.notify_all()

    def wait_for_room(self, timeout_s: float) -> None:
        """Return when more may be put in, or after that time."""
        with self._changed:
            self._changed.wait_for(lambda: self.has_room, timeout_s)

    def drained(self, timeout_s: float) -> bool:
        """Wait for all that was put in to be done; False when it is not, after that time."""
        with self._changed:
            return self._changed.wait_for(lambda: not (self._waiting or self._is_out), timeout_s)

    def close(self) -> None:
        """Nothing more will be put in: `take` returns None once all is taken."""
        with self._changed:
            self._is_closing = True
            self._changed.notify_all()

    def shut(self) -> None:
        """Throw away what waits, and whatever comes."""
        with self._changed:
            self._is_shut = True
            self._waiting.clear()
            self._bytes, self._is_out = 0, False
            self._changed.notify_all()
