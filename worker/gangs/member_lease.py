"""MemberLease: the lease of one worker's ranks, whose heartbeats also carry requests to stop."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy.orm import Session

from store.gangs import gang_members
from store.leases import LeaseStatus
from store.tables import GangMember
from store.telemetry import logs
from store.telemetry.ingest import LogChunk, TelemetryEntry
from worker.database_retry import Lease

MEMBER_INTERVAL_S: Final = 1.0
LEADER_INTERVAL_S: Final = 0.5
"""Of the worker of rank 0, which also reads the state of the others."""


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
    on_members: Callable[[Sequence[GangMember]], object] | None = None
    """Gets the rows of all workers with each heartbeat; None: they are not read."""

    @property
    def heartbeat_interval_s(self) -> float:
        """Shorter than that of a job, since rank 0 may wait for other ranks."""
        longest_s = MEMBER_INTERVAL_S if self.on_members is None else LEADER_INTERVAL_S
        return min(longest_s, self.lease_s / 5)

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
        if not is_active:
            return None
        if self.on_members is not None:
            self.on_members(gang_members.listing(session, self.job_id, self.attempt))
        return LeaseStatus(seq=0, requested=requested)  # no writer reads the seq, the job's
