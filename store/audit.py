"""Who did what: a row for each change that a person asked for, in the change's own transaction."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from ampcore.series.jsonable import finite_json
from store.rows import write_down
from store.tables import AuditEntry


@dataclass(frozen=True)
class Actor:
    """Who asks for a change, from where, in which request."""

    project: str
    token_id: str | None
    token_name: str | None
    address: str | None
    request_id: str | None


def note(
    session: Session,
    actor: Actor,
    action: str,
    target: str | None = None,
    *,
    project: str | None = None,
    **data: Any,
) -> None:
    """Write down that the actor did `action` ("job.cancel") to `target`, the id or name of a thing.

    `project` is the thing's; left out, the actor's own. A secret never belongs into `data`.
    """
    write_down(session, AuditEntry, entry(actor, action, target, project=project, **data))


def entry(
    actor: Actor, action: str, target: str | None, *, project: str | None, **data: Any
) -> dict[str, Any]:
    """The row that `note` writes, for who writes down several at once."""
    told = {**vars(actor), "project": project or actor.project}
    return {**told, "action": action, "target": target, "data": finite_json(data) or None}


def page(
    session: Session,
    *,
    action: str | None = None,
    project: str | None = None,
    token_id: str | None = None,
    before: int | None = None,
    limit: int,
) -> Sequence[AuditEntry]:
    """At most `limit` entries, the newest first; those older than the entry `before`."""
    wanted = {"action": action, "project": project, "token_id": token_id}
    statement = select(AuditEntry).filter_by(
        **{name: value for name, value in wanted.items() if value is not None}
    )
    if before is not None:
        statement = statement.where(AuditEntry.id < before)
    return session.scalars(statement.order_by(AuditEntry.id.desc()).limit(limit)).all()
