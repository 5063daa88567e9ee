"""The tables of datasets, of their versions and of uploads in progress."""

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, ForeignKey, Index, String, Text, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from store.clock import now
from store.tables.base import Base, new_id


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
    options: Mapped[dict[str, Any] | None]
    """How the file is read: the defaults of jobs that are trained on it."""
    splits: Mapped[dict[str, Any] | None]
    """The rows of each split."""
    left_out: Mapped[list[Any] | None]
    """Parts of the file that are not read: each a `name` and a `reason`."""
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
    """The SHA-256 that the client expects; None if it sent none."""
    offset_bytes: Mapped[int] = mapped_column(BigInteger, default=0)
    """How many bytes are stored."""
    parts: Mapped[list[Any]]
    """The name, size and SHA-256 of each stored part, in order."""
    number: Mapped[int | None]
    """The version that it has become; None while it is in progress."""
    created_at: Mapped[datetime] = mapped_column(insert_default=now())
    created_by: Mapped[str | None] = mapped_column(String(200))
    expires_at: Mapped[datetime]
