"""The tables of jobs, of their attempts and of their metrics."""

from datetime import datetime
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Dialect,
    ForeignKey,
    Index,
    Integer,
    String,
    Text,
    TypeDecorator,
    and_,
    literal_column,
)
from sqlalchemy.orm import Mapped, mapped_column

from ampspec.jobs import Source, State
from store.clock import now
from store.tables.base import Base, new_id

# Literal text: with a parameter no database knows at planning time that a partial index applies.
QUEUED: Final = literal_column(f"'{State.QUEUED}'", String)
REQUEUED: Final = "requeued"
"""The outcome of an attempt that ended without a result, and whose job is queued again."""
ONE_RANK: Final = literal_column("1", Integer)


class Job(Base):
    """A job: its spec as submitted, and its current state."""

    __tablename__ = "jobs"
    __table_args__ = (
        Index(None, "created_at", "id"),
        Index(None, "state", "created_at"),
        Index(None, "project", "state"),
        Index(None, "project", "created_at", "id"),
        Index(None, "changed_at", "id"),
        Index(None, "project", "changed_at", "id"),
        Index(None, "name", "id"),
        Index(None, "project", "name", "id"),
        Index(None, "priority", "id"),
        Index(None, "project", "priority", "id"),
        Index(None, "policy"),
        Index(None, "resolved_policy"),
        Index(None, "model"),
        # Room for the next version of a row beside it: a heartbeat then changes no index.
        {"postgresql_with": {"fillfactor": 70}},
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
    """Its maximum number of ranks; with more than one it is a gang (store.gangs.gangs)."""
    created_by: Mapped[str | None] = mapped_column(String(200))
    """The name of the token that submitted it."""
    request_id: Mapped[str | None] = mapped_column(String(128))
    trace_context: Mapped[str | None] = mapped_column(String(55))
    """What submitted it, as a W3C `traceparent`; None without traces (docs/adr/0100)."""
    attempt_context: Mapped[str | None] = mapped_column(String(55))
    """The span of its last attempt, in the same form."""
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
    """Totals over the steps so far (ampspec.telemetry.steps.summary)."""
    metrics: Mapped[dict[str, Any] | None]
    """The metrics of the last evaluation; non-finite ones as strings."""
    summary: Mapped[dict[str, Any] | None]
    uploading: Mapped[dict[str, Any] | None]
    """The files that its worker still stores after the training; None otherwise."""
    activity: Mapped[str | None] = mapped_column(String(16))
    """What its worker says that it does, one of `ampspec.telemetry.activities`; None: not known."""
    activity_since: Mapped[datetime | None]
    turn_at: Mapped[datetime | None]
    """The queued job of a project with the earliest turn goes first (store.scheduling.fair_share).

    None: an older version has queued or ended it.
    """
    dispatched_at: Mapped[datetime | None]
    created_at: Mapped[datetime] = mapped_column(insert_default=now())
    updated_at: Mapped[datetime] = mapped_column(insert_default=now())
    """When its row last changed; each heartbeat of a running job changes it, so it has no index."""
    changed_at: Mapped[datetime | None] = mapped_column(insert_default=now())
    """When its state, name, labels or priority last changed: `updated_at` of a job that is not
    active. None only until migration 0021 has filled it."""
    edited_at: Mapped[datetime | None]
    """When a user last changed its name, priority or labels."""
    started_at: Mapped[datetime | None]
    finished_at: Mapped[datetime | None]
    purge_at: Mapped[datetime | None]
    """It was deleted, and is in the trash until then (store.jobs.trash)."""


# A partial index: few jobs are in the trash.
Index(
    "ix_jobs_purge_at",
    Job.purge_at,
    Job.id,
    sqlite_where=Job.purge_at.is_not(None),
    postgresql_where=Job.purge_at.is_not(None),
)


# The order in which queued jobs are claimed. It covers jobs of all states: SQLite would prefer the
# index on state and created_at to a partial one, and sort ten thousand jobs for each claim. It
# includes the queue, so that rows of other queues are skipped without reading them.
Index("ix_jobs_claim_order", Job.state, Job.priority.desc(), Job.created_at, Job.id, Job.queue)


# The order in which the jobs of one project are claimed.
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


# Partial indexes of what the reconciler and the metrics ask of the queued jobs of each queue:
# whether one is due that no message was sent for, and which one waits longest.
Index(
    "ix_jobs_undispatched",
    Job.queue,
    Job.dispatched_at,
    Job.not_before,
    sqlite_where=and_(Job.state == QUEUED, Job.ranks == ONE_RANK),
    postgresql_where=and_(Job.state == QUEUED, Job.ranks == ONE_RANK),
)
Index(
    "ix_jobs_waiting",
    Job.queue,
    Job.not_before,
    Job.queued_at,
    sqlite_where=Job.state == QUEUED,
    postgresql_where=Job.state == QUEUED,
)


# Gangs: few jobs have several ranks, and each round of the reconciler asks for those that wait.
Index(
    "ix_jobs_gangs",
    Job.state,
    sqlite_where=Job.ranks > ONE_RANK,
    postgresql_where=Job.ranks > ONE_RANK,
)


# For jobs that moved in a list while its pages are read; few jobs are ever edited.
Index(
    "ix_jobs_edited_at",
    Job.edited_at,
    sqlite_where=Job.edited_at.is_not(None),
    postgresql_where=Job.edited_at.is_not(None),
)


# The same for explanations, which are also listed by the job that they explain.
Index(
    "ix_jobs_explains",
    Job.explains,
    sqlite_where=Job.explains.is_not(None),
    postgresql_where=Job.explains.is_not(None),
)


def current_outcome(outcome: str | None) -> str | None:
    """An outcome by its present name: version 0.5 stored `handed_back` instead of `requeued`."""
    return REQUEUED if outcome == "handed_back" else outcome


class OutcomeColumn(TypeDecorator[str]):
    """How an attempt ended, by its present name."""

    impl = String(16)
    cache_ok = True

    def process_result_value(self, value: str | None, dialect: Dialect) -> str | None:
        """Convert the value of version 0.5."""
        return current_outcome(value)


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
    outcome: Mapped[str | None] = mapped_column(OutcomeColumn)
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
