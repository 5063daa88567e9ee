"""Jobs without a turn, which servers of an older version have queued during or after an upgrade.

On PostgreSQL such a job would go after all others of its project.
"""

from collections.abc import Collection
from typing import Final

from sqlalchemy import Connection, bindparam, select, update
from sqlalchemy.orm import Session

from store.scheduling.fair_share import turn_at
from store.tables import QUEUED, Job, Project

MAX_FILLED: Final = 1_000
"""Jobs whose turns are filled in one transaction."""


def projects(connection: Connection) -> list[str]:
    """The projects that have queued jobs without a turn."""
    return list(connection.scalars(_PROJECTS))


def fill(session: Session, projects: Collection[str]) -> None:
    """Set the turns of the queued jobs of these projects that have none."""
    rows = session.execute(
        select(Job.id, Job.created_at, Job.priority)
        .where(Job.state == QUEUED, Job.turn_at.is_(None), Job.project.in_(projects))
        .order_by(Job.id)
        .limit(MAX_FILLED)
        .with_for_update(of=Job, skip_locked=True)
    ).all()
    turns = [{"job_id": row.id, "turn": turn_at(row.created_at, row.priority)} for row in rows]
    if turns:
        session.connection().execute(_SET_TURN, turns)


# Built once: building a statement takes as long as executing it. Project by project, and in order,
# so that the index on turns serves this query of each second.
_PROJECTS: Final = select(Project.name).where(
    select(Job.id)
    .where(Job.state == QUEUED, Job.turn_at.is_(None), Job.project == Project.name)
    .correlate(Project)
    .order_by(Job.turn_at, Job.id)
    .limit(1)
    .scalar_subquery()
    .is_not(None)
)
_SET_TURN: Final = (
    update(Job).where(Job.id == bindparam("job_id")).values(turn_at=bindparam("turn"))
)
