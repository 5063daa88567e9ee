"""How long devices worked for each project: recorded when an attempt ends, read by day."""

from collections import defaultdict
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from sqlalchemy import Connection, bindparam, select
from sqlalchemy.orm import Session

from store.clock import now
from store.rows import insert_or_add
from store.tables import ProjectUsage

DAY_S: Final = 86_400.0
WINDOW_DAYS: Final = 30
"""The days in which a quota of device hours counts."""
HALF_LIFE_DAYS: Final = 1.0
"""The number of days after which use counts half."""

_USAGE: Final = select(ProjectUsage.project, ProjectUsage.day, ProjectUsage.device_s).where(
    ProjectUsage.project.in_(bindparam("projects", expanding=True)),
    ProjectUsage.day > bindparam("after_day"),
)


def record(session: Session, project: str, attempt: Any) -> None:
    """Add the devices of an attempt that has ended, for the time that it took."""
    taken_s = max((attempt.finished_at - attempt.started_at).total_seconds(), 0.0)
    session.execute(
        insert_or_add(
            session,
            ProjectUsage,
            {"project": project, "day": int(_day(attempt.finished_at))},
            device_s=taken_s * attempt.ranks,
        )
    )


def read(connection: Connection, projects: Collection[str]) -> Mapping[str, tuple[float, float]]:
    """By project: the device hours that count as recent, and those of the last WINDOW_DAYS.

    A day counts half as much for each HALF_LIFE_DAYS that it lies back.
    """
    today = _day(connection.scalar(select(now())) or datetime.now(UTC))
    parameters = {"projects": list(projects), "after_day": int(today) - WINDOW_DAYS}
    hours: defaultdict[str, tuple[float, float]] = defaultdict(lambda: (0.0, 0.0))
    for row in connection.execute(_USAGE, parameters):
        age_days = max(today - (row.day + 1), 0.0)
        recent, window = hours[row.project]
        used_h = row.device_s / 3600
        hours[row.project] = (recent + used_h * 0.5 ** (age_days / HALF_LIFE_DAYS), window + used_h)
    return dict(hours)


def _day(moment: datetime) -> float:
    """Days since 1970 in UTC."""
    return moment.timestamp() / DAY_S
