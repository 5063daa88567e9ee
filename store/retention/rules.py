"""The stored retention rules of each project."""

from collections.abc import Sequence
from typing import Final

from sqlalchemy import delete, select, update
from sqlalchemy.orm import Session

from ampspec.api.retention import RetentionRule
from store.access import projects
from store.clock import from_now, now
from store.tables import ProjectRetention

RUN_EVERY_S: Final = 3_600.0
"""Between two times at which the rules of a project are applied."""


def get(session: Session, project: str) -> ProjectRetention | None:
    """The rules of a project; None if it never had any."""
    return session.get(ProjectRetention, project, populate_existing=True)


def parsed(row: ProjectRetention | None) -> list[RetentionRule]:
    """The rules of a row, or none."""
    return [RetentionRule.model_validate(rule) for rule in row.rules] if row is not None else []


def replace(
    session: Session, project: str, rules: Sequence[RetentionRule], changed_by: str | None
) -> ProjectRetention:
    """Set the rules of a project; they are applied an hour later for the first time."""
    projects.ensure(session, project)
    values = {
        "rules": [rule.model_dump(mode="json") for rule in rules],
        "changed_at": now(),
        "changed_by": changed_by,
        "next_run_at": from_now(RUN_EVERY_S),
    }
    row = ProjectRetention(project=project, **values)
    session.merge(row)
    session.flush()
    return session.get_one(ProjectRetention, project, populate_existing=True)


def remove(session: Session, project: str) -> bool:
    """Delete the rules of a project; whether there were any."""
    statement = delete(ProjectRetention).where(ProjectRetention.project == project)
    return session.execute(statement.returning(ProjectRetention.project)).first() is not None


def due(session: Session) -> Sequence[str]:
    """The projects whose rules are to be applied."""
    statement = select(ProjectRetention.project).where(ProjectRetention.next_run_at <= now())
    return session.scalars(statement.order_by(ProjectRetention.next_run_at)).all()


def mark_applied(session: Session, project: str) -> None:
    """Apply the rules again after RUN_EVERY_S."""
    session.execute(
        update(ProjectRetention)
        .where(ProjectRetention.project == project)
        .values(next_run_at=from_now(RUN_EVERY_S))
        .execution_options(synchronize_session=False)
    )
