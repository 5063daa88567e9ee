"""The entries of a run that are not stored yet: in order, and bounded in bytes."""

import threading
from collections import deque
from dataclasses import dataclass, field
from typing import Final

from ampclient.tracking.entries import LoggedSteps, PendingEntry
from ampspec.api.runs import MAX_ENTRIES, MAX_STEPS, RunStatus

MAX_BATCH_BYTES: Final = 160_000
"""The size of the entries of an upload; the server accepts bodies of 256 KiB."""


@dataclass
class DroppedEntries:
    """What was dropped because it did not fit, since it was last reported."""

    steps: int = 0
    records: int = 0
    """Events and log entries."""
    first_step: int | None = None
    end_step: int = 0

    def add(self, entry: PendingEntry) -> None:
        """Count an entry."""
        if entry.first_step is None:
            self.records += 1
            return
        self.first_step = entry.first_step if self.first_step is None else self.first_step
        self.steps += entry.steps
        self.end_step = entry.end_step

    def __str__(self) -> str:
        """Empty if nothing was dropped."""
        parts = []
        if self.steps:
            last = self.end_step - 1
            parts.append(f"{self.steps} steps between step {self.first_step} and {last}")
        if self.records:
            parts.append(f"{self.records} events and log entries")
        return " and ".join(parts)


@dataclass
class Batch:
    """The entries of an upload: at least one, and as many as the server accepts at once.

    A picture has a request of its own, and so has an entry that begins an attempt: it must not be
    refused because of another one.
    """

    entries: list[PendingEntry] = field(default_factory=list)
    _bytes: int = 0
    _steps: int = 0

    def add(self, entry: PendingEntry) -> bool:
        """Add an entry; False if it does not fit."""
        size_bytes, steps = self._bytes + entry.size_bytes, self._steps + entry.steps
        is_full = (
            size_bytes > MAX_BATCH_BYTES or steps > MAX_STEPS or len(self.entries) >= MAX_ENTRIES
        )
        is_alone = entry.is_alone or (bool(self.entries) and self.entries[0].is_alone)
        if self.entries and (is_full or is_alone):
            return False
        self.entries.append(entry)
        self._bytes, self._steps = size_bytes, steps
        return True


class Outbox:
    """A queue of entries that keeps the newest ones within `capacity_bytes`.

    A batch that was taken stays in it until it is confirmed, and is never dropped: the server may
    have stored it although no response arrived.
    """

    drop_reason: Final = "the server could not be reached for too long"

    def __init__(self, capacity_bytes: int) -> None:
        self._capacity_bytes = capacity_bytes
        self._entries: deque[PendingEntry] = deque()
        self._bytes = self._in_flight = 0
        self._dropped, self._refused = DroppedEntries(), DroppedEntries()
        self.dropped_steps = self.dropped_others = 0
        """How many steps, and events and log entries, were dropped so far."""
        self._is_discarded = False
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._entries)

    def logged_steps(self, status: RunStatus | None) -> LoggedSteps:
        """The steps of earlier programs, of which the server has all that there are."""
        return LoggedSteps() if status is None else LoggedSteps(status.first_step, status.step)

    def put(self, entry: PendingEntry) -> bool:
        """Append an entry; False if older ones had to be dropped for it."""
        with self._lock:
            if self._is_discarded:
                return True
            self._entries.append(entry)
            self._bytes += entry.size_bytes
            fits = self._bytes <= self._capacity_bytes
            while self._bytes > self._capacity_bytes and self._drop_oldest():
                pass
            return fits

    def take_batch(self) -> list[PendingEntry]:
        """The entries of the next upload: those that were taken before, or the oldest ones."""
        with self._lock:
            if not self._in_flight:
                self._in_flight = self._batch_length()
            return [self._entries[index] for index in range(self._in_flight)]

    def confirm_batch(self) -> None:
        """Remove the batch that was taken."""
        with self._lock:
            for _ in range(self._in_flight):
                self._bytes -= self._entries.popleft().size_bytes
            self._in_flight = 0

    def refuse_batch(self) -> None:
        """Remove the batch that was taken, because the server will never accept it."""
        with self._lock:
            for _ in range(self._in_flight):
                entry = self._entries.popleft()
                self._bytes -= entry.size_bytes
                self._count(entry, self._refused)
            self._in_flight = 0

    def refuse(self, entry: PendingEntry) -> None:
        """Count an entry that is not sent, because the server will never accept it."""
        with self._lock:
            self._count(entry, self._refused)

    def take_dropped(self) -> DroppedEntries:
        """What was dropped for lack of room since the last call."""
        with self._lock:
            dropped, self._dropped = self._dropped, DroppedEntries()
            return dropped

    def take_refused(self) -> DroppedEntries:
        """What was refused since the last call."""
        with self._lock:
            refused, self._refused = self._refused, DroppedEntries()
            return refused

    def _count(self, entry: PendingEntry, dropped: DroppedEntries) -> None:
        dropped.add(entry)
        self.dropped_steps += entry.steps
        self.dropped_others += entry.first_step is None

    def align(self, entries: int) -> None:
        """The server has so many entries; what it has lost is not here any more."""

    def close(self) -> None:
        """Nothing is open."""

    def discard(self) -> None:
        """Drop everything, and ignore later entries."""
        with self._lock:
            self._is_discarded = True
            self._entries.clear()
            self._bytes = self._in_flight = 0

    def _drop_oldest(self) -> bool:
        """Drop an entry; False if none may be dropped."""
        # Behind the batch in flight, which is at most one upload long. Without an entry that begins
        # an attempt, the server would refuse the steps after it.
        for place in range(self._in_flight, len(self._entries) - 1):
            entry = self._entries[place]
            if not entry.begins_attempt:
                del self._entries[place]
                self._bytes -= entry.size_bytes
                self._count(entry, self._dropped)
                return True
        return False

    def _batch_length(self) -> int:
        batch = Batch()
        for entry in self._entries:
            if not batch.add(entry):
                break
        return len(batch.entries)
