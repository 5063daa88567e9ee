"""The tables of what the servers share: leaders of background work, counts, compatibility."""

from datetime import datetime
from typing import Any

from sqlalchemy import String
from sqlalchemy.orm import Mapped, mapped_column

from store.clock import now
from store.tables.base import Base


class Leader(Base):
    """The server that does a background task for all servers, until its lease expires."""

    __tablename__ = "leaders"

    task: Mapped[str] = mapped_column(String(32), primary_key=True)
    server_id: Mapped[str] = mapped_column(String(32))
    lease_expires_at: Mapped[datetime]


class ServiceCount(Base):
    """Numbers that take long to count, as one server has counted them for all."""

    __tablename__ = "service_counts"

    name: Mapped[str] = mapped_column(String(32), primary_key=True)
    counts: Mapped[list[Any]]
    """Rows of numbers and what they are the numbers of."""
    took_s: Mapped[float]
    """How long it took to count them, in seconds."""
    counted_at: Mapped[datetime] = mapped_column(insert_default=now())


class SchemaCompatibility(Base):
    """One row: the oldest version of the program that works with this schema."""

    __tablename__ = "schema_compatibility"

    oldest_revision: Mapped[str] = mapped_column(String(32), primary_key=True)
    """The newest schema revision that it knows."""
