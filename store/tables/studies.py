"""The tables of studies and of the jobs that they need."""

from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, Index, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from store.clock import now
from store.tables.base import Base, new_id


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
    """As submitted, with the dataset pinned to a version."""
    options: Mapped[dict[str, Any]]
    policies: Mapped[list[str]]
    facts: Mapped[dict[str, Any]]
    """Facts about the devices at the time of its creation."""
    may_run_code: Mapped[bool] = mapped_column(default=False)
    """Whether its jobs may run code of the user: the scope of the token that created it."""
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
    """Differences from the study's spec, by dotted path."""
    job_id: Mapped[str | None] = mapped_column(String(32))
    """None until it is queued. No foreign key: the job may be deleted already."""
    result: Mapped[dict[str, Any] | None]
    """How the job ended; it stays when the job is deleted."""
