"""The audit log: one row for each change by a user, written in the transaction of the change."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from ampspec.telemetry.json_values import json_safe
from store.rows import insert_rows
from store.tables import AuditEntry


@dataclass(frozen=True)
class Actor:
    """The token that makes a change, its address and its request."""

    project: str
    token_id: str | None
    token_name: str | None
    address: str | None
    request_id: str | None


def record(
    session: Session,
    actor: Actor,
    action: str,
    target: str | None = None,
    *,
    project: str | None = None,
    **data: Any,
) -> None:
    """Record that the actor did `action` ("job.cancel") to `target`, an id or name.

    `project` is the target's; by default the actor's own. `data` must not contain a secret.
    """
    insert_rows(session, AuditEntry, entry_values(actor, action, target, project=project, **data))


def entry_values(
    actor: Actor, action: str, target: str | None, *, project: str | None, **data: Any
) -> dict[str, Any]:
    """The values of the row that `record` writes, to insert several rows at once."""
    details = {"action": action, "target": target, "data": json_safe(data) or None}
    return {**vars(actor), "project": project or actor.project, **details}


def page(
    session: Session,
    *,
    action: str | None = None,
    project: str | None = None,
    token_id: str | None = None,
    before_id: int | None = None,
    limit: int,
) -> Sequence[AuditEntry]:
    """At most `limit` entries, the newest first; only those older than the entry `before_id`."""
    filters = {"action": action, "project": project, "token_id": token_id}
    statement = select(AuditEntry).filter_by(
        **{name: value for name, value in filters.items() if value is not None}
    )
    if before_id is not None:
        statement = statement.where(AuditEntry.id < before_id)
    return session.scalars(statement.order_by(AuditEntry.id.desc()).limit(limit)).all()
