"""The table of workers."""

from datetime import datetime
from typing import Any

from sqlalchemy import String
from sqlalchemy.orm import Mapped, mapped_column

from store.clock import now
from store.tables.base import Base


class Worker(Base):
    """A worker process that has registered."""

    __tablename__ = "workers"
    __table_args__ = ({"postgresql_with": {"fillfactor": 70}},)

    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    hostname: Mapped[str] = mapped_column(String(255))
    pid: Mapped[int]
    slots: Mapped[int]
    version: Mapped[str] = mapped_column(String(32))
    queues: Mapped[list[str]]
    job_id: Mapped[str | None] = mapped_column(String(32))
    """The only job that it runs, before it ends; None: the jobs of its queues."""
    hardware: Mapped[dict[str, Any] | None]
    usage: Mapped[dict[str, Any] | None]
    """Its latest measurements: steps stored, lag, GPU utilization."""
    drain_requested_at: Mapped[datetime | None]
    drain_timeout_s: Mapped[float | None]
    """How long it may store the files of its jobs then; None: as long as it is set up to."""
    started_at: Mapped[datetime] = mapped_column(insert_default=now())
    last_seen_at: Mapped[datetime] = mapped_column(insert_default=now())
    stopped_at: Mapped[datetime | None]
    lost_at: Mapped[datetime | None]
    """When the servers noticed that it sends no heartbeats; None while it does, or has stopped."""
