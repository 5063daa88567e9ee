"""The tables of jobs, of their attempts and of their metrics."""

from datetime import datetime
from typing import Any, Final

from sqlalchemy import BigInteger, ForeignKey, Index, String, Text, literal_column
from sqlalchemy.orm import Mapped, mapped_column

from ampcore.spec import Source, State
from store.clock import now
from store.tables.base import Base, new_id


class Job(Base):
    """A job: its spec as submitted, and its current state."""

    __tablename__ = "jobs"
    __table_args__ = (
        Index(None, "created_at", "id"),
        Index(None, "state", "created_at"),
        Index(None, "project", "state"),
        Index(None, "project", "created_at", "id"),
    )

    id: Mapped[str] = mapped_column(String(32), primary_key=True, default=new_id)
    source: Mapped[str] = mapped_column(String(16), default=Source.SUBMITTED)
    project: Mapped[str] = mapped_column(ForeignKey("projects.name"))
    name: Mapped[str] = mapped_column(String(200))
    policy: Mapped[str] = mapped_column(String(32))
    resolved_policy: Mapped[str | None] = mapped_column(String(32))
    """The policy that it trains with: what `auto` chose, float32 after a fallback; None before."""
    model: Mapped[str] = mapped_column(String(32))
    labels: Mapped[dict[str, str]]
    spec: Mapped[dict[str, Any]]
    priority: Mapped[int] = mapped_column(default=5)
    queue: Mapped[str] = mapped_column(String(64))
    """Only workers that serve this queue may claim the job."""
    max_attempts: Mapped[int] = mapped_column(default=3)
    ranks: Mapped[int] = mapped_column(default=1, server_default="1")
    """The most ranks that it may have; with more than one it is a gang (store.gangs)."""
    created_by: Mapped[str | None] = mapped_column(String(200))
    """The name of the token that submitted it."""
    request_id: Mapped[str | None] = mapped_column(String(128))
    cloned_from: Mapped[str | None] = mapped_column(String(32))
    extends: Mapped[str | None] = mapped_column(String(32))
    """The job from whose last checkpoint this one starts."""
    explains: Mapped[str | None] = mapped_column(String(32))
    """The job of which this one repeats and explains a step."""
    explain_step: Mapped[int | None] = mapped_column(BigInteger)
    state: Mapped[str] = mapped_column(String(16), default=State.QUEUED)
    reason: Mapped[str | None] = mapped_column(String(40))
    message: Mapped[str | None] = mapped_column(Text)
    attempt: Mapped[int] = mapped_column(default=0)
    failures: Mapped[int] = mapped_column(default=0)
    """Failed attempts since the job was submitted, or retried by a user."""
    queued_at: Mapped[datetime] = mapped_column(insert_default=now())
    not_before: Mapped[datetime | None]
    """The job is not claimed before: the delay of an automatic retry."""
    worker_id: Mapped[str | None] = mapped_column(String(32))
    lease_expires_at: Mapped[datetime | None]
    requested: Mapped[str | None] = mapped_column(String(16))
    seq: Mapped[int] = mapped_column(BigInteger, default=0)
    entries_written: Mapped[int] = mapped_column(BigInteger, default=0)
    """Entries that the current attempt has written; a repeated write is recognised by it."""
    step: Mapped[int] = mapped_column(BigInteger, default=0)
    total_steps: Mapped[int | None] = mapped_column(BigInteger)
    latest: Mapped[dict[str, Any] | None]
    """The values of the last stored step."""
    totals: Mapped[dict[str, Any] | None]
    """Totals over the steps so far (ampcore.telemetry.summary)."""
    metrics: Mapped[dict[str, Any] | None]
    """The metrics of the last evaluation; non-finite ones as strings."""
    summary: Mapped[dict[str, Any] | None]
    uploading: Mapped[dict[str, Any] | None]
    """The files that its worker still stores after the training; None otherwise."""
    turn_at: Mapped[datetime | None]
    """The queued job of a project with the earliest turn goes first (store.fair_share).

    None: an older version has queued or ended it.
    """
    dispatched_at: Mapped[datetime | None]
    created_at: Mapped[datetime] = mapped_column(insert_default=now())
    updated_at: Mapped[datetime] = mapped_column(insert_default=now())
    edited_at: Mapped[datetime | None]
    """When a user last changed its name, priority or labels."""
    started_at: Mapped[datetime | None]
    finished_at: Mapped[datetime | None]


# The order in which queued jobs are claimed. It covers jobs of all states: SQLite would prefer the
# index on state and created_at to a partial one, and sort ten thousand jobs for each claim. It
# includes the queue, so that rows of other queues are skipped without reading them.
Index("ix_jobs_claim_order", Job.state, Job.priority.desc(), Job.created_at, Job.id, Job.queue)


# The order in which the jobs of one project are claimed. The state is literal text, because with a
# parameter neither database knows at planning time that the index applies.
QUEUED: Final = literal_column(f"'{State.QUEUED}'", String)
Index(
    "ix_jobs_turn",
    Job.project,
    Job.turn_at,
    Job.id,
    Job.queue,
    sqlite_where=Job.state == QUEUED,
    postgresql_where=Job.state == QUEUED,
)


# A partial index: few jobs extend another one, and each deletion looks for those.
Index(
    "ix_jobs_extends",
    Job.extends,
    sqlite_where=Job.extends.is_not(None),
    postgresql_where=Job.extends.is_not(None),
)


# The same for explanations, which are also listed by the job that they explain.
Index(
    "ix_jobs_explains",
    Job.explains,
    sqlite_where=Job.explains.is_not(None),
    postgresql_where=Job.explains.is_not(None),
)


class Attempt(Base):
    """One execution of a job, by a worker or elsewhere."""

    __tablename__ = "attempts"

    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True)
    attempt: Mapped[int] = mapped_column(primary_key=True)
    worker_id: Mapped[str | None] = mapped_column(String(32))
    """None: a tracked run."""
    waited_s: Mapped[float] = mapped_column(default=0.0)
    """How long the job was queued before this attempt."""
    ranks: Mapped[int] = mapped_column(default=1, server_default="1")
    """The number of its ranks."""
    first_step: Mapped[int | None] = mapped_column(BigInteger)
    """0, or the step after the checkpoint it resumed from. None until training starts."""
    outcome: Mapped[str | None] = mapped_column(String(16))
    reason: Mapped[str | None] = mapped_column(String(40))
    message: Mapped[str | None] = mapped_column(Text)
    started_at: Mapped[datetime] = mapped_column(insert_default=now())
    finished_at: Mapped[datetime | None]


class JobMetric(Base):
    """A finite metric of a job's last evaluation: what lists of jobs are sorted and filtered by."""

    __tablename__ = "job_metrics"
    __table_args__ = (Index(None, "name", "value", "job_id"),)

    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True)
    name: Mapped[str] = mapped_column(String(100), primary_key=True)
    value: Mapped[float]
    updated_at: Mapped[datetime] = mapped_column(insert_default=now())
