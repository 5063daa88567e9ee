"""The tables of what jobs report: steps, events, range samples, logs."""

from datetime import datetime
from typing import Any, Final

from sqlalchemy import BigInteger, ForeignKey, Index, LargeBinary, String, Text, literal_column
from sqlalchemy.orm import Mapped, mapped_column

from store.clock import now
from store.tables.base import Base


class StepBlockRow(Base):
    """Encoded steps (ampspec.telemetry.steps.codec) of an attempt: one block, or several merged."""

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
    """The seq, end and statistics of each merged block (ampspec.telemetry.steps.merge_index).

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


class RunThroughput(Base):
    """The throughput histogram of a tracked run, from which its median is updated.

    A worker keeps the histogram of its attempt in memory; the servers that store the steps of a
    run share this one.
    """

    __tablename__ = "run_throughputs"

    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True)
    histogram: Mapped[dict[str, Any]]
    columns: Mapped[list[str] | None]
    """The names of the columns that were sent; None: not known, of a run of an older version."""


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
    """The exponents of every layer's values before one step (`range_samples`)."""

    __tablename__ = "range_samples"
    __table_args__ = (Index(None, "job_id", "step"),)

    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True)
    seq: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    attempt: Mapped[int]
    step: Mapped[int] = mapped_column(BigInteger)
    data: Mapped[dict[str, Any]]


class LogRow(Base):
    """A piece of the output of a trainer process."""

    __tablename__ = "log_chunks"

    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True)
    seq: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    attempt: Mapped[int]
    stream: Mapped[str] = mapped_column(String(8))
    text: Mapped[str] = mapped_column(Text)
    created_at: Mapped[datetime] = mapped_column(insert_default=now())
