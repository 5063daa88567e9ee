"""The orders of a list of jobs: by a field of the job, or by a metric of its last evaluation."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from sqlalchemy import ColumnElement, and_, or_, select
from sqlalchemy.orm import InstrumentedAttribute

from ampspec.jobs import ACTIVE
from store.tables import Job, JobMetric


class Sort(StrEnum):
    """The sort key of a list; with a dash, in descending order."""

    CREATED_AT = "created_at"
    NEWEST = "-created_at"
    UPDATED_AT = "updated_at"
    LAST_UPDATED = "-updated_at"
    NAME = "name"
    NAME_DESCENDING = "-name"
    PRIORITY = "priority"
    HIGHEST_PRIORITY = "-priority"

    @property
    def descends(self) -> bool:
        """Whether the order is descending."""
        return self.startswith("-")

    @property
    def field(self) -> str:
        """The job's field without the dash."""
        return self.removeprefix("-")

    @property
    def key(self) -> InstrumentedAttribute[Any]:
        """The column to sort by."""
        return COLUMNS[self.field]

    @property
    def is_fixed(self) -> bool:
        """Whether no job ever moves in this order."""
        return self.field == "created_at"

    def moved_since(self, moment: datetime) -> ColumnElement[bool]:
        """Whether a job may have moved in this order after a moment."""
        if self.field == "updated_at":
            is_updated = and_(Job.state.in_(ACTIVE), Job.updated_at > moment)
            return or_(Job.changed_at > moment, is_updated)
        return Job.edited_at > moment


@dataclass(frozen=True)
class MetricSort:
    """The order by a metric; jobs without it follow, the newest first."""

    field: str
    descends: bool = False

    @property
    def key(self) -> InstrumentedAttribute[Any]:
        """The column to sort by."""
        return JobMetric.value

    @property
    def is_fixed(self) -> bool:
        """Each evaluation may move its job."""
        return False

    def moved_since(self, moment: datetime) -> ColumnElement[bool]:
        """Whether the metric of a job was written after a moment."""
        return Job.id.in_(
            select(JobMetric.job_id).where(
                JobMetric.name == self.field, JobMetric.updated_at > moment
            )
        )

    def __str__(self) -> str:
        return f"-{self.field}" if self.descends else self.field


JobOrder = Sort | MetricSort

COLUMNS: Final[dict[str, InstrumentedAttribute[Any]]] = {
    "created_at": Job.created_at,
    "updated_at": Job.updated_at,
    "name": Job.name,
    "priority": Job.priority,
}
