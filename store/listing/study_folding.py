"""Fold the jobs of each study in a list of jobs into one row, and count what is folded.

Of the jobs of a study that match the filters, the one that was planned first stands for the
others. Its number in the study never changes, so that pages in any order fit together.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import ColumnElement, func, select
from sqlalchemy.orm import Session, aliased

from store.tables import Job, Study, StudyJob


@dataclass
class StudyGroup:
    """A study whose jobs are one row of a list."""

    id: str
    name: str
    kind: str
    state: str
    jobs: int = 0
    """How many of its jobs match the filters."""
    states: dict[str, int] = field(default_factory=dict)
    """How many of these are in each state."""
    jobs_planned: int = 0
    """How many jobs it has planned so far, with those that do not match."""
    jobs_ended: int = 0
    """How many of the planned ones have ended."""
    summary: str | None = None
    """Its answer in a sentence or two; None until there is one."""


def is_first_of_study(
    job: type[Job],
    matching: Callable[[type[Job]], Sequence[ColumnElement[bool]]],
) -> ColumnElement[bool]:
    """Whether a job belongs to no study, or is the first one of its study that matches.

    `matching` are the conditions on an alias of the jobs.
    """
    place, earlier_place, earlier = aliased(StudyJob), aliased(StudyJob), aliased(Job)
    earlier_match = (
        select(1)
        .select_from(place)
        .join(earlier_place, earlier_place.study_id == place.study_id)
        .join(earlier, earlier.id == earlier_place.job_id)
        .where(place.job_id == job.id, earlier_place.number < place.number, *matching(earlier))
        .correlate(job)
        # PostgreSQL turns an EXISTS without it into a join of all studies.
        .offset(0)
    )
    return ~earlier_match.exists()


def belongs_to(study_id: str, job: type[Job] = Job) -> ColumnElement[bool]:
    """Whether a job belongs to a study."""
    return job.id.in_(select(StudyJob.job_id).where(StudyJob.study_id == study_id))


def groups_of(
    session: Session, conditions: Sequence[ColumnElement[bool]], job_ids: Sequence[str]
) -> dict[str, StudyGroup]:
    """The studies of these jobs, by the id of the job, with their jobs that meet the conditions."""
    rows = session.execute(
        select(
            StudyJob.job_id,
            Study.id,
            Study.name,
            Study.kind,
            Study.state,
            # Not the whole answer: that of a search lists all of its runs.
            Study.answer["summary"].as_string().label("summary"),
        )
        .join(Study, Study.id == StudyJob.study_id)
        .where(StudyJob.job_id.in_(job_ids))
    ).all()
    if not rows:
        return {}
    groups = {
        row.id: StudyGroup(row.id, row.name, row.kind, row.state, summary=row.summary)
        for row in rows
    }
    planned: Any = session.execute(
        select(StudyJob.study_id, func.count(), func.count(StudyJob.result))
        .where(StudyJob.study_id.in_(groups))
        .group_by(StudyJob.study_id)
    )
    for study_id, jobs_planned, jobs_ended in planned:
        groups[study_id].jobs_planned = jobs_planned
        groups[study_id].jobs_ended = jobs_ended
    counts: Any = session.execute(
        select(StudyJob.study_id, Job.state, func.count())
        .join(Job, Job.id == StudyJob.job_id)
        .where(StudyJob.study_id.in_(groups), *conditions)
        .group_by(StudyJob.study_id, Job.state)
    )
    for study_id, state, count in counts:
        groups[study_id].jobs += count
        groups[study_id].states[state] = count
    return {row.job_id: groups[row.id] for row in rows}
