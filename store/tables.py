"""The database tables (SQLAlchemy models). Queries and transitions are in the other modules."""

import secrets
from datetime import datetime
from typing import Any, ClassVar, Final

from sqlalchemy import (
    JSON,
    BigInteger,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Text,
    UniqueConstraint,
    literal_column,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from ampcore.spec import Source, State
from store.clock import UtcDateTime, now

JsonColumn = JSON(none_as_null=True).with_variant(JSONB(none_as_null=True), "postgresql")


class Base(DeclarativeBase):
    """Base of all tables: naming convention for constraints, column types by annotation."""

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
        datetime: UtcDateTime(),
        dict[str, Any]: JsonColumn,
        dict[str, str]: JsonColumn,
        list[str]: JsonColumn,
        list[Any]: JsonColumn,
    }


def new_id() -> str:
    """12 random hexadecimal digits: short, and unlikely to collide."""
    return secrets.token_hex(6)


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
    first_step: Mapped[int | None] = mapped_column(BigInteger)
    """0, or the step after the checkpoint it resumed from. None until training starts."""
    outcome: Mapped[str | None] = mapped_column(String(16))
    reason: Mapped[str | None] = mapped_column(String(40))
    message: Mapped[str | None] = mapped_column(Text)
    started_at: Mapped[datetime] = mapped_column(insert_default=now())
    finished_at: Mapped[datetime | None]


class RunThroughput(Base):
    """The throughput histogram of a tracked run, from which its median is updated.

    A worker keeps the histogram of its attempt in memory; the servers that store the steps of a
    run share this one.
    """

    __tablename__ = "run_throughputs"

    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True)
    histogram: Mapped[dict[str, Any]]


class StepBlockRow(Base):
    """Encoded steps (ampcore.telemetry.codec) of an attempt: one block, or several merged."""

    __tablename__ = "step_blocks"
    __table_args__ = (Index(None, "job_id", "seq"),)

    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True)
    attempt: Mapped[int] = mapped_column(primary_key=True)
    first_step: Mapped[int] = mapped_column(BigInteger, primary_key=True)
    end_step: Mapped[int] = mapped_column(BigInteger)
    skipped: Mapped[int]
    examples: Mapped[int] = mapped_column(BigInteger, default=0)
    duration_s: Mapped[float] = mapped_column(default=0.0)
    """Duration of the steps; `skipped_s` is the part of the skipped ones."""
    skipped_s: Mapped[float] = mapped_column(default=0.0)
    best_loss: Mapped[float | None]
    """The smallest finite loss."""
    seq: Mapped[int] = mapped_column(BigInteger)
    """The seq of its last block, if it was merged from several."""
    created_at: Mapped[datetime] = mapped_column(insert_default=now())
    merge_index: Mapped[bytes | None] = mapped_column(LargeBinary)
    """The seq, end and statistics of each merged block (ampcore.telemetry.merge_index).

    None while the block is not merged.
    """
    payload: Mapped[bytes] = mapped_column(LargeBinary)


# A partial index: only the blocks that are not merged yet.
Index(
    "ix_step_blocks_unmerged",
    StepBlockRow.job_id,
    StepBlockRow.attempt,
    sqlite_where=StepBlockRow.merge_index.is_(None),
    postgresql_where=StepBlockRow.merge_index.is_(None),
)


class StepLevel(Base):
    """A chunk of encoded Buckets: a part of one downsampling level of an attempt."""

    __tablename__ = "step_levels"

    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True)
    attempt: Mapped[int] = mapped_column(primary_key=True)
    size: Mapped[int] = mapped_column(primary_key=True)
    first_step: Mapped[int] = mapped_column(BigInteger, primary_key=True)
    end_step: Mapped[int] = mapped_column(BigInteger)
    """The step after the range of its last bucket."""
    payload: Mapped[bytes] = mapped_column(LargeBinary)


class StepPoints(Base):
    """Encoded KeySteps: skipped steps and loss scale changes in one chunk of the first level."""

    __tablename__ = "step_points"

    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True)
    attempt: Mapped[int] = mapped_column(primary_key=True)
    first_step: Mapped[int] = mapped_column(BigInteger, primary_key=True)
    end_step: Mapped[int] = mapped_column(BigInteger)
    skipped: Mapped[int] = mapped_column(BigInteger)
    changes: Mapped[int] = mapped_column(BigInteger)
    """Number of skipped steps, and of loss scale changes."""
    payload: Mapped[bytes] = mapped_column(LargeBinary)


class EventRow(Base):
    """An entry of a job's event log."""

    __tablename__ = "events"

    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True)
    seq: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    attempt: Mapped[int]
    type: Mapped[str] = mapped_column(String(32))
    step: Mapped[int | None] = mapped_column(BigInteger)
    data: Mapped[dict[str, Any]]
    created_at: Mapped[datetime] = mapped_column(insert_default=now())


# A partial index: a job may have many events of other types. The type is literal text, because with
# a parameter neither database knows at planning time that the index applies.
EVALUATION_TYPE: Final = literal_column("'evaluation'", String)
Index(
    "ix_events_evaluations",
    EventRow.job_id,
    EventRow.step,
    EventRow.seq,
    sqlite_where=EventRow.type == EVALUATION_TYPE,
    postgresql_where=EventRow.type == EVALUATION_TYPE,
)


class RangeRow(Base):
    """The exponents of every layer's values before one step (ampcore.telemetry.range_samples)."""

    __tablename__ = "range_samples"
    __table_args__ = (Index(None, "job_id", "step"),)

    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True)
    seq: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    attempt: Mapped[int]
    step: Mapped[int] = mapped_column(BigInteger)
    data: Mapped[dict[str, Any]]


class JobMetric(Base):
    """A finite metric of a job's last evaluation: what lists of jobs are sorted and filtered by."""

    __tablename__ = "job_metrics"
    __table_args__ = (Index(None, "name", "value", "job_id"),)

    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True)
    name: Mapped[str] = mapped_column(String(100), primary_key=True)
    value: Mapped[float]
    updated_at: Mapped[datetime] = mapped_column(insert_default=now())


class LogRow(Base):
    """A piece of the output of a trainer process."""

    __tablename__ = "log_chunks"

    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True)
    seq: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    attempt: Mapped[int]
    stream: Mapped[str] = mapped_column(String(8))
    text: Mapped[str] = mapped_column(Text)
    created_at: Mapped[datetime] = mapped_column(insert_default=now())


class Artifact(Base):
    """A file that a job has written: a checkpoint, a model, a report."""

    __tablename__ = "artifacts"

    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True)
    path: Mapped[str] = mapped_column(String(500), primary_key=True)
    """Relative to the job's folder, with slashes: attempt-1/checkpoints/…"""
    attempt: Mapped[int]
    kind: Mapped[str] = mapped_column(String(16))
    step: Mapped[int | None] = mapped_column(BigInteger)
    size_bytes: Mapped[int] = mapped_column(BigInteger)
    sha256: Mapped[str] = mapped_column(String(64))
    seq: Mapped[int] = mapped_column(BigInteger)
    created_at: Mapped[datetime] = mapped_column(insert_default=now())


class Dataset(Base):
    """A dataset of a project. It exists for users while it has a version.

    Its row stays after that, because the number of a version is never used again.
    """

    __tablename__ = "datasets"
    __table_args__ = (UniqueConstraint("project", "name"),)

    id: Mapped[str] = mapped_column(String(32), primary_key=True, default=new_id)
    project: Mapped[str] = mapped_column(ForeignKey("projects.name"))
    name: Mapped[str] = mapped_column(String(64))
    last_number: Mapped[int] = mapped_column(default=0)
    """The number of the version that was created last."""
    created_at: Mapped[datetime] = mapped_column(insert_default=now())
    created_by: Mapped[str | None] = mapped_column(String(200))


class DatasetVersion(Base):
    """A version of a dataset: one file, which never changes."""

    __tablename__ = "dataset_versions"
    __table_args__ = (Index(None, "sha256"), Index(None, "path"))

    dataset_id: Mapped[str] = mapped_column(
        ForeignKey("datasets.id", ondelete="CASCADE"), primary_key=True
    )
    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    file_name: Mapped[str] = mapped_column(String(255))
    size_bytes: Mapped[int] = mapped_column(BigInteger)
    sha256: Mapped[str] = mapped_column(String(64))
    path: Mapped[str] = mapped_column(String(200))
    """In the storage folder of datasets. Versions of a project with equal bytes share it."""
    state: Mapped[str] = mapped_column(String(16))
    """`described`, `undescribed` (no reader for the file) or `invalid` (see `message`)."""
    message: Mapped[str | None] = mapped_column(Text)
    kind: Mapped[str | None] = mapped_column(String(32))
    rows: Mapped[int | None] = mapped_column(BigInteger)
    columns: Mapped[list[Any] | None]
    preview: Mapped[dict[str, Any] | None]
    created_at: Mapped[datetime] = mapped_column(insert_default=now())
    created_by: Mapped[str | None] = mapped_column(String(200))


class DatasetUpload(Base):
    """An upload in progress, or one that has become a version recently."""

    __tablename__ = "dataset_uploads"
    __table_args__ = (Index(None, "expires_at"), Index(None, "project"))

    id: Mapped[str] = mapped_column(String(32), primary_key=True, default=new_id)
    project: Mapped[str] = mapped_column(ForeignKey("projects.name"))
    name: Mapped[str] = mapped_column(String(64))
    file_name: Mapped[str] = mapped_column(String(255))
    size_bytes: Mapped[int] = mapped_column(BigInteger)
    sha256: Mapped[str | None] = mapped_column(String(64))
    """What the client expects; None if it did not say."""
    offset_bytes: Mapped[int] = mapped_column(BigInteger, default=0)
    """How many bytes are stored."""
    parts: Mapped[list[Any]]
    """The name, size and SHA-256 of each stored part, in order."""
    number: Mapped[int | None]
    """The version that it has become; None while it is in progress."""
    created_at: Mapped[datetime] = mapped_column(insert_default=now())
    created_by: Mapped[str | None] = mapped_column(String(200))
    expires_at: Mapped[datetime]


class ProjectFile(Base):
    """A file of a project that jobs name by its SHA-256: a code bundle, or weights."""

    __tablename__ = "project_files"
    __table_args__ = (Index(None, "path"), Index(None, "last_used_at"))

    project: Mapped[str] = mapped_column(ForeignKey("projects.name"), primary_key=True)
    kind: Mapped[str] = mapped_column(String(16), primary_key=True)
    sha256: Mapped[str] = mapped_column(String(64), primary_key=True)
    size_bytes: Mapped[int] = mapped_column(BigInteger)
    path: Mapped[str] = mapped_column(String(200))
    """In the storage folder of files."""
    created_at: Mapped[datetime] = mapped_column(insert_default=now())
    created_by: Mapped[str | None] = mapped_column(String(200))
    last_used_at: Mapped[datetime] = mapped_column(insert_default=now())
    """When it was uploaded, looked up, or named by a new job."""
    contents: Mapped[list[Any] | None]
    """The name and size of each file in a bundle."""


class JobFile(Base):
    """A file that a job's spec names: it cannot be deleted before the job."""

    __tablename__ = "job_files"
    __table_args__ = (
        ForeignKeyConstraint(
            ["project", "kind", "sha256"],
            ["project_files.project", "project_files.kind", "project_files.sha256"],
            name="fk_job_files_project_files",
        ),
        Index(None, "project", "kind", "sha256"),
    )

    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True)
    project: Mapped[str] = mapped_column(String(64))
    kind: Mapped[str] = mapped_column(String(16), primary_key=True)
    sha256: Mapped[str] = mapped_column(String(64), primary_key=True)


class FileRemoval(Base):
    """Files to be deleted from the storage; the row is deleted after them."""

    __tablename__ = "file_removals"
    __table_args__ = (Index(None, "due_at"),)

    id: Mapped[int] = mapped_column(
        BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True
    )
    job_id: Mapped[str] = mapped_column(String(32))
    """The job, or another folder of the storage. No foreign key: the job may be deleted already."""
    path: Mapped[str | None] = mapped_column(String(500))
    """None: every file of the folder."""
    due_at: Mapped[datetime]
    """The time from which any server may delete the files."""


class Study(Base):
    """A study: a question over several jobs, and its answer."""

    __tablename__ = "studies"
    __table_args__ = (Index(None, "project", "created_at", "id"), Index(None, "state"))

    id: Mapped[str] = mapped_column(String(32), primary_key=True, default=new_id)
    project: Mapped[str] = mapped_column(ForeignKey("projects.name"))
    kind: Mapped[str] = mapped_column(String(32))
    name: Mapped[str] = mapped_column(String(200))
    state: Mapped[str] = mapped_column(String(16), default="running")
    ends_as: Mapped[str | None] = mapped_column(String(16))
    """The state after `stopping`: failed or cancelled."""
    message: Mapped[str | None] = mapped_column(Text)
    spec: Mapped[dict[str, Any]]
    """As given, with the dataset pinned to a version."""
    options: Mapped[dict[str, Any]]
    policies: Mapped[list[str]]
    facts: Mapped[dict[str, Any]]
    """What was known of the devices when it was created."""
    may_run_code: Mapped[bool] = mapped_column(default=False)
    """Whether its jobs may run code of the user: the right of the token that created it."""
    answer: Mapped[dict[str, Any] | None]
    token_id: Mapped[str | None] = mapped_column(String(32))
    created_by: Mapped[str | None] = mapped_column(String(200))
    """The name of the token that created it."""
    request_id: Mapped[str | None] = mapped_column(String(128))
    created_at: Mapped[datetime] = mapped_column(insert_default=now())
    updated_at: Mapped[datetime] = mapped_column(insert_default=now())
    finished_at: Mapped[datetime | None]


class StudyJob(Base):
    """A job that a study needs; its primary key lets the study create the job only once."""

    __tablename__ = "study_jobs"
    __table_args__ = (Index(None, "job_id"),)

    study_id: Mapped[str] = mapped_column(
        ForeignKey("studies.id", ondelete="CASCADE"), primary_key=True
    )
    key: Mapped[str] = mapped_column(String(100), primary_key=True)
    number: Mapped[int]
    """Its place in the order in which the jobs are queued."""
    changes: Mapped[dict[str, Any]]
    """What differs from the study's spec, by dotted path."""
    job_id: Mapped[str | None] = mapped_column(String(32))
    """None until it is queued. No foreign key: the job may be deleted already."""
    result: Mapped[dict[str, Any] | None]
    """How the job ended; it stays when the job is deleted."""


class Worker(Base):
    """A worker process that has registered."""

    __tablename__ = "workers"

    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    hostname: Mapped[str] = mapped_column(String(255))
    pid: Mapped[int]
    slots: Mapped[int]
    version: Mapped[str] = mapped_column(String(32))
    queues: Mapped[list[str]]
    hardware: Mapped[dict[str, Any] | None]
    usage: Mapped[dict[str, Any] | None]
    """Its latest measurements: steps stored, lag, GPU utilization."""
    drain_requested_at: Mapped[datetime | None]
    started_at: Mapped[datetime] = mapped_column(insert_default=now())
    last_seen_at: Mapped[datetime] = mapped_column(insert_default=now())
    stopped_at: Mapped[datetime | None]


class Project(Base):
    """The owner of jobs and datasets, with quotas; a token sees only those of its own project."""

    __tablename__ = "projects"

    name: Mapped[str] = mapped_column(String(64), primary_key=True)
    max_queued: Mapped[int | None]
    max_running: Mapped[int | None]
    max_dataset_bytes: Mapped[int | None] = mapped_column(BigInteger)
    """The stored bytes of its datasets, files and unfinished uploads; None: no limit."""
    created_at: Mapped[datetime] = mapped_column(insert_default=now())


class Token(Base):
    """An access token; only the SHA-256 of the secret is stored."""

    __tablename__ = "tokens"

    id: Mapped[str] = mapped_column(String(32), primary_key=True, default=new_id)
    name: Mapped[str] = mapped_column(String(200))
    digest: Mapped[str] = mapped_column(String(64), unique=True)
    role: Mapped[str] = mapped_column(String(16))
    rights: Mapped[list[str]] = mapped_column(default=list)
    """What it may do besides what its role allows (ampcore.api.roles.Right)."""
    project: Mapped[str] = mapped_column(ForeignKey("projects.name"))
    created_at: Mapped[datetime] = mapped_column(insert_default=now())
    created_by: Mapped[str | None] = mapped_column(String(200))
    expires_at: Mapped[datetime | None]
    revoked_at: Mapped[datetime | None]


class BrowserSession(Base):
    """A browser session, created with a token; only the SHA-256 of the cookie is stored."""

    __tablename__ = "sessions"

    digest: Mapped[str] = mapped_column(String(64), primary_key=True)
    token_id: Mapped[str] = mapped_column(ForeignKey("tokens.id", ondelete="CASCADE"))
    created_at: Mapped[datetime] = mapped_column(insert_default=now())
    expires_at: Mapped[datetime]


class IdempotencyKey(Base):
    """The stored response to a request with an Idempotency-Key."""

    __tablename__ = "idempotency_keys"

    project: Mapped[str] = mapped_column(
        ForeignKey("projects.name", ondelete="CASCADE"), primary_key=True
    )
    key: Mapped[str] = mapped_column(String(255), primary_key=True)
    digest: Mapped[str] = mapped_column(String(64))
    """SHA-256 over method, path and body."""
    status: Mapped[int | None]
    """None while the first request is being handled."""
    headers: Mapped[dict[str, str] | None]
    body: Mapped[str | None] = mapped_column(Text)
    created_at: Mapped[datetime] = mapped_column(insert_default=now())


class AuditEntry(Base):
    """An entry of the audit log: who did what, when, from where."""

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
