"""Writes the telemetry of one attempt to the database, in order and fenced by the attempt.

The trainer's supervisor enqueues what it reads from it; the writer's own thread stores it, and
retries while the database is unreachable. A worker with other ranks than rank 0 has another
writer, with another lease, for what they print.
"""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from contextvars import copy_context
from dataclasses import replace
from functools import partial
from typing import Any

from sqlalchemy.orm import Session

from ampspec.telemetry import Event, EventType
from ampspec.telemetry.frames import Frame, FrameType
from ampspec.telemetry.steps.block import BlockStats
from ampspec.telemetry.steps.summary import StepSummary
from store.jobs import attempts
from store.leases import LeaseStatus
from store.telemetry import step_totals
from store.telemetry.ingest import EncodedBlock, LogChunk, TelemetryEntry
from worker.attempt.write_buffer import PendingWrite, Transaction, WriteBuffer
from worker.database_retry import Lease, RetryingDatabase, WriteAbandoned
from worker.usage import SlotMetrics

log = logging.getLogger(__name__)


class TelemetryWriter:
    """Writes one attempt's telemetry, renews its lease, and reads requests to stop.

    Args:
        database: The attempt's transactions.
        lease: The attempt that writes.
        metrics: Counts the stored steps.
        on_event: Called from the writer's thread with each event once it is committed.
        buffer: The writes that are pending in memory.
    """

    def __init__(
        self,
        database: RetryingDatabase,
        lease: Lease,
        metrics: SlotMetrics,
        on_event: Callable[[Event], object],
        buffer: WriteBuffer,
    ) -> None:
        self.buffer = buffer
        self.requested: str | None = None
        """The last request that the lease has read, such as `store.jobs.jobs.CANCEL`, or None."""
        self.is_fenced = False
        """True once another attempt owns the job or the job has ended: no write is accepted."""
        self.error: Exception | None = None
        """A permanent error: some telemetry can never be stored."""
        self._database, self._lease, self._metrics, self._on_event = (
            database,
            lease,
            metrics,
            on_event,
        )
        self._heartbeat_interval_s = lease.heartbeat_interval_s
        self._heartbeat_at = self._tried_at = time.monotonic()
        self._entries_written = 0
        self._step_summary = StepSummary()
        # The thread inherits the context that adds the job's id to each log line.
        run = copy_context().run
        self._thread = threading.Thread(
            target=run, args=[self._run], name="telemetry-writer", daemon=True
        )

    @property
    def since_heartbeat_s(self) -> float:
        """Seconds since the lease was last extended, by this machine's clock."""
        return time.monotonic() - self._heartbeat_at

    def start(self) -> None:
        """Start the thread, which also keeps the lease extended."""
        self._thread.start()

    def enqueue(self, *entries: TelemetryEntry) -> None:
        """Store entries after everything enqueued before."""
        self.buffer.put(PendingWrite(entry, _size(entry)) for entry in entries)

    def enqueue_frames(self, frames: Sequence[Frame]) -> None:
        """Store the telemetry in a trainer's frames; other frames are ignored."""
        for frame in frames:
            match frame.type:
                case FrameType.RUNNING:
                    self.enqueue_transaction(partial(self._mark_running, frame.header))
                case FrameType.STEPS | FrameType.EVENT:
                    self.buffer.put([PendingWrite(_entry(frame), frame.size_bytes)])

    def enqueue_transaction(self, transaction: Transaction) -> None:
        """Run a separate transaction after everything enqueued so far."""
        self.buffer.put([PendingWrite(transaction, 0)])

    def close(self) -> None:
        """Stop the thread once pending writes are stored or given up."""
        self.buffer.close()
        self._thread.join()

    def _run(self) -> None:
        try:
            while not self.is_fenced:
                # After the last try, so that one that cannot succeed is not repeated at once.
                heartbeat_at = self._tried_at + self._heartbeat_interval_s
                timeout_s = max(heartbeat_at - time.monotonic(), 0.0)
                if (batch := self.buffer.take_batch(timeout_s)) is None:
                    return
                self._write(batch)
                self.buffer.batch_done()
        except WriteAbandoned:
            log.warning("discarding telemetry that could not be written to the database")
        finally:
            self.buffer.discard()

    def _write(self, batch: Sequence[PendingWrite]) -> None:
        try:
            match batch:
                case [PendingWrite(item=transaction)] if callable(transaction):
                    self._database.write(transaction)
                case _ if self.error is None:
                    self._write_entries(batch)
                case _:
                    self._append([])
        except WriteAbandoned:
            raise
        except Exception as error:
            log.exception("the trainer's telemetry cannot be stored")
            self.error = error

    def _write_entries(self, batch: Sequence[PendingWrite]) -> None:
        entries = [self._with_totals(entry) for entry in _entries(batch)]
        if not self._append(entries):
            return
        now = time.monotonic()
        for pending, entry in zip(batch, entries, strict=True):
            if isinstance(entry, EncodedBlock):
                self._metrics.record_stored_steps(entry.count, now - pending.since)
            elif isinstance(entry, Event):
                self._on_event(entry)

    def _append(self, entries: Sequence[TelemetryEntry]) -> bool:
        """Write entries, or a heartbeat without any; False when the attempt is fenced."""
        self._tried_at = time.monotonic()
        status, began = self._database.write(partial(self._append_once, entries))
        if status is None:
            log.warning("another attempt owns the job, or the job has ended")
            self.is_fenced = True
            return False
        self.requested, self._heartbeat_at = status.requested, began
        self._entries_written += len(entries)
        return True

    def _append_once(
        self, entries: Sequence[TelemetryEntry], session: Session
    ) -> tuple[LeaseStatus | None, float]:
        # The lease counts from before the statement: the response may take long.
        began = time.monotonic()
        return self._lease.renew(session, entries, self._entries_written), began

    def _mark_running(self, header: dict[str, Any], session: Session) -> None:
        """Mark the job as running, and continue its step totals from before `first_step`."""
        job_id, attempt, first_step = self._lease.job_id, self._lease.attempt, header["first_step"]
        self._step_summary = step_totals.before(session, job_id, first_step)
        attempts.mark_running(
            session,
            job_id,
            attempt,
            total_steps=header["total_steps"],
            first_step=first_step,
            totals=self._step_summary.to_json(),
            policy=header.get("policy"),
        )

    def _with_totals(self, entry: TelemetryEntry) -> TelemetryEntry:
        """Add the job's running totals to a block; other entries are unchanged."""
        if isinstance(entry, EncodedBlock):
            self._step_summary.add(entry.count, entry.stats)
            latest = {**entry.latest, "skipped": self._step_summary.skipped}
            return replace(entry, latest=latest, totals=entry.totals | self._step_summary.to_json())
        return entry


def _entries(batch: Sequence[PendingWrite]) -> list[TelemetryEntry]:
    return [pending.item for pending in batch if not callable(pending.item)]


def _entry(frame: Frame) -> TelemetryEntry:
    header = frame.header
    if frame.type is FrameType.EVENT:
        return Event(EventType(header["event"]), header["step"], header["data"])
    return EncodedBlock(
        first_step=header["first_step"],
        count=header["count"],
        stats=BlockStats(**header["stats"]),
        payload=frame.payload,
        latest=header["last"],
        totals={"scale_health": header.get("scale_health")},
    )


def _size(entry: TelemetryEntry) -> int:
    return len(entry.text) if isinstance(entry, LogChunk) else 0
