"""Queries for `/metrics`: counts of jobs, allocations, waits, attempts and files."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from sqlalchemy import case, func, select
from sqlalchemy.orm import Session

from ampspec.jobs import Source, State
from store.clock import now, seconds_since
from store.jobs.attempts import is_due
from store.scheduling.queue_names import queue_names
from store.tables import Allocation, Artifact, Attempt, Job
from store.tables.jobs import ONE_RANK, QUEUED

WAIT_BOUNDS_S: Final = (0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14_400.0, 86_400.0)
"""Bucket bounds of the histogram of queue waits, in seconds."""


def jobs_by_state(session: Session) -> Sequence[Sequence[Any]]:
    """The state, the queue, and the number of jobs in that state and queue."""
    counts = select(Job.state, Job.queue, func.count()).where(Job.purge_at.is_(None))
    counts = counts.group_by(Job.state, Job.queue)
    return [list(row) for row in session.execute(counts)]


def oldest_wait_s_by_queue(session: Session) -> Mapping[str, float]:
    """For each queue, the seconds for which its oldest due job has been waiting."""
    names = queue_names()
    of_queue = (Job.queue == names.c.queue, Job.state == QUEUED)
    submitted = select(Job.queued_at).where(*of_queue, Job.not_before.is_(None))
    retried = select(Job.not_before).where(*of_queue, Job.not_before <= now())
    oldest = [
        seconds_since(statement.correlate(names).order_by(column).limit(1).scalar_subquery())
        for statement, column in ((submitted, Job.queued_at), (retried, Job.not_before))
    ]
    waits = session.execute(select(names.c.queue, *oldest).where(names.c.queue.is_not(None)))
    seconds_of_queues = {queue: [s for s in seconds if s is not None] for queue, *seconds in waits}
    return {queue: max(seconds) for queue, seconds in seconds_of_queues.items() if seconds}


def waiting_gangs(session: Session) -> int:
    """The number of due jobs with several ranks that wait for slots."""
    gang_count = select(func.count()).where(
        Job.state == State.QUEUED, Job.ranks > ONE_RANK, is_due()
    )
    return session.scalar(gang_count) or 0


def unfinished_allocations(session: Session) -> Sequence[Sequence[Any]]:
    """The engine, the state, and the number of allocations in that state that have not ended."""
    counts = select(Allocation.engine, Allocation.state, func.count())
    unfinished = counts.where(Allocation.ended_at.is_(None))
    groups = session.execute(unfinished.group_by(Allocation.engine, Allocation.state))
    return [list(row) for row in groups]


def waits(session: Session) -> Sequence[Sequence[Any]]:
    """One row: the cumulative counts of attempts by wait (WAIT_BOUNDS_S, all), the sum of waits."""
    within = [func.sum(case((Attempt.waited_s <= bound, 1), else_=0)) for bound in WAIT_BOUNDS_S]
    counts = select(*within, func.count(), func.sum(Attempt.waited_s))
    row = session.execute(counts.where(Attempt.worker_id.is_not(None))).one()
    return [[*(int(count or 0) for count in row[:-1]), float(row[-1] or 0.0)]]


def attempts_by_outcome(session: Session) -> Sequence[Sequence[Any]]:
    """The outcome, and the number of ended attempts of workers with it."""
    counts = select(Attempt.outcome, func.count()).where(
        Attempt.outcome.is_not(None), Attempt.worker_id.is_not(None)
    )
    totals = Counter[str | None]()  # two stored values may be one outcome
    for outcome, count in session.execute(counts.group_by(Attempt.outcome)):
        totals[outcome] += count
    return [[outcome, count] for outcome, count in totals.items()]


def longest_silence_s(session: Session) -> float:
    """The longest time since a worker last wrote steps or a heartbeat of a job, in seconds."""
    longest = func.max(seconds_since(Job.updated_at))
    running = (Job.state == State.RUNNING, Job.source == Source.SUBMITTED)
    return session.scalar(select(longest).where(*running)) or 0.0


def artifact_bytes_by_kind(session: Session) -> Sequence[Sequence[Any]]:
    """The kind, and the size of all recorded artifacts of that kind."""
    sizes = select(Artifact.kind, func.sum(Artifact.size_bytes)).group_by(Artifact.kind)
    return [[kind, int(size)] for kind, size in session.execute(sizes)]
