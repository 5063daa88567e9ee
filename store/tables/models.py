"""The tables of the model registry: models, their versions, aliases and the aliases' history."""

from datetime import datetime
from typing import Any

from sqlalchemy import (
    BigInteger,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    String,
    Text,
    UniqueConstraint,
)
from sqlalchemy.orm import Mapped, mapped_column

from store.clock import now
from store.tables.base import Base, new_id


class RegisteredModel(Base):
    """A model of a project. It exists for users while it has a version that is not deleted.

    Its row stays after that, because the number of a version is never used again.
    """

    __tablename__ = "registered_models"
    __table_args__ = (UniqueConstraint("project", "name"),)

    id: Mapped[str] = mapped_column(String(32), primary_key=True, default=new_id)
    project: Mapped[str] = mapped_column(ForeignKey("projects.name"))
    name: Mapped[str] = mapped_column(String(64))
    last_number: Mapped[int] = mapped_column(default=0)
    """The number of the version that was registered last."""
    note: Mapped[str | None] = mapped_column(Text)
    tags: Mapped[dict[str, str]]
    gates: Mapped[dict[str, Any]]
    """By alias, the assertions that a version must satisfy before it gets the alias."""
    created_at: Mapped[datetime] = mapped_column(insert_default=now())
    created_by: Mapped[str | None] = mapped_column(String(200))


class ModelVersion(Base):
    """A version of a model: files of one job, and where they come from. Only notes change."""

    __tablename__ = "model_versions"
    __table_args__ = (Index(None, "job_id"),)

    model_id: Mapped[str] = mapped_column(
        ForeignKey("registered_models.id", ondelete="CASCADE"), primary_key=True
    )
    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    job_id: Mapped[str | None] = mapped_column(ForeignKey("jobs.id"))
    """The job whose files it has. The database refuses to delete the job before the version; None
    once the job of a deleted version is deleted."""
    job_name: Mapped[str] = mapped_column(String(200))
    files: Mapped[list[Any]]
    """One entry for each format: its file, size and SHA-256, or why it has none."""
    lineage: Mapped[dict[str, Any]]
    """The data, code, study and environment of the job."""
    metrics: Mapped[dict[str, Any]]
    signature: Mapped[dict[str, Any] | None]
    """The names, shapes and dtypes of inputs and outputs."""
    note: Mapped[str | None] = mapped_column(Text)
    tags: Mapped[dict[str, str]]
    created_at: Mapped[datetime] = mapped_column(insert_default=now())
    created_by: Mapped[str | None] = mapped_column(String(200))
    deleted_at: Mapped[datetime | None]
    deleted_by: Mapped[str | None] = mapped_column(String(200))


class ModelAlias(Base):
    """A name of one version of a model at a time, such as `champion`."""

    __tablename__ = "model_aliases"
    __table_args__ = (
        ForeignKeyConstraint(
            ["model_id", "number"],
            ["model_versions.model_id", "model_versions.number"],
            name="fk_model_aliases_model_versions",
        ),
        Index(None, "model_id", "number"),
    )

    model_id: Mapped[str] = mapped_column(String(32), primary_key=True)
    alias: Mapped[str] = mapped_column(String(64), primary_key=True)
    number: Mapped[int]
    updated_at: Mapped[datetime] = mapped_column(insert_default=now())
    updated_by: Mapped[str | None] = mapped_column(String(200))


class ModelAliasChange(Base):
    """An alias that was set, moved or removed, or a promotion that was refused."""

    __tablename__ = "model_alias_changes"
    __table_args__ = (Index(None, "model_id", "id"),)

    id: Mapped[int] = mapped_column(
        BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True
    )
    model_id: Mapped[str] = mapped_column(ForeignKey("registered_models.id", ondelete="CASCADE"))
    alias: Mapped[str] = mapped_column(String(64))
    from_number: Mapped[int | None]
    to_number: Mapped[int | None]
    """The version that has the alias after it, or would have it; None: the alias is removed."""
    outcome: Mapped[str] = mapped_column(String(16))
    """`set`, `removed`, `promoted`, `refused` or `undecided`."""
    reason: Mapped[str | None] = mapped_column(Text)
    checks: Mapped[list[Any] | None]
    """The assertions of a promotion, with the values that were compared."""
    created_at: Mapped[datetime] = mapped_column(insert_default=now())
    created_by: Mapped[str | None] = mapped_column(String(200))
