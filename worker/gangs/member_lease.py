"""MemberLease: the lease of one worker's ranks, whose heartbeats also carry requests to stop."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from sqlalchemy.orm import Session

from store.gangs import gang_members
from store.leases import LeaseStatus
from store.telemetry import logs
from store.telemetry.ingest import LogChunk, TelemetryEntry
from worker.database_retry import Lease


@dataclass(frozen=True)
class MemberLease(Lease):
    """The lease of the ranks of one worker of a gang; its entries are what they print.

    The job's own lease belongs to the worker of rank 0.
    """

    worker_id: str
    stop_request: Callable[[], str | None]
    """Why this worker requests that the attempt stop; None while it does not."""
    devices: Callable[[], Sequence[dict[str, Any]]]
    """Describes the ranks."""
    heartbeat_interval_s: ClassVar[float] = 1.0

    def renew(
        self, session: Session, entries: Sequence[TelemetryEntry], entries_written: int
    ) -> LeaseStatus | None:
        """See `Lease.renew`; entries are written again if the response to a commit was lost."""
        chunks = [entry for entry in entries if isinstance(entry, LogChunk)]
        # First, since it locks the job: every transaction locks the job before its members.
        if chunks and not logs.append(session, self.job_id, self.attempt, chunks):
            return None
        is_active, requested = gang_members.renew(
            session,
            self.job_id,
            self.attempt,
            self.worker_id,
            lease_s=self.lease_s,
            stop_request=self.stop_request(),
            devices=self.devices(),
        )
        # No writer reads the seq, which is the job's.
        return LeaseStatus(seq=0, requested=requested) if is_active else None
