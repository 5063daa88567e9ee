"""Cancel, delete or label all jobs that match a filter: a number of jobs in each transaction."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Any, Final

from sqlalchemy import bindparam, delete, insert, not_, or_, select
from sqlalchemy.orm import Session

from ampspec.jobs import ACTIVE, TERMINAL, Reason, State
from store.clock import now
from store.jobs import trash
from store.jobs.jobs import CANCEL, delete_ended_allocations, edit, is_needed
from store.jobs.state_transitions import change_states
from store.listing.search_filters import Search, has_label, matching
from store.listing.search_plan import plan_for_values
from store.models.job_references import (
    is_registered,
    jobs_of_deleted_versions,
    release_jobs,
)
from store.tables import FileRemoval, Job

WAITING: Final = (State.QUEUED, State.PAUSED)
CANCELLABLE: Final = (*WAITING, *(ACTIVE - {State.STOPPING}))
MAX_DELETION_S: Final = 4.0
"""A transaction deletes jobs for this long, and at least one."""


_IS_FREE: Final = (~is_needed(Job.id), ~is_registered(Job.id))


@dataclass(frozen=True)
class ChangedJob:
    """A job that was changed or deleted, and its project."""

    id: str
    project: str


@dataclass(frozen=True)
class BulkChange:
    """The jobs that one transaction has changed, and whether more of them match."""

    jobs: Sequence[ChangedJob]
    has_more: bool


def cancel_matching(session: Session, search: Search, *, limit: int) -> BulkChange:
    """Cancel jobs that match: waiting ones at once, running ones by a request to their workers."""
    matching = _lock(session, search, limit, Job.state.in_(CANCELLABLE))
    ids = [row.id for row in matching.jobs]
    change_states(
        session,
        ids,
        WAITING,
        State.CANCELLED,
        reason=Reason.USER_REQUEST,
        message="Cancelled on request; no worker was running it.",
        finished_at=now(),
    )
    running = set(CANCELLABLE) - set(WAITING)
    change_states(session, ids, running, State.STOPPING, requested=CANCEL)
    return matching


def trash_matching(session: Session, search: Search, *, limit: int, keep_s: float) -> BulkChange:
    """Put ended jobs that match into the trash for `keep_s` seconds; those that others need stay.

    So do those that versions of models were made from. With 0 seconds they are deleted at once.
    """
    if keep_s <= 0:
        return delete_matching(session, search, limit=limit)
    matching = _lock(session, search, limit, Job.state.in_(TERMINAL), *_IS_FREE)
    trashed_ids = trash.move_all(session, [job.id for job in matching.jobs], keep_s)
    return BulkChange([job for job in matching.jobs if job.id in trashed_ids], matching.has_more)


def delete_matching(session: Session, search: Search, *, limit: int) -> BulkChange:
    """Delete ended jobs that match, with their telemetry; those that others need stay.

    So do those that versions of models were made from.

    Their files are scheduled for removal. After MAX_DELETION_S the rest is left, as more.
    """
    matching = _lock(session, search, limit, Job.state.in_(TERMINAL), *_IS_FREE)
    released_ids = jobs_of_deleted_versions(session, [job.id for job in matching.jobs])
    # One by one: a job with much telemetry takes seconds, and a statement has a limit. A job that
    # extends one of them may have been submitted since they were read.
    still_free = (
        delete(Job)
        .where(Job.id == bindparam("job_id"), *_IS_FREE)
        .returning(Job.id)
        .execution_options(synchronize_session=False)
    )
    deleted_jobs: list[ChangedJob] = []
    started_s = monotonic()
    job_count = 0
    for job in matching.jobs:
        job_count += 1
        if job.id in released_ids:
            release_jobs(session, [job.id])
        if session.connection().scalar(still_free, {"job_id": job.id}) is not None:
            deleted_jobs.append(job)
            if monotonic() - started_s >= MAX_DELETION_S:
                break
    if deleted_jobs:
        folders = [{"folder": job.id} for job in deleted_jobs]
        delete_ended_allocations(session, [job.id for job in deleted_jobs])
        session.execute(insert(FileRemoval).values(due_at=now()), folders)
    return BulkChange(deleted_jobs, matching.has_more or job_count < len(matching.jobs))


class TooManyLabels(Exception):
    """A job would have more labels than a job may have."""

    def __init__(self, job_id: str, count: int) -> None:
        super().__init__(f"job {job_id} would have {count} labels")
        self.job_id = job_id
        self.count = count


def label_matching(
    session: Session,
    search: Search,
    changes: Mapping[str, str | None],
    *,
    max_labels: int,
    limit: int,
) -> BulkChange:
    """Set labels of jobs that match, and remove those whose new value is None.

    Jobs that have these labels already are not changed. Raises TooManyLabels.
    """
    differs = or_(
        *(
            has_label(Job, key, None) if value is None else not_(has_label(Job, key, value))
            for key, value in changes.items()
        )
    )
    matching = _lock(session, search, limit, differs)
    ids = [job.id for job in matching.jobs]
    rows = session.execute(select(Job.id, Job.labels).where(Job.id.in_(ids))).all()
    for job_id, labels in rows:
        updated = {**labels, **changes}
        labels_after = {key: value for key, value in updated.items() if value is not None}
        if len(labels_after) > max_labels:
            raise TooManyLabels(job_id, len(labels_after))
        edit(session, job_id, {"labels": labels_after})
    return matching


def _lock(session: Session, search: Search, limit: int, *where: Any) -> BulkChange:
    """The first jobs that match, locked in the order of their ids, against deadlocks."""
    plan_for_values(session)
    statement = (
        select(Job.id, Job.project)
        .where(*matching(search), *where)
        .order_by(Job.id)
        .limit(limit + 1)
        .with_for_update(of=Job)
    )
    rows = session.execute(statement).all()
    return BulkChange([ChangedJob(row.id, row.project) for row in rows[:limit]], len(rows) > limit)
