"""The tables. What may be done to their rows stands in the other modules of this package."""

import secrets
from datetime import datetime
from typing import Any, ClassVar

from sqlalchemy import (
    JSON,
    BigInteger,
    ForeignKey,
    Index,
    Integer,
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
        list[str]: Json,
    }


def new_id() -> str:
    """12 random characters: short enough to say, too many to guess or to draw twice."""
    return secrets.token_hex(6)


class Job(Base):
    """A job as a person posted it, and where it stands now."""

    __tablename__ = "jobs"
    __table_args__ = (
        Index(None, "created_at", "id"),
        Index(None, "state", "created_at"),
        Index(None, "project", "state"),
        Index(None, "project", "created_at", "id"),
    )

    id: Mapped[str] = mapped_column(String(32), primary_key=True, default=new_id)
    project: Mapped[str] = mapped_column(ForeignKey("projects.name"))
    name: Mapped[str] = mapped_column(String(200))
    policy: Mapped[str] = mapped_column(String(32))
    model: Mapped[str] = mapped_column(String(32))
    labels: Mapped[dict[str, str]]
    spec: Mapped[dict[str, Any]]
    priority: Mapped[int] = mapped_column(default=5)
    queue: Mapped[str] = mapped_column(String(64))
    """Only workers that serve it may take the job."""
    max_attempts: Mapped[int] = mapped_column(default=3)
    created_by: Mapped[str | None] = mapped_column(String(200))
    """The name of the token that posted it."""
    request_id: Mapped[str | None] = mapped_column(String(128))
    cloned_from: Mapped[str | None] = mapped_column(String(32))
    state: Mapped[str] = mapped_column(String(16), default=State.QUEUED)
    reason: Mapped[str | None] = mapped_column(String(40))
    message: Mapped[str | None] = mapped_column(Text)
    attempt: Mapped[int] = mapped_column(default=0)
    failures: Mapped[int] = mapped_column(default=0)
    """Attempts that failed since the job was posted, or retried by a person."""
    queued_at: Mapped[datetime] = mapped_column(insert_default=now())
    not_before: Mapped[datetime | None]
    """A job that failed waits so long before it is tried again."""
    worker_id: Mapped[str | None] = mapped_column(String(32))
    lease_expires_at: Mapped[datetime | None]
    requested: Mapped[str | None] = mapped_column(String(16))
    seq: Mapped[int] = mapped_column(BigInteger, default=0)
    told: Mapped[int] = mapped_column(BigInteger, default=0)
    """Entries that the present attempt has written; a repeated write is known by it."""
    step: Mapped[int] = mapped_column(BigInteger, default=0)
    total_steps: Mapped[int | None] = mapped_column(BigInteger)
    latest: Mapped[dict[str, Any] | None]
    """The values of the last step stored."""
    totals: Mapped[dict[str, Any] | None]
    """What the steps add up to so far (ampcore.series.tally)."""
    summary: Mapped[dict[str, Any] | None]
    woken_at: Mapped[datetime | None]
    created_at: Mapped[datetime] = mapped_column(insert_default=now())
    updated_at: Mapped[datetime] = mapped_column(insert_default=now())
    edited_at: Mapped[datetime | None]
    """When a person last gave it another name, priority or labels."""
    started_at: Mapped[datetime | None]
    finished_at: Mapped[datetime | None]


# The waiting ones in the order in which they are taken. Not of these alone: SQLite would pass
# such an index over for that of state and created_at, and sort ten thousand jobs at each claim.
# With the queue, so that the rows of other queues need not be looked at.
Index("ix_jobs_in_turn", Job.state, Job.priority.desc(), Job.created_at, Job.id, Job.queue)


class Attempt(Base):
    """One time that a worker took a job."""

    __tablename__ = "attempts"

    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True)
    attempt: Mapped[int] = mapped_column(primary_key=True)
    worker_id: Mapped[str] = mapped_column(String(32))
    waited_s: Mapped[float] = mapped_column(default=0.0)
    """How long the job was in the queue before."""
    first_step: Mapped[int | None] = mapped_column(BigInteger)
    """Where it began: 0, or the step after its checkpoint. None until it trains."""
    outcome: Mapped[str | None] = mapped_column(String(16))
    reason: Mapped[str | None] = mapped_column(String(40))
    message: Mapped[str | None] = mapped_column(Text)
    started_at: Mapped[datetime] = mapped_column(insert_default=now())
    finished_at: Mapped[datetime | None]


class StepBlockRow(Base):
    """An encoded StepBlock (ampcore.series.codec) of one attempt: as it came, or out of several."""

    __tablename__ = "step_blocks"
    __table_args__ = (Index(None, "job_id", "seq"),)

    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True)
    attempt: Mapped[int] = mapped_column(primary_key=True)
    first_step: Mapped[int] = mapped_column(BigInteger, primary_key=True)
    end_step: Mapped[int] = mapped_column(BigInteger)
    skipped: Mapped[int]
    examples: Mapped[int] = mapped_column(BigInteger, default=0)
    duration_s: Mapped[float] = mapped_column(default=0.0)
    """How long the steps took; `skipped_s` of it were those that were skipped."""
    skipped_s: Mapped[float] = mapped_column(default=0.0)
    best_loss: Mapped[float | None]
    """The least finite one."""
    seq: Mapped[int] = mapped_column(BigInteger)
    """That of its last block, where it was merged of several."""
    created_at: Mapped[datetime] = mapped_column(insert_default=now())
    marks: Mapped[bytes | None] = mapped_column(LargeBinary)
    """Where these lay (ampcore.series.marks); None while the block is as it came."""
    payload: Mapped[bytes] = mapped_column(LargeBinary)


# Only those that wait to be merged.
Index(
    "ix_step_blocks_loose",
    StepBlockRow.job_id,
    StepBlockRow.attempt,
    sqlite_where=StepBlockRow.marks.is_(None),
    postgresql_where=StepBlockRow.marks.is_(None),
)


class StepLevel(Base):
    """A chunk of encoded Buckets: a part of one level of an attempt's pyramid."""

    __tablename__ = "step_levels"

    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True)
    attempt: Mapped[int] = mapped_column(primary_key=True)
    size: Mapped[int] = mapped_column(primary_key=True)
    first_step: Mapped[int] = mapped_column(BigInteger, primary_key=True)
    end_step: Mapped[int] = mapped_column(BigInteger)
    """The step behind the cell of its last bucket."""
    payload: Mapped[bytes] = mapped_column(LargeBinary)


class StepPoints(Base):
    """Encoded Points: the skips and scale changes in the steps of a chunk of the first level."""

    __tablename__ = "step_points"

    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True)
    attempt: Mapped[int] = mapped_column(primary_key=True)
    first_step: Mapped[int] = mapped_column(BigInteger, primary_key=True)
    end_step: Mapped[int] = mapped_column(BigInteger)
    skipped: Mapped[int] = mapped_column(BigInteger)
    changes: Mapped[int] = mapped_column(BigInteger)
    """How many of each there are."""
    payload: Mapped[bytes] = mapped_column(LargeBinary)


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


class LogRow(Base):
    """A piece of what a trainer process printed."""

    __tablename__ = "log_chunks"

    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True)
    seq: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    attempt: Mapped[int]
    stream: Mapped[str] = mapped_column(String(8))
    text: Mapped[str] = mapped_column(Text)
    created_at: Mapped[datetime] = mapped_column(insert_default=now())


class Artifact(Base):
    """A file that a job has left: a checkpoint, a model, a report."""

    __tablename__ = "artifacts"

    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True)
    path: Mapped[str] = mapped_column(String(500), primary_key=True)
    """Below the job's folder, with slashes: attempt-1/checkpoints/…"""
    attempt: Mapped[int]
    kind: Mapped[str] = mapped_column(String(16))
    step: Mapped[int | None] = mapped_column(BigInteger)
    size_bytes: Mapped[int] = mapped_column(BigInteger)
    sha256: Mapped[str] = mapped_column(String(64))
    seq: Mapped[int] = mapped_column(BigInteger)
    created_at: Mapped[datetime] = mapped_column(insert_default=now())


class FileRemoval(Base):
    """Files that are to be deleted from the storage; the row goes once they are gone."""

    __tablename__ = "file_removals"
    __table_args__ = (Index(None, "due_at"),)

    id: Mapped[int] = mapped_column(
        BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True
    )
    job_id: Mapped[str] = mapped_column(String(32))
    """No foreign key: the job itself may be gone."""
    path: Mapped[str | None] = mapped_column(String(500))
    """None: every file of the job."""
    due_at: Mapped[datetime]
    """From then on whoever finds it carries it out."""


class Worker(Base):
    """A worker process that has said hello."""

    __tablename__ = "workers"

    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    hostname: Mapped[str] = mapped_column(String(255))
    pid: Mapped[int]
    slots: Mapped[int]
    version: Mapped[str] = mapped_column(String(32))
    queues: Mapped[list[str]]
    hardware: Mapped[dict[str, Any] | None]
    usage: Mapped[dict[str, Any] | None]
    """What it measures of itself now and then: steps stored, lag, GPUs."""
    drain_requested_at: Mapped[datetime | None]
    started_at: Mapped[datetime] = mapped_column(insert_default=now())
    last_seen_at: Mapped[datetime] = mapped_column(insert_default=now())
    stopped_at: Mapped[datetime | None]


class Project(Base):
    """Whose jobs they are; tokens see those of their own project only."""

    __tablename__ = "projects"

    name: Mapped[str] = mapped_column(String(64), primary_key=True)
    max_queued: Mapped[int | None]
    max_running: Mapped[int | None]
    created_at: Mapped[datetime] = mapped_column(insert_default=now())


class Token(Base):
    """Who may speak to the server; only the secret's SHA-256 is kept."""

    __tablename__ = "tokens"

    id: Mapped[str] = mapped_column(String(32), primary_key=True, default=new_id)
    name: Mapped[str] = mapped_column(String(200))
    digest: Mapped[str] = mapped_column(String(64), unique=True)
    role: Mapped[str] = mapped_column(String(16))
    project: Mapped[str] = mapped_column(ForeignKey("projects.name"))
    created_at: Mapped[datetime] = mapped_column(insert_default=now())
    created_by: Mapped[str | None] = mapped_column(String(200))
    expires_at: Mapped[datetime | None]
    revoked_at: Mapped[datetime | None]


class BrowserSession(Base):
    """A browser that has signed in with a token; only the cookie's SHA-256 is kept."""

    __tablename__ = "sessions"

    digest: Mapped[str] = mapped_column(String(64), primary_key=True)
    token_id: Mapped[str] = mapped_column(ForeignKey("tokens.id", ondelete="CASCADE"))
    created_at: Mapped[datetime] = mapped_column(insert_default=now())
    expires_at: Mapped[datetime]


class IdempotencyKey(Base):
    """The answer that a request with an Idempotency-Key has got, to be given again."""

    __tablename__ = "idempotency_keys"

    project: Mapped[str] = mapped_column(
        ForeignKey("projects.name", ondelete="CASCADE"), primary_key=True
    )
    key: Mapped[str] = mapped_column(String(255), primary_key=True)
    digest: Mapped[str] = mapped_column(String(64))
    """SHA-256 over method, path and body."""
    status: Mapped[int | None]
    """None while the first request is under way."""
    headers: Mapped[dict[str, str] | None]
    body: Mapped[str | None] = mapped_column(Text)
    created_at: Mapped[datetime] = mapped_column(insert_default=now())


class AuditEntry(Base):
    """Who did what."""

    __tablename__ = "audit"
    __table_args__ = (Index(None, "project", "id"),)

    id: Mapped[int] = mapped_column(
        BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True
    )
    at: Mapped[datetime] = mapped_column(insert_default=now())
    action: Mapped[str] = mapped_column(String(40))
    """As in "job.cancel", "token.create"."""
    target: Mapped[str | None] = mapped_column(String(200))
    project: Mapped[str | None] = mapped_column(String(64))
    token_id: Mapped[str | None] = mapped_column(String(32))
    token_name: Mapped[str | None] = mapped_column(String(200))
    address: Mapped[str | None] = mapped_column(String(64))
    request_id: Mapped[str | None] = mapped_column(String(128))
    data: Mapped[dict[str, Any] | None]
