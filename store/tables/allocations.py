"""The table of allocations: devices that a batch system is asked for, for one job each."""

from datetime import datetime

from sqlalchemy import Index, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from store.clock import now
from store.tables.base import Base


class Allocation(Base):
    """A job of a batch system, such as Slurm, whose workers run one job and end."""

    __tablename__ = "allocations"
    __table_args__ = (Index(None, "job_id"), {"postgresql_with": {"fillfactor": 70}})

    name: Mapped[str] = mapped_column(String(64), primary_key=True)
    """Its name in the batch system, where it is looked for before it is submitted."""
    job_id: Mapped[str] = mapped_column(String(32))
    """Without a foreign key: what is left of it in the batch system outlives a deleted job."""
    attempt: Mapped[int]
    """The number of the attempt that it was made for."""
    number: Mapped[int]
    """Its number among the allocations for this attempt, from 1."""
    queue: Mapped[str] = mapped_column(String(64))
    """The queue of the job when it was made, without a package, whose settings apply to it."""
    engine: Mapped[str] = mapped_column(String(16))
    """The batch system: slurm or kubernetes."""
    external_id: Mapped[str | None] = mapped_column(String(64))
    """Its id there; None until it is known."""
    state: Mapped[str] = mapped_column(String(32))
    """Its state as the batch system calls it, such as PENDING; SUBMITTING before it is there."""
    reason: Mapped[str | None] = mapped_column(Text)
    """Why it waits or has ended, as the batch system says."""
    worker_message: Mapped[str | None] = mapped_column(Text)
    """Why its worker did not run the job, as the worker says."""
    nodes: Mapped[str | None] = mapped_column(Text)
    """The list of its nodes, once it has some."""
    expected_start_at: Mapped[datetime | None]
    """When the batch system expects to start it."""
    created_at: Mapped[datetime] = mapped_column(insert_default=now())
    submitted_at: Mapped[datetime | None] = mapped_column(insert_default=now())
    """When it was last sent to the batch system, whether or not that has answered."""
    ended_at: Mapped[datetime | None]
    retry_at: Mapped[datetime | None]
    """When the job may have the next one, after one that has failed."""


# A partial index: each round reads the allocations that have not ended, which are few.
Index(
    "ix_allocations_unfinished",
    Allocation.engine,
    sqlite_where=Allocation.ended_at.is_(None),
    postgresql_where=Allocation.ended_at.is_(None),
)
