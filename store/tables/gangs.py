"""The tables of gangs: jobs with several ranks, and the workers that run them."""

from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, Index, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from store.clock import now
from store.tables.base import Base


class Gang(Base):
    """The numbers of ranks that a job may have, and its reservations of busy slots."""

    __tablename__ = "gangs"

    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True)
    workers: Mapped[int]
    devices: Mapped[int]
    min_ranks: Mapped[int]
    max_ranks: Mapped[int]
    batches: Mapped[int]
    """The batches of one optimizer step, over all ranks."""
    draining_reservations: Mapped[int] = mapped_column("holds", default=0)
    """How often slots were reserved that were still busy."""
    backoff_until: Mapped[datetime | None] = mapped_column("no_hold_before")
    """No busy slots are reserved until then: other jobs get them."""


class GangMember(Base):
    """The ranks of one attempt on one worker: reserved slots, then processes, then their end."""

    __tablename__ = "gang_members"
    __table_args__ = ({"postgresql_with": {"fillfactor": 70}},)

    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True)
    attempt: Mapped[int] = mapped_column(primary_key=True)
    """The number of the attempt, also before the job is claimed; every write checks it."""
    worker_id: Mapped[str] = mapped_column(String(32), primary_key=True)
    first_rank: Mapped[int]
    ranks: Mapped[int]
    state: Mapped[str] = mapped_column(String(16))
    is_draining: Mapped[bool] = mapped_column("is_hold", default=False)
    """Whether slots of the reservation were busy when they were reserved."""
    addresses: Mapped[list[str] | None]
    """"host:port" of each of its ranks, once the worker is ready; with rank 0, one more, for the
    control channel."""
    lease_expires_at: Mapped[datetime]
    """The end of the reservation; later the end of the worker's lease."""
    requested: Mapped[str | None] = mapped_column(String(16))
    """The request of rank 0's worker to this one."""
    stop_request: Mapped[str | None] = mapped_column("wish", String(16))
    """Why this worker requests that the attempt stop."""
    devices: Mapped[list[Any] | None]
    """The device and the state of each of its ranks."""
    reason: Mapped[str | None] = mapped_column(String(40))
    message: Mapped[str | None] = mapped_column(Text)
    created_at: Mapped[datetime] = mapped_column(insert_default=now())
    finished_at: Mapped[datetime | None]


# A partial index: each claim counts the reserved slots of its worker, and few rows are unfinished.
Index(
    "ix_gang_members_unfinished",
    GangMember.worker_id,
    sqlite_where=GangMember.finished_at.is_(None),
    postgresql_where=GangMember.finished_at.is_(None),
)
