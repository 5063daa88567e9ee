"""How the service as a whole is doing, in numbers: what `/metrics` tells of the database."""

from collections.abc import Mapping, Sequence
from typing import Final

from sqlalchemy import case, func, select
from sqlalchemy.orm import Session

from ampcore.spec import ACTIVE, State
from store.attempts import is_due
from store.clock import seconds_since
from store.tables import Artifact, Attempt, Job

WAITS_S: Final = (0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14_400.0, 86_400.0)
"""The bounds of the histogram of waits."""


def jobs(session: Session) -> Mapping[tuple[str, str], int]:
    """How many jobs are in each state, by queue."""
    counts = select(Job.state, Job.queue, func.count()).group_by(Job.state, Job.queue)
    return {(state, queue): count for state, queue, count in session.execute(counts)}


def oldest_wait_s(session: Session) -> Mapping[str, float]:
    """For each queue how long the job that has waited longest has been due."""
    longest = func.max(seconds_since(func.coalesce(Job.not_before, Job.queued_at)))
    waiting = select(Job.queue, longest).where(Job.state == State.QUEUED, is_due())
    return {queue: float(wait_s) for queue, wait_s in session.execute(waiting.group_by(Job.queue))}


def waits(session: Session) -> tuple[Sequence[int], float]:
    """How many attempts waited up to each of WAITS_S, then how many there are; the sum."""
    within = [func.sum(case((Attempt.waited_s <= bound, 1), else_=0)) for bound in WAITS_S]
    row = session.execute(select(*within, func.count(), func.sum(Attempt.waited_s))).one()
    return [int(count or 0) for count in row[:-1]], float(row[-1] or 0.0)


def ends(session: Session) -> Mapping[str, int]:
    """How many attempts ended in each way."""
    counts = select(Attempt.outcome, func.count()).where(Attempt.outcome.is_not(None))
    return {str(end): count for end, count in session.execute(counts.group_by(Attempt.outcome))}


def longest_silence_s(session: Session) -> float:
    """How long ago the running job that is silent longest last wrote: steps, or a heartbeat."""
    longest = func.max(seconds_since(Job.updated_at))
    return session.scalar(select(longest).where(Job.state == State.RUNNING)) or 0.0


def artifact_bytes(session: Session) -> Mapping[str, int]:
    """The bytes of the files in the storage, by kind."""
    sizes = select(Artifact.kind, func.sum(Artifact.size_bytes)).group_by(Artifact.kind)
    return {kind: int(size) for kind, size in session.execute(sizes)}


def busy_slots(session: Session) -> Mapping[str, int]:
    """How many jobs each worker has."""
    counts = select(Job.worker_id, func.count()).where(Job.state.in_(ACTIVE))
    return {str(worker): count for worker, count in session.execute(counts.group_by(Job.worker_id))}
