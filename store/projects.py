"""Projects: whose jobs they are, and how many of them may wait and run at one time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import bindparam, case, func, select
from sqlalchemy.orm import Session

from ampcore.spec import ACTIVE, State
from store.rows import insert_new
from store.tables import Job, Project

DEFAULT: Final = "default"
"""The project that is always there."""

NAME: Final = r"[a-z0-9][a-z0-9._-]{0,63}"
"""What a project may be called, as a regular expression."""

RETRY_AFTER_S: Final = 5
"""A place in a full queue becomes free when a worker takes a job: often within seconds."""


# Made once, since every submit asks it. Without the key: jobs that others write for the project do
# not wait for us.
_MOST: Final = (
    select(Project.max_queued)
    .where(Project.name == bindparam("name"), Project.max_queued.is_not(None))
    .with_for_update(key_share=True)
)


class QuotaExceeded(Exception):
    """As many jobs of the project wait as it may have in the queue."""

    retry_after_s = RETRY_AFTER_S


@dataclass(frozen=True)
class Load:
    """How many jobs of a project wait, and how many a worker has."""

    queued: int = 0
    running: int = 0


def ensure(session: Session, name: str) -> None:
    """Make sure that there is such a project; a new one has no quotas."""
    session.execute(insert_new(session, Project, name=name))


def get(session: Session, name: str) -> Project | None:
    """The project of that name."""
    return session.get(Project, name, populate_existing=True)


def update(session: Session, name: str, quotas: Mapping[str, int | None]) -> Project:
    """Set `max_queued`, `max_running`, or both; None: no limit.

    A project that is not there yet is made.
    """
    ensure(session, name)
    project = session.get_one(Project, name, populate_existing=True)
    for quota, most in quotas.items():
        setattr(project, quota, most)
    session.flush()
    return project


def listing(session: Session) -> Sequence[Project]:
    """Every project, by name."""
    return session.scalars(select(Project).order_by(Project.name)).all()


def load(session: Session) -> Mapping[str, Load]:
    """How many jobs wait and run in each project that has any."""
    waiting = func.sum(case((Job.state == State.QUEUED, 1), else_=0))
    rows = session.execute(
        select(Job.project, waiting, func.count())
        .where(Job.state.in_([State.QUEUED, *ACTIVE]))
        .group_by(Job.project)
    )
    return {name: Load(queued, both - queued) for name, queued, both in rows}


def refuse_if_full(session: Session, name: str, more: int = 1) -> None:
    """Raises QuotaExceeded when so many more jobs of the project may not be queued.

    The project's row stays locked until the transaction ends, so that of two requests at one
    time the second counts what the first has queued.
    """
    most = session.scalar(_MOST, {"name": name})
    if most is None:
        return
    queued = select(func.count()).where(Job.project == name, Job.state == State.QUEUED)
    if (session.scalar(queued) or 0) + more > most:
        raise QuotaExceeded(
            f"The project {name!r} has as many jobs in the queue as its quota of {most} allows. "
            "Try again when a worker has taken one of them."
        )
