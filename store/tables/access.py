"""The tables of projects, of access to them, and of what was done with it."""

from datetime import datetime
from typing import Any

from sqlalchemy import (
    BigInteger,
    Dialect,
    ForeignKey,
    Index,
    Integer,
    String,
    Text,
    TypeDecorator,
    UniqueConstraint,
)
from sqlalchemy.orm import Mapped, mapped_column

from ampspec.api.roles import current_scope, former_scopes
from store.clock import now
from store.tables.base import Base, JsonColumn, new_id


class ScopesColumn(TypeDecorator[list[str]]):
    """Permissions beyond the role (ampspec.api.roles.Scope), also by their names in version 0.5.

    Its servers may share the database.
    """

    impl = JsonColumn
    cache_ok = True

    def process_bind_param(self, value: list[str] | None, dialect: Dialect) -> list[str] | None:
        """Add the names of version 0.5."""
        return None if value is None else [*value, *former_scopes(value)]

    def process_result_value(self, value: Any, dialect: Dialect) -> Any:
        """Convert the names of version 0.5. A value that is no list is damaged, and stays."""
        if not isinstance(value, list):
            return value
        names = [current_scope(name) for name in value]
        return [name for index, name in enumerate(names) if name not in names[:index]]


class Project(Base):
    """The owner of jobs and datasets, with quotas; a token sees only those of its own project.

    A quota of None is no limit.
    """

    __tablename__ = "projects"

    name: Mapped[str] = mapped_column(String(64), primary_key=True)
    max_queued: Mapped[int | None]
    max_running: Mapped[int | None]
    max_devices: Mapped[int | None]
    """The devices that its jobs may have at one time; each rank has one."""
    max_device_hours: Mapped[float | None]
    """The device hours of its jobs in 30 days (store.scheduling.fair_share)."""
    max_dataset_bytes: Mapped[int | None] = mapped_column(BigInteger)
    """The stored bytes of its datasets, files and unfinished uploads."""
    max_artifact_bytes: Mapped[int | None] = mapped_column(BigInteger)
    """The stored bytes of the artifacts of its jobs."""
    weight: Mapped[float] = mapped_column(default=1.0, server_default="1")
    """Its part of the devices, relative to the weights of other projects."""
    created_at: Mapped[datetime] = mapped_column(insert_default=now())


class ProjectUsage(Base):
    """How long devices worked for the ended attempts of a project, by the day of their end."""

    __tablename__ = "project_usage"

    project: Mapped[str] = mapped_column(
        ForeignKey("projects.name", ondelete="CASCADE"), primary_key=True
    )
    day: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    """Days since 1970 in UTC."""
    device_s: Mapped[float]


class ProjectStorage(Base):
    """What a project stores. Triggers of the tables of artifacts and jobs change it (0026)."""

    __tablename__ = "project_storage"

    project: Mapped[str] = mapped_column(
        ForeignKey("projects.name", ondelete="CASCADE"), primary_key=True
    )
    artifact_bytes: Mapped[int] = mapped_column(BigInteger)


class ProjectRetention(Base):
    """What is deleted of the jobs of a project, and when (store.retention)."""

    __tablename__ = "project_retention"

    project: Mapped[str] = mapped_column(
        ForeignKey("projects.name", ondelete="CASCADE"), primary_key=True
    )
    rules: Mapped[list[Any]]
    """Each an ampspec.api.retention.RetentionRule."""
    changed_at: Mapped[datetime] = mapped_column(insert_default=now())
    changed_by: Mapped[str | None] = mapped_column(String(200))
    next_run_at: Mapped[datetime]


class Token(Base):
    """An access token; only the SHA-256 of the secret is stored."""

    __tablename__ = "tokens"

    id: Mapped[str] = mapped_column(String(32), primary_key=True, default=new_id)
    name: Mapped[str] = mapped_column(String(200))
    digest: Mapped[str] = mapped_column(String(64), unique=True)
    role: Mapped[str] = mapped_column(String(16))
    scopes: Mapped[list[str]] = mapped_column("rights", ScopesColumn, default=list)
    project: Mapped[str] = mapped_column(ForeignKey("projects.name"))
    created_at: Mapped[datetime] = mapped_column(insert_default=now())
    created_by: Mapped[str | None] = mapped_column(String(200))
    expires_at: Mapped[datetime | None]
    revoked_at: Mapped[datetime | None]
    owner_id: Mapped[str | None] = mapped_column(String(32))
    """The person whose token it is, and without whose access it is not valid; None: nobody's."""


class FormerSecret(Base):
    """A secret that a token had before it was rotated; it stays, so that it never counts as new."""

    __tablename__ = "former_secrets"
    __table_args__ = (Index(None, "token_id"),)

    digest: Mapped[str] = mapped_column(String(64), primary_key=True)
    token_id: Mapped[str] = mapped_column(ForeignKey("tokens.id", ondelete="CASCADE"))
    valid_until: Mapped[datetime]


class BrowserSession(Base):
    """A browser session, created with a token; only the SHA-256 of the cookie is stored."""

    __tablename__ = "sessions"

    digest: Mapped[str] = mapped_column(String(64), primary_key=True)
    token_id: Mapped[str] = mapped_column(ForeignKey("tokens.id", ondelete="CASCADE"))
    created_at: Mapped[datetime] = mapped_column(insert_default=now())
    expires_at: Mapped[datetime]


class Person(Base):
    """Somebody who has signed in with a provider, known by issuer and subject."""

    __tablename__ = "people"
    __table_args__ = (UniqueConstraint("issuer", "subject"),)

    id: Mapped[str] = mapped_column(String(32), primary_key=True, default=new_id)
    issuer: Mapped[str] = mapped_column(String(500))
    subject: Mapped[str] = mapped_column(String(255))
    email: Mapped[str | None] = mapped_column(String(320))
    name: Mapped[str] = mapped_column(String(200))
    groups: Mapped[list[str]]
    """Those that the provider named at the last sign-in."""
    grants: Mapped[list[Any]]
    """What these groups allow, each as in `ampspec.api.roles.Grant`; empty: nothing."""
    created_at: Mapped[datetime] = mapped_column(insert_default=now())
    signed_in_at: Mapped[datetime]
    access_until: Mapped[datetime]
    """Until then tokens and studies of the person are valid, unless it signs in again."""


class PersonSession(Base):
    """A browser session of a person; only the SHA-256 of the cookie is stored."""

    __tablename__ = "person_sessions"
    __table_args__ = (Index(None, "person_id"),)

    id: Mapped[str] = mapped_column(String(32), primary_key=True, default=new_id)
    digest: Mapped[str] = mapped_column(String(64), unique=True)
    person_id: Mapped[str] = mapped_column(ForeignKey("people.id", ondelete="CASCADE"))
    project: Mapped[str | None] = mapped_column(String(64))
    """The project that is open, of those that the person has."""
    address: Mapped[str | None] = mapped_column(String(64))
    user_agent: Mapped[str | None] = mapped_column(String(200))
    created_at: Mapped[datetime] = mapped_column(insert_default=now())
    used_at: Mapped[datetime] = mapped_column(insert_default=now())
    idle_s: Mapped[float]
    """It ends when it has not been used for so long."""
    expires_at: Mapped[datetime]


class SignIn(Base):
    """A sign-in that has been sent to the provider and has not come back."""

    __tablename__ = "sign_ins"

    state: Mapped[str] = mapped_column(String(64), primary_key=True)
    """SHA-256 of the state in the request; no two responses can have the same."""
    browser: Mapped[str] = mapped_column(String(64))
    """SHA-256 of the cookie of the browser that began it."""
    return_to: Mapped[str] = mapped_column(String(1000))
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
    __table_args__ = (
        Index(None, "project", "id"),
        Index(None, "action", "id"),
        Index(None, "token_id", "id"),
    )

    id: Mapped[int] = mapped_column(
        BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True
    )
    at: Mapped[datetime] = mapped_column(insert_default=now())
    action: Mapped[str] = mapped_column(String(40))
    """For example "job.cancel" or "token.create"."""
    target: Mapped[str | None] = mapped_column(String(200))
    project: Mapped[str | None] = mapped_column(String(64))
    token_id: Mapped[str | None] = mapped_column(String(32))
    token_name: Mapped[str | None] = mapped_column(String(200))
    address: Mapped[str | None] = mapped_column(String(64))
    request_id: Mapped[str | None] = mapped_column(String(128))
    data: Mapped[dict[str, Any] | None]
