"""Carry what one trainer process tells into the database, in order, fenced by its attempt.

The slot's thread puts in what it reads; a thread of the relay's own writes it, and waits while
the database is away.
"""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from contextvars import copy_context
from dataclasses import replace
from functools import partial
from typing import Any, Final

from sqlalchemy.orm import Session

from ampcore.series import Event, EventType
from ampcore.series.block import Facts
from ampcore.series.frames import Frame, FrameType
from ampcore.series.tally import Tally
from store import attempts, ingest, leases, tallies
from store.ingest import EncodedBlock, Entry, LogChunk
from store.leases import Standing
from worker.meter import Meter
from worker.patience import Lease, NobodyWaits, PatientWrites
from worker.spool import Act, Spool, Waiting

log = logging.getLogger(__name__)

LONGEST_SILENCE_S: Final = 2.0
"""Towards the database: a heartbeat extends the lease, and hears what is asked."""


class Relay:
    """The writer of one attempt, and what it learns of the job.

    Args:
        writes: The attempt's transactions.
        lease: Whose they are.
        meter: Hears of every step that is stored.
        on_event: Called from the writer's thread with each event once it is committed.
        spool: What waits in memory.
    """

    def __init__(
        self,
        writes: PatientWrites,
        lease: Lease,
        meter: Meter,
        on_event: Callable[[Event], object],
        spool: Spool,
    ) -> None:
        self.spool = spool
        self.asked: str | None = None
        """What the server asks of the attempt: to cancel, to pause."""
        self.is_fenced = False
        """Another attempt owns the job, or it has ended: nothing can be written any more."""
        self.error: Exception | None = None
        """Why something that came in cannot be stored, however long one waits."""
        self._writes, self._lease, self._meter, self._on_event = writes, lease, meter, on_event
        self._beat_s = min(LONGEST_SILENCE_S, lease.lease_s / 5)
        self._held_at = time.monotonic()
        self._told = 0
        self._tally = Tally()
        # With the words that every log line about this job carries.
        run = copy_context().run
        self._thread = threading.Thread(target=run, args=[self._run], name="relay", daemon=True)

    @property
    def silent_s(self) -> float:
        """How long ago the job was last known to be ours, by this machine's clock."""
        return time.monotonic() - self._held_at

    def start(self) -> None:
        """Begin to write, and to hold the lease."""
        self._thread.start()

    def tell(self, *entries: Entry) -> None:
        """Write this down behind all that was told before."""
        self.spool.put(Waiting(entry, _size(entry)) for entry in entries)

    def carry(self, frames: Sequence[Frame]) -> None:
        """Write down what the trainer says."""
        for frame in frames:
            match frame.type:
                case FrameType.RUNNING:
                    self.act(partial(self._begin, frame.header))
                case FrameType.STEPS | FrameType.EVENT:
                    self.spool.put([Waiting(_entry(frame), frame.size_bytes)])

    def act(self, act: Act) -> None:
        """Do this in a transaction of its own, behind all that was told before."""
        self.spool.put([Waiting(act, 0)])

    def close(self) -> None:
        """End the thread, once what waits is written, or given up."""
        self.spool.close()
        self._thread.join()

    def _run(self) -> None:
        try:
            while not self.is_fenced:
                due_s = max(self._beat_s - self.silent_s, 0.0)
                if (batch := self.spool.take(due_s)) is None:
                    return
                self._write(batch)
                self.spool.done()
        except NobodyWaits:
            log.warning("what still waited for the database is given up")
        finally:
            self.spool.shut()

    def _write(self, batch: Sequence[Waiting]) -> None:
        try:
            match batch:
                case [Waiting(item=act)] if callable(act):
                    self._writes.write(act)
                case _ if self.error is None:
                    self._write_entries(batch)
                case _:
                    self._append([])
        except NobodyWaits:
            raise
        except Exception as error:
            log.exception("what the trainer tells cannot be stored")
            self.error = error

    def _write_entries(self, batch: Sequence[Waiting]) -> None:
        entries = [self._counted(entry) for entry in _entries(batch)]
        if not self._append(entries):
            return
        now = time.monotonic()
        for waiting, entry in zip(batch, entries, strict=True):
            if isinstance(entry, EncodedBlock):
                self._meter.stored(entry.count, now - waiting.since)
            elif isinstance(entry, Event):
                self._on_event(entry)

    def _append(self, entries: Sequence[Entry]) -> bool:
        """Write entries, or a heartbeat where there are none; False when the job is not ours."""
        standing, began = self._writes.write(partial(self._try_to_append, entries))
        if standing is None:
            log.warning("another attempt owns the job, or it has ended")
            self.is_fenced = True
            return False
        self.asked, self._held_at = standing.requested, began
        self._told += len(entries)
        return True

    def _try_to_append(
        self, entries: Sequence[Entry], session: Session
    ) -> tuple[Standing | None, float]:
        # The lease counts from when it is asked for, not from when the answer comes.
        began = time.monotonic()
        job_id, attempt, lease_s = self._lease.job_id, self._lease.attempt, self._lease.lease_s
        if not entries:
            return leases.hold(session, job_id, attempt, lease_s=lease_s), began
        told = self._told
        return (
            ingest.append(session, job_id, attempt, entries, told=told, lease_s=lease_s),
            began,
        )

    def _begin(self, header: dict[str, Any], session: Session) -> None:
        """The loop is about to run; steps before it may have been skipped."""
        job_id, attempt, first_step = self._lease.job_id, self._lease.attempt, header["first_step"]
        self._tally = tallies.before(session, job_id, first_step)
        attempts.mark_running(
            session,
            job_id,
            attempt,
            total_steps=header["total_steps"],
            first_step=first_step,
            totals=self._tally.to_json(),
        )

    def _counted(self, entry: Entry) -> Entry:
        """An entry as it is written: a block tells what the job's steps add up to."""
        if isinstance(entry, EncodedBlock):
            self._tally.add(entry.count, entry.facts)
            latest = {**entry.latest, "skipped": self._tally.skipped}
            return replace(entry, latest=latest, totals=entry.totals | self._tally.to_json())
        return entry


def _entries(batch: Sequence[Waiting]) -> list[Entry]:
    return [waiting.item for waiting in batch if not callable(waiting.item)]


def _entry(frame: Frame) -> Entry:
    header = frame.header
    if frame.type is FrameType.EVENT:
        return Event(EventType(header["event"]), header["step"], header["data"])
    return EncodedBlock(
        first_step=header["first_step"],
        count=header["count"],
        facts=Facts(**header["facts"]),
        payload=frame.payload,
        latest=header["last"],
        totals={"scale_health": header.get("scale_health")},
    )


def _size(entry: Entry) -> int:
    return len(entry.text) if isinstance(entry, LogChunk) else 0
