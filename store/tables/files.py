"""The tables of stored files: artifacts of jobs, files that jobs name, files to be deleted."""

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, ForeignKey, ForeignKeyConstraint, Index, Integer, String
from sqlalchemy.orm import Mapped, mapped_column

from store.clock import now
from store.tables.base import Base


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


class JobFileLink(Base):
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
    folder: Mapped[str] = mapped_column("job_id", String(32))
    """A folder of the storage: a job's id, or another one. No foreign key: jobs are deleted."""
    path: Mapped[str | None] = mapped_column(String(500))
    """None: every file of the folder."""
    due_at: Mapped[datetime]
    """The time from which any server may delete the files."""
