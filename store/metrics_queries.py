"""Queries for `/metrics`: counts of jobs, waits, attempts, files and busy slots."""

from collections.abc import Mapping, Sequence
from typing import Final

from sqlalchemy import case, func, select
from sqlalchemy.orm import Session

from ampcore.spec import Source, State
from store.attempts import is_due
from store.clock import seconds_since
from store.tables import Artifact, Attempt, Job

WAIT_BOUNDS_S: Final = (0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14_400.0, 86_400.0)
"""Bucket bounds of the histogram of queue waits, in seconds."""


def jobs_by_state(session: Session) -> Mapping[tuple[str, str], int]:
    """The number of jobs by state and queue."""
    counts = select(Job.state, Job.queue, func.count()).group_by(Job.state, Job.queue)
    return {(state, queue): count for state, queue, count in session.execute(counts)}


def oldest_wait_s_by_queue(session: Session) -> Mapping[str, float]:
    """For each queue, the seconds for which its oldest due job has been waiting."""
    longest = func.max(seconds_since(func.coalesce(Job.not_before, Job.queued_at)))
    waiting = select(Job.queue, longest).where(Job.state == State.QUEUED, is_due())
    return {queue: float(wait_s) for queue, wait_s in session.execute(waiting.group_by(Job.queue))}


def waiting_gangs(session: Session) -> int:
    """The number of due jobs with several ranks that wait for slots."""
    waiting = select(func.count()).where(Job.state == State.QUEUED, Job.ranks > 1, is_due())
    return session.scalar(waiting) or 0


def wait_histogram(session: Session) -> tuple[Sequence[int], float]:
    """Cumulative counts of attempts by wait (WAIT_BOUNDS_S, then all), and the sum of waits."""
    within = [func.sum(case((Attempt.waited_s <= bound, 1), else_=0)) for bound in WAIT_BOUNDS_S]
    waits = select(*within, func.count(), func.sum(Attempt.waited_s))
    row = session.execute(waits.where(Attempt.worker_id.is_not(None))).one()
    return [int(count or 0) for count in row[:-1]], float(row[-1] or 0.0)


def attempts_by_outcome(session: Session) -> Mapping[str, int]:
    """The number of ended attempts of workers by outcome."""
    counts = select(Attempt.outcome, func.count()).where(
        Attempt.outcome.is_not(None), Attempt.worker_id.is_not(None)
    )
    return {str(end): count for end, count in session.execute(counts.group_by(Attempt.outcome))}


def longest_silence_s(session: Session) -> float:
    """The longest time since a worker last wrote steps or a heartbeat of a job, in seconds."""
    longest = func.max(seconds_since(Job.updated_at))
    running = (Job.state == State.RUNNING, Job.source == Source.SUBMITTED)
    return session.scalar(select(longest).where(*running)) or 0.0


def artifact_bytes_by_kind(session: Session) -> Mapping[str, int]:
    """The size of all recorded artifacts, by kind."""
    sizes = select(Artifact.kind, func.sum(Artifact.size_bytes)).group_by(Artifact.kind)
    return {kind: int(size) for kind, size in session.execute(sizes)}
