"""WriteBuffer: a bounded, ordered queue of pending database writes, taken in batches."""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from sqlalchemy.orm import Session

from store.telemetry.ingest import TelemetryEntry
from worker.context import BUFFER_BYTES

BATCH_BYTES: Final = 4 * 2**20
BATCH_ITEMS: Final = 500

Transaction = Callable[[Session], object]
"""Runs in a separate transaction, in its place among the entries."""


@dataclass(frozen=True)
class PendingWrite:
    """A queued write, and since when it waits (monotonic clock)."""

    item: TelemetryEntry | Transaction
    size_bytes: int
    since: float = field(default_factory=time.monotonic)

    @property
    def is_transaction(self) -> bool:
        """Whether it runs in a separate transaction."""
        return callable(self.item)


class WriteBuffer:
    """A queue between the slot's thread and the writer's thread, as queue.Queue but in batches."""

    def __init__(self, capacity_bytes: int = BUFFER_BYTES) -> None:
        self._capacity_bytes = capacity_bytes
        self._pending: deque[PendingWrite] = deque()
        self._bytes = self._in_flight_bytes = 0
        self._has_batch_in_flight = self._is_closing = self._is_discarded = False
        self._changed = threading.Condition()

    @property
    def has_room(self) -> bool:
        """Whether the reader should continue; `put` itself never blocks or fails."""
        return self._bytes < self._capacity_bytes

    def put(self, items: Iterable[PendingWrite]) -> None:
        """Append writes; ignored after `discard`."""
        with self._changed:
            if not self._is_discarded:
                for pending in items:
                    self._pending.append(pending)
                    self._bytes += pending.size_bytes
                self._changed.notify_all()

    def take_batch(self, timeout_s: float) -> list[PendingWrite] | None:
        """The writes of the next transaction; empty after the timeout, None at the end.

        They count as pending until `batch_done` is called.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._pending or self._is_closing, timeout_s)
            if self._is_closing and not self._pending:
                return None
            batch: list[PendingWrite] = []
            size_bytes = 0
            while self._pending and size_bytes < BATCH_BYTES and len(batch) < BATCH_ITEMS:
                if batch and (batch[0].is_transaction or self._pending[0].is_transaction):
                    break
                batch.append(self._pending.popleft())
                size_bytes += batch[-1].size_bytes
            self._in_flight_bytes = size_bytes
            self._has_batch_in_flight = bool(batch)
            return batch

    def batch_done(self) -> None:
        """Mark the taken batch as committed."""
        with self._changed:
            self._bytes -= self._in_flight_bytes
            self._in_flight_bytes, self._has_batch_in_flight = 0, False
            self._changed.notify_all()

    def wait_for_room(self, timeout_s: float) -> None:
        """Return when there is room, or after the timeout."""
        with self._changed:
            self._changed.wait_for(lambda: self.has_room, timeout_s)

    def wait_until_empty(self, timeout_s: float) -> bool:
        """Wait until everything is committed; False when the timeout elapses first."""
        with self._changed:
            return self._changed.wait_for(
                lambda: not (self._pending or self._has_batch_in_flight), timeout_s
            )

    def close(self) -> None:
        """Accept no more writes: `take_batch` returns None once everything is taken."""
        with self._changed:
            self._is_closing = True
            self._changed.notify_all()

    def discard(self) -> None:
        """Drop pending writes and ignore later ones."""
        with self._changed:
            self._is_discarded = True
            self._pending.clear()
            self._bytes, self._has_batch_in_flight = 0, False
            self._changed.notify_all()
