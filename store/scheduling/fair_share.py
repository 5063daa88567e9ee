"""Fair share: which project's job is next, which of its jobs, and what its quotas allow.

The project with the smallest share goes first, and of equal ones that with the earliest turn:

    share = (recent device hours + devices in use) / weight

Recent device hours count half after a day; those of running attempts count in full. So a device
that just began to work counts like an hour, and several free slots do not all go to one project.

Inside a project the job with the earliest turn goes first: the time of its submission, less
POINT_S for each point of its priority. So a job of any priority gets its turn.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final

from sqlalchemy import Connection, Select, bindparam, func, select
from sqlalchemy.orm import Session

from ampspec.documents.text import plural
from ampspec.jobs import ACTIVE, Source
from store.access import project_usage
from store.access.project_usage import WINDOW_DAYS
from store.clock import now, seconds_since
from store.tables import Attempt, GangMember, Job, Project

POINT_S: Final = 21_600.0
"""A point of priority is worth so much waiting: 6 hours."""
RESERVED: Final = ("reserved", "ready")
"""The states of a gang's reservation."""


@dataclass(frozen=True)
class Use:
    """The use of devices by a project's jobs, now and recently."""

    jobs: int = 0
    """Jobs that a worker has claimed, and gangs with a reservation."""
    devices: int = 0
    """Of these jobs, and reserved for gangs."""
    recent_hours: float = 0.0
    window_hours: float = 0.0
    """Device hours in the last WINDOW_DAYS."""


@dataclass(frozen=True)
class ProjectShare:
    """A project among those whose jobs wait."""

    project: str
    weight: float
    max_running: int | None
    max_devices: int | None
    max_device_hours: float | None
    use: Use = Use()

    @property
    def share(self) -> float:
        """The project with the smallest one goes first."""
        return (self.use.recent_hours + self.use.devices) / self.weight

    @property
    def has_quota(self) -> bool:
        """Whether anything limits its running jobs."""
        return (self.max_running, self.max_devices, self.max_device_hours) != (None, None, None)

    @property
    def free_devices(self) -> int | None:
        """The devices that its quota leaves; None: any number."""
        return None if self.max_devices is None else max(self.max_devices - self.use.devices, 0)

    def refusal(self, devices: int = 1, *, jobs: int = 1) -> str | None:
        """Why a job may not start now, as a sentence; None: it may.

        Args:
            devices: How many it needs, besides those that are reserved for it.
            jobs: 0 if it has a reservation, and so is counted already.
        """
        name, use = f"The project {self.project!r}", self.use
        if self.max_running == 0 and jobs:
            return f"{name} may not run jobs: its quota is 0. An admin can raise it."
        if self.max_running is not None and use.jobs + jobs > self.max_running:
            return (
                f"{name} has reached its quota of {plural(self.max_running, 'running job')}; "
                "this job starts when one of them ends."
            )
        if self.max_device_hours == 0:
            return f"{name} may not use devices: its quota is 0 device hours."
        if self.max_device_hours is not None and use.window_hours >= self.max_device_hours:
            return (
                f"{name} has used {use.window_hours:.1f} of its quota of "
                f"{self.max_device_hours:g} device hours in {WINDOW_DAYS} days; it starts once "
                f"enough of this use is more than {WINDOW_DAYS} days old."
            )
        if self.max_devices is None or use.devices + devices <= self.max_devices:
            return None
        if devices > self.max_devices:
            return (
                f"It needs {plural(devices, 'device')}, more than the quota of its project "
                f"{self.project!r}, {self.max_devices}."
            )
        return (
            f"{name} uses {use.devices} of its quota of {plural(self.max_devices, 'device')}, and "
            f"this job needs {devices}; it starts when others end."
        )


def project_shares(connection: Connection, projects: Collection[str]) -> dict[str, ProjectShare]:
    """These projects with their quotas and what they use."""
    if not projects:
        return {}
    names = {"projects": list(projects)}
    usage = project_usage.read(connection, projects)
    running = {row.project: row for row in connection.execute(_RUNNING, names)}
    reserved = {row.project: row for row in connection.execute(_RESERVED, names)}
    shares = {}
    for row in _of_projects(connection, projects):
        recent, window = usage.get(row.project, (0.0, 0.0))
        active = running.get(row.project)
        held = [load for load in (active, reserved.get(row.project)) if load is not None]
        hours = float(active.device_s) / 3600 if active is not None else 0.0
        use = Use(
            sum(load.jobs for load in held),
            sum(int(load.devices) for load in held),
            recent + hours,
            window + hours,
        )
        shares[row.project] = ProjectShare(**row._mapping, use=use)
    return shares


def lock_share(session: Session, project_share: ProjectShare) -> ProjectShare:
    """The share of a project now, which no other claim changes until the transaction ends.

    Only projects with a quota are locked. FOR NO KEY UPDATE: inserts of jobs do not wait.
    """
    if not project_share.has_quota:
        return project_share
    session.execute(
        select(Project.name)
        .where(Project.name == project_share.project)
        .with_for_update(key_share=True)
    )
    return project_shares(session.connection(), [project_share.project])[project_share.project]


def turn_at(created_at: datetime, priority: int) -> datetime:
    """The turn of a job."""
    return created_at - timedelta(seconds=POINT_S * priority)


def turn_of(job: Any) -> tuple[datetime, str]:
    """Sorts the jobs of a project in the order of their turns."""
    return job.turn_at or job.created_at, job.id


def first_turns(jobs: Select[Any]) -> Select[Any]:
    """Select each project, and the first turn of its jobs among these; NULL if it has none.

    Args:
        jobs: Jobs in the order of their turns, limited to one.
    """
    turn = jobs.with_only_columns(func.coalesce(Job.turn_at, Job.created_at))
    of_project = turn.where(Job.project == Project.name).correlate(Project).scalar_subquery()
    statement: Any = select(Project.name, of_project)
    return statement  # type: ignore[no-any-return]


def projects_in_turn(
    connection: Connection, turns_of: Select[Any], parameters: Mapping[str, Any] | None = None
) -> list[ProjectShare]:
    """The projects with jobs, the one that may start a job next first.

    A project alone has no share: what it uses is not read, unless it has a quota.

    Args:
        connection: To the database.
        turns_of: From `first_turns`.
        parameters: Of that statement.
    """
    rows = connection.execute(turns_of, parameters)
    turns = {name: first for name, first in rows if first is not None}
    if len(turns) == 1:
        alone = [ProjectShare(**row._mapping) for row in _of_projects(connection, turns)]
        if not any(project_share.has_quota for project_share in alone):
            return alone
    return in_order(project_shares(connection, turns), turns)


def _of_projects(connection: Connection, projects: Collection[str]) -> Sequence[Any]:
    return connection.execute(_PROJECTS, {"projects": list(projects)}).all()


def in_order(
    projects: Mapping[str, ProjectShare], turns: Mapping[str, datetime]
) -> list[ProjectShare]:
    """The projects in the order in which they may start a job."""
    return sorted(
        projects.values(),
        key=lambda project: (project.share, turns[project.project], project.project),
    )


def with_reservation(project_share: ProjectShare, devices: int, *, jobs: int = 1) -> ProjectShare:
    """The share after reserving this number of further devices for this number of further jobs."""
    use = project_share.use
    use = replace(use, jobs=use.jobs + jobs, devices=use.devices + devices)
    return replace(project_share, use=use)


# Built once: building a statement takes as long as executing it.
_OF_PROJECTS: Final = Job.project.in_(bindparam("projects", expanding=True))
_PROJECTS: Final = select(
    Project.name.label("project"),
    Project.weight,
    Project.max_running,
    Project.max_devices,
    Project.max_device_hours,
).where(Project.name.in_(bindparam("projects", expanding=True)))
_RUNNING: Final = (
    select(
        Job.project,
        func.count().label("jobs"),
        func.sum(Attempt.ranks).label("devices"),
        func.sum(Attempt.ranks * seconds_since(Attempt.started_at)).label("device_s"),
    )
    .join(Attempt, (Attempt.job_id == Job.id) & (Attempt.attempt == Job.attempt))
    .where(_OF_PROJECTS, Job.state.in_(ACTIVE), Job.source == Source.SUBMITTED)
    .group_by(Job.project)
)
_RESERVED: Final = (
    select(
        Job.project,
        func.count(Job.id.distinct()).label("jobs"),
        func.sum(GangMember.ranks).label("devices"),
    )
    .join(GangMember, GangMember.job_id == Job.id)
    .where(_OF_PROJECTS, GangMember.finished_at.is_(None), GangMember.state.in_(RESERVED))
    .where(GangMember.lease_expires_at > now())
    .group_by(Job.project)
)
