"""The tables. What may be done to their rows stands in the other modules of this package."""

import secrets
from datetime import datetime
from typing import Any, ClassVar

from sqlalchemy import (
    JSON,
    BigInteger,
    ForeignKey,
    Index,
    LargeBinary,
    MetaData,
    String,
    Text,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from ampcore.spec import State
from store.clock import Instant, now

Json = JSON(none_as_null=True).with_variant(JSONB(none_as_null=True), "postgresql")


class Base(DeclarativeBase):
    """What all tables share: the names of constraints, and the types of columns."""

    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "ck": "ck_%(table_name)s_%(constraint_name)s",
            "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
            "pk": "pk_%(table_name)s",
        }
    )
    type_annotation_map: ClassVar[dict[Any, Any]] = {
        datetime: Instant(),
        dict[str, Any]: Json,
        dict[str, str]: Json,
    }


def new_id() -> str:
    """12 random characters: short enough to say, too many to guess or to draw twice."""
    return secrets.token_hex(6)


class Job(Base):
    """A job as a person posted it, and where it stands now."""

    __tablename__ = "jobs"
    __table_args__ = (Index(None, "created_at", "id"), Index(None, "state", "created_at"))

    id: Mapped[str] = mapped_column(String(32), primary_key=True, default=new_id)
    name: Mapped[str] = mapped_column(String(200))
    policy: Mapped[str] = mapped_column(String(32))
    model: Mapped[str] = mapped_column(String(32))
    labels: Mapped[dict[str, str]]
    spec: Mapped[dict[str, Any]]
    state: Mapped[str] = mapped_column(String(16), default=State.QUEUED)
    reason: Mapped[str | None] = mapped_column(String(40))
    message: Mapped[str | None] = mapped_column(Text)
    attempt: Mapped[int] = mapped_column(default=0)
    worker_id: Mapped[str | None] = mapped_column(String(32))
    lease_expires_at: Mapped[datetime | None]
    requested: Mapped[str | None] = mapped_column(String(16))
    seq: Mapped[int] = mapped_column(BigInteger, default=0)
    step: Mapped[int] = mapped_column(BigInteger, default=0)
    total_steps: Mapped[int | None] = mapped_column(BigInteger)
    latest: Mapped[dict[str, Any] | None]
    summary: Mapped[dict[str, Any] | None]
    woken_at: Mapped[datetime | None]
    created_at: Mapped[datetime] = mapped_column(insert_default=now())
    updated_at: Mapped[datetime] = mapped_column(insert_default=now())
    started_at: Mapped[datetime | None]
    finished_at: Mapped[datetime | None]


class Attempt(Base):
    """One time that a worker took a job."""

    __tablename__ = "attempts"

    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True)
    attempt: Mapped[int] = mapped_column(primary_key=True)
    worker_id: Mapped[str] = mapped_column(String(32))
    frames: Mapped[int] = mapped_column(BigInteger, default=0)
    outcome: Mapped[str | None] = mapped_column(String(16))
    reason: Mapped[str | None] = mapped_column(String(40))
    message: Mapped[str | None] = mapped_column(Text)
    started_at: Mapped[datetime] = mapped_column(insert_default=now())
    finished_at: Mapped[datetime | None]


class StepBlockRow(Base):
    """An encoded StepBlock (ampcore.series.codec) of one attempt."""

    __tablename__ = "step_blocks"

    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True)
    attempt: Mapped[int] = mapped_column(primary_key=True)
    first_step: Mapped[int] = mapped_column(BigInteger, primary_key=True)
    end_step: Mapped[int] = mapped_column(BigInteger)
    skipped: Mapped[int]
    seq: Mapped[int] = mapped_column(BigInteger)
    payload: Mapped[bytes] = mapped_column(LargeBinary)
    created_at: Mapped[datetime] = mapped_column(insert_default=now())


class EventRow(Base):
    """An entry of a job's ledger."""

    __tablename__ = "events"

    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True)
    seq: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    attempt: Mapped[int]
    type: Mapped[str] = mapped_column(String(32))
    step: Mapped[int | None] = mapped_column(BigInteger)
    data: Mapped[dict[str, Any]]
    created_at: Mapped[datetime] = mapped_column(insert_default=now())


class Worker(Base):
    """A worker process that has said hello."""

    __tablename__ = "workers"

    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    hostname: Mapped[str] = mapped_column(String(255))
    pid: Mapped[int]
    slots: Mapped[int]
    version: Mapped[str] = mapped_column(String(32))
    hardware: Mapped[dict[str, Any] | None]
    started_at: Mapped[datetime] = mapped_column(insert_default=now())
    last_seen_at: Mapped[datetime] = mapped_column(insert_default=now())
    stopped_at: Mapped[datetime | None]


class Token(Base):
    """Who may speak to the server; only the secret's SHA-256 is kept."""

    __tablename__ = "tokens"

    id: Mapped[str] = mapped_column(String(32), primary_key=True, default=new_id)
    name: Mapped[str] = mapped_column(String(200))
    digest: Mapped[str] = mapped_column(String(64), unique=True)
    created_at: Mapped[datetime] = mapped_column(insert_default=now())
