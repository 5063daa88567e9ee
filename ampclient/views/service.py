"""The service itself: its workers, who may use it, and what was done."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from ampclient.views.view import Reader, View, optional


@dataclass(frozen=True, kw_only=True)
class Worker(View):
    """A worker process: where it runs, what it has, which jobs it trains."""

    id: str
    hostname: str
    pid: int
    slots: int
    state: str
    version: str
    queues: list[str]
    draining: bool = False
    """It was asked to give its jobs back and to end."""
    hardware: dict[str, Any] | None
    usage: dict[str, Any] | None = None
    jobs: list[str]
    started_at: datetime
    last_seen_at: datetime

    @classmethod
    def readers(cls) -> Mapping[str, Reader]:
        """The times."""
        return dict.fromkeys(("started_at", "last_seen_at"), datetime.fromisoformat)


@dataclass(frozen=True, kw_only=True)
class Token(View):
    """A way in: what it may do (admin, member, viewer), in which project, until when."""

    id: str
    name: str
    role: str
    project: str
    created_at: datetime
    created_by: str | None = None
    expires_at: datetime | None = None
    revoked_at: datetime | None = None

    @classmethod
    def readers(cls) -> Mapping[str, Reader]:
        """The times."""
        return {
            "created_at": datetime.fromisoformat,
            "expires_at": optional(datetime.fromisoformat),
            "revoked_at": optional(datetime.fromisoformat),
        }


@dataclass(frozen=True, kw_only=True)
class NewToken(Token):
    """A token just made; its secret is told this once, and is not printed with the rest."""

    secret: str = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class Session(View):
    """Who the server takes you for."""

    token_id: str
    token_name: str
    role: str
    project: str
    expires_at: datetime | None = None

    @classmethod
    def readers(cls) -> Mapping[str, Reader]:
        """The time."""
        return {"expires_at": optional(datetime.fromisoformat)}


@dataclass(frozen=True, kw_only=True)
class Project(View):
    """Whose jobs they are, and how many may wait and run at one time; None: no limit."""

    name: str
    max_queued: int | None
    max_running: int | None
    queued: int = 0
    running: int = 0
    created_at: datetime

    @classmethod
    def readers(cls) -> Mapping[str, Reader]:
        """The time."""
        return {"created_at": datetime.fromisoformat}


@dataclass(frozen=True, kw_only=True)
class AuditEntry(View):
    """Who did what, from where, in which request."""

    id: int
    at: datetime
    action: str
    target: str | None
    project: str | None
    token_id: str | None
    token_name: str | None
    address: str | None
    request_id: str | None
    data: dict[str, Any] | None

    @classmethod
    def readers(cls) -> Mapping[str, Reader]:
        """The time."""
        return {"at": datetime.fromisoformat}


@dataclass(frozen=True, kw_only=True)
class ServerVersion(View):
    """The version of the server, of its API, and of its database schema if it tells."""

    version: str
    api: str
    schema: str | None = None
