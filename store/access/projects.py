"""Projects, and the quota of their queued jobs.

The quotas of running jobs and devices are in store.scheduling.fair_share, that of bytes in
store.files.datasets.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import bindparam, case, func, select
from sqlalchemy.orm import Session

from ampspec.jobs import ACTIVE, Source, State
from store.rows import insert_if_absent
from store.tables import Job, Project

DEFAULT_PROJECT: Final = "default"
"""The project that always exists."""

RETRY_AFTER_S: Final = 5
"""Retry-After for a full queue: a worker often claims a job within seconds."""


# Built once: every submission executes it. FOR NO KEY UPDATE: inserts of jobs with a foreign key to
# the project do not wait.
_QUEUE_QUOTA: Final = (
    select(Project.max_queued)
    .where(Project.name == bindparam("name"), Project.max_queued.is_not(None))
    .with_for_update(key_share=True)
)


class QuotaReached(Exception):
    """The project has as many queued jobs, or tracked runs, as its quota allows."""

    retry_after_s = RETRY_AFTER_S


@dataclass(frozen=True)
class ProjectLoad:
    """The number of queued jobs of a project, and of those that a worker has claimed."""

    queued: int = 0
    running: int = 0


def ensure(session: Session, name: str) -> None:
    """Create the project if it does not exist; a new one has no quotas."""
    session.execute(insert_if_absent(session, Project, name=name))


def get(session: Session, name: str) -> Project | None:
    """The project with that name, or None."""
    return session.get(Project, name, populate_existing=True)


def update(session: Session, name: str, changes: Mapping[str, float | None]) -> Project:
    """Set quotas or the weight, by the names of their columns; a quota of None means no limit.

    The project is created if it does not exist.
    """
    ensure(session, name)
    project = session.get_one(Project, name, populate_existing=True)
    for column, value in changes.items():
        setattr(project, column, value)
    session.flush()
    return project


def listing(session: Session) -> Sequence[Project]:
    """Every project, by name."""
    return session.scalars(select(Project).order_by(Project.name)).all()


def load_by_project(session: Session) -> Mapping[str, ProjectLoad]:
    """The number of queued and running jobs of each project that has any."""
    queued_count = func.sum(case((Job.state == State.QUEUED, 1), else_=0))
    rows = session.execute(
        select(Job.project, queued_count, func.count())
        .where(Job.state.in_([State.QUEUED, *ACTIVE]), Job.source == Source.SUBMITTED)
        .group_by(Job.project)
    )
    return {name: ProjectLoad(queued, total - queued) for name, queued, total in rows}


def queue_room(session: Session, name: str) -> int | None:
    """How many further jobs of the project may be queued now; None means no limit.

    The project's row stays locked until the transaction ends, as by `check_queue_quota`.
    """
    quota = session.scalar(_QUEUE_QUOTA, {"name": name})
    if quota is None:
        return None
    queued_count = select(func.count()).where(Job.project == name, Job.state == State.QUEUED)
    return max(quota - (session.scalar(queued_count) or 0), 0)


def check_queue_quota(session: Session, name: str, more: int = 1) -> None:
    """Raise QuotaReached if `more` further jobs of the project may not be queued.

    The project's row stays locked until the transaction ends, so that of two concurrent requests
    the second one counts the jobs of the first.
    """
    quota = session.scalar(_QUEUE_QUOTA, {"name": name})
    if quota is None:
        return
    queued_count = select(func.count()).where(Job.project == name, Job.state == State.QUEUED)
    if (session.scalar(queued_count) or 0) + more > quota:
        raise QuotaReached(
            f"The project {name!r} has reached its quota of {quota} queued jobs. "
            "Try again when a worker has started one of them."
        )
