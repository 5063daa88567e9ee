"""Transitions of a job by its worker: claim it, mark it running, end the attempt."""

from collections.abc import Collection, Sequence
from typing import Any, Final

from sqlalchemy import ColumnElement, Select, and_, func, or_, select, tuple_, update
from sqlalchemy.orm import Session

from ampspec.jobs import ACTIVE, Reason, State
from ampspec.telemetry.json_values import json_safe, storable_text
from ampspec.telemetry.metrics import metrics_of_result
from store import job_metrics
from store.clock import from_now, now, seconds_since
from store.jobs import retries
from store.jobs.resume_point import resume_point
from store.jobs.state_transitions import change_state, end_attempt
from store.leases import LEASE_S
from store.scheduling import fair_share
from store.scheduling.fair_share import ProjectShare
from store.tables import QUEUED, Attempt, GangMember, Job
from store.tables.jobs import REQUEUED

BUNDLE: Final = "bundle"
"""The kind of a model that is custom code, for which a worker needs a sandbox."""
UNCLAIMED: Final = fair_share.RESERVED
SHUT_DOWN: Final = "Its worker was shut down."
MAX_POLICY_LENGTH: Final = 32


def claim_next(
    session: Session,
    worker_id: str,
    queues: Collection[str],
    *,
    lease_s: float = LEASE_S,
    with_bundles: bool = True,
    spare_slots: int | None = None,
) -> Job | None:
    """Claim the next job of these queues; None if there is none.

    The project with the smallest share goes first, and of its jobs the one with the earliest turn
    (store.scheduling.fair_share). Projects whose quotas are used up are skipped, and without
    `with_bundles` jobs with custom code. Gangs are claimed by `store.gangs.gangs`; `spare_slots`
    are the worker's slots besides the one for this job, and None is claimed if more are reserved
    for gangs.
    """
    jobs = (
        select(Job.id)
        .where(Job.state == QUEUED, Job.queue.in_(queues), is_due(), Job.ranks == 1)
        .order_by(Job.turn_at, Job.id)
        .limit(1)
    )
    if not with_bundles:
        jobs = jobs.where(has_no_bundle())
    if spare_slots is not None:
        jobs = jobs.where(_reserved_slots(worker_id) <= spare_slots)
    # First skip the jobs that other transactions have locked. If that finds nothing, wait for the
    # locks: the other transaction may only have edited the job.
    for past_others in (True, False):
        locking = jobs.with_for_update(of=Job, skip_locked=past_others)
        turns = fair_share.projects_in_turn(session.connection(), fair_share.first_turns(jobs))
        may_start = [project_share for project_share in turns if project_share.refusal() is None]
        for project_share in may_start:
            if job_id := _lock_first(session, project_share, locking):
                return claim(session, job_id, worker_id, lease_s=lease_s)
        if not may_start:
            break  # nothing is queued that may start
    return None


def _lock_first(session: Session, project_share: ProjectShare, jobs: Select[Any]) -> str | None:
    """Lock the first of the jobs that the project may start; None: none.

    A project with a quota is locked too, but only with a job. Transactions lock projects in
    different orders: one that waits for a project must not hold another.
    """
    first = jobs.where(Job.project == project_share.project)
    if not project_share.has_quota:
        return session.scalars(first).one_or_none()
    savepoint = session.begin_nested()
    # Checked again under the lock: another claim may have used the rest of the quota.
    if fair_share.lock_share(session, project_share).refusal() is None:
        job_id: str | None = session.scalars(first).one_or_none()
        if job_id is not None:
            savepoint.commit()
            return job_id
    savepoint.rollback()
    return None


def claim(
    session: Session,
    job_id: str,
    worker_id: str,
    *,
    lease_s: float = LEASE_S,
    attempt: int | None = None,
    ranks: int = 1,
) -> Job | None:
    """Claim a queued job; None if another worker has claimed it or it is deleted.

    With `attempt`, only as its attempt of that number.
    """
    numbers = (Job.attempt == attempt - 1,) if attempt is not None else ()
    job = change_state(
        session,
        job_id,
        State.STARTING,
        *numbers,
        attempt=Job.attempt + 1,
        worker_id=worker_id,
        lease_expires_at=from_now(lease_s),
        requested=None,
        entries_written=0,
        uploading=None,
        activity=None,
        activity_since=None,
        not_before=None,
        started_at=func.coalesce(Job.started_at, now()),
    )
    if job is not None:
        session.add(
            Attempt(
                job_id=job_id,
                attempt=job.attempt,
                worker_id=worker_id,
                waited_s=seconds_since(job.queued_at),
                ranks=ranks,
            )
        )
        session.flush()
    return job


def has_no_bundle() -> ColumnElement[bool]:
    """SQL condition: the job runs no custom code."""
    kind: ColumnElement[str] = Job.spec["model"]["kind"].as_string()
    return kind.is_distinct_from(BUNDLE)


def _reserved_slots(worker_id: str) -> Any:
    """SQL expression: how many slots of a worker are reserved for gangs that wait."""
    return (
        select(func.coalesce(func.sum(GangMember.ranks), 0))
        .where(GangMember.worker_id == worker_id, GangMember.finished_at.is_(None))
        .where(GangMember.state.in_(UNCLAIMED), GangMember.lease_expires_at > now())
        .scalar_subquery()
    )


def is_current_attempt() -> ColumnElement[bool]:
    """SQL condition: an attempt is its job's current one."""
    return and_(Attempt.job_id == Job.id, Attempt.attempt == Job.attempt)


def is_due() -> ColumnElement[bool]:
    """SQL condition: the delay of a queued job's automatic retry is over."""
    return or_(Job.not_before.is_(None), Job.not_before <= now())


def record_trace(session: Session, job_id: str, attempt: int, context: str) -> None:
    """Keep the span of an attempt, which the next one links to; it is in the trace of the job.

    `context` is a W3C `traceparent`. A job that was submitted without traces gets its trace here.
    """
    session.execute(
        update(Job)
        .where(Job.id == job_id, Job.attempt == attempt)
        .values(trace_context=func.coalesce(Job.trace_context, context), attempt_context=context)
        .execution_options(synchronize_session=False)
    )


def mark_running(
    session: Session,
    job_id: str,
    attempt: int,
    *,
    total_steps: int,
    first_step: int,
    totals: dict[str, Any] | None = None,
    policy: str | None = None,
) -> Job | None:
    """Mark a job as running: its training loop starts. None if another attempt owns the job.

    `totals` are the totals over the steps before `first_step`, `policy` is the policy that it
    trains with. A job that is pausing or stopping keeps its state; its first step is recorded
    anyway.
    """
    fields = {"total_steps": total_steps, "step": first_step, "totals": json_safe(totals)}
    if policy is not None:
        fields["resolved_policy"] = storable_text(policy)[:MAX_POLICY_LENGTH]
    owned = Job.attempt == attempt
    job = change_state(session, job_id, State.RUNNING, owned, reason=None, message=None, **fields)
    if job is None:
        statement = update(Job).where(
            Job.id == job_id, Job.attempt == attempt, Job.state.in_(ACTIVE - {State.STARTING})
        )
        options = {"populate_existing": True, "synchronize_session": False}
        statement = statement.values(**fields).returning(Job).execution_options(**options)
        job = session.scalars(statement).one_or_none()
    if job is not None:
        session.execute(
            update(Attempt)
            .where(tuple_(Attempt.job_id, Attempt.attempt) == (job_id, attempt))
            .values(first_step=first_step)
            .execution_options(synchronize_session=False)
        )
    return job


def mark_succeeded(
    session: Session,
    job_id: str,
    attempt: int,
    summary: dict[str, Any],
    metrics: dict[str, float] | None = None,
) -> Job | None:
    """Mark a job as succeeded; one that stopped early has no more steps than it trained.

    As every function here that ends an attempt, it returns the updated job (`cancelled` if it was
    stopping), or None if another attempt owns the job or the job has ended. `metrics`, by default
    those of the summary, replace those of the last evaluation.
    """
    fields: dict[str, Any] = {"summary": json_safe(summary), "reason": None, "message": None}
    if summary.get("stopped_early") and isinstance(summary.get("steps"), int):
        # The job is complete: a progress bar must not stay at a part.
        fields["total_steps"] = summary["steps"]
    metrics = metrics_of_result(summary) if metrics is None else metrics
    if metrics:
        fields["metrics"] = json_safe(metrics)
    job = end_attempt(session, job_id, attempt, State.SUCCEEDED, **fields)
    if job is not None and metrics:
        job_metrics.replace(session, job_id, metrics)
    return job or mark_cancelled(session, job_id, attempt)


def mark_failed(
    session: Session, job_id: str, attempt: int, reason: Reason, message: str
) -> Job | None:
    """Mark an attempt as failed; `message` says what a person can do about it.

    The job is queued again if its reason and `max_attempts` allow.
    """
    job = fail(session, job_id, attempt, reason, message, outcome=State.FAILED)
    return job or mark_cancelled(session, job_id, attempt)


def fail(
    session: Session,
    job_id: str,
    attempt: int,
    reason: Reason,
    message: str,
    *,
    outcome: str,
    may_retry: bool = True,
) -> Job | None:
    """Like `mark_failed`, but never `cancelled`, and with this `outcome` of the attempt.

    Without `may_retry` the job fails, whatever its reason.
    """
    job = session.get(Job, job_id, populate_existing=True, with_for_update=True)
    if job is None:
        return None
    failures = job.failures + 1
    fields: dict[str, Any] = {"reason": reason, "failures": failures}
    message = storable_text(message)
    wait_s = retries.wait_s(reason, failures, job.max_attempts) if may_retry else None
    point = resume_point(session, job)
    if wait_s is None or (job.state == State.PAUSING and point.loses_all):
        state = State.FAILED
        message += retries.final_failure_advice(reason, failures, point)
    elif job.state == State.PAUSING:
        state = State.PAUSED
        message += f" A pause had been requested: resume the job to train {point}."
    else:
        state = State.QUEUED
        fields |= {"not_before": from_now(wait_s), "dispatched_at": None}
        message += (
            f" In {wait_s:g} s it trains again, {point}: "
            f"attempt {failures + 1} of {job.max_attempts}."
        )
    return end_attempt(session, job_id, attempt, state, outcome=outcome, message=message, **fields)


def mark_cancelled(session: Session, job_id: str, attempt: int) -> Job | None:
    """Mark a stopping job as cancelled: its process has ended."""
    message = "Cancelled on request; its process has ended."
    reason = Reason.USER_REQUEST
    return end_attempt(session, job_id, attempt, State.CANCELLED, reason=reason, message=message)


def mark_paused(session: Session, job_id: str, attempt: int, cause: str = "") -> Job | None:
    """Mark a pausing job as paused: its process has ended and its checkpoint is stored.

    A job that has trained steps and has no checkpoint has failed: a pause promises to keep them.
    `cause` says why less is stored than was trained.
    """
    job = session.get(Job, job_id, populate_existing=True, with_for_update=True)
    if job is None:
        return None
    point = resume_point(session, job)
    if point.loses_all:
        state, reason = State.FAILED, Reason.CHECKPOINT_FAILED
        message = f"It could not be paused: no checkpoint was stored. {cause} Retry it to train "
    else:
        state, reason = State.PAUSED, Reason.USER_REQUEST
        message = f"Paused on request; its process has ended. {cause} Resume it to train "
    message = f"{message}{point}.".replace("  ", " ")
    paused_job = end_attempt(session, job_id, attempt, state, reason=reason, message=message)
    return paused_job or mark_cancelled(session, job_id, attempt)


def requeue(
    session: Session,
    job_id: str,
    attempt: int,
    *,
    reason: Reason = Reason.WORKER_SHUTDOWN,
    message: str = SHUT_DOWN,
) -> Job | None:
    """Queue the job again, by default because its worker shuts down; this counts as no failure."""
    job = session.get(Job, job_id, populate_existing=True, with_for_update=True)
    if job is None:
        return None
    fields = {
        "reason": reason,
        "message": f"{message} It trains again, {resume_point(session, job)}.",
        "dispatched_at": None,
    }
    queued_job = end_attempt(session, job_id, attempt, State.QUEUED, outcome=REQUEUED, **fields)
    cause = message if reason == Reason.WORKER_SHUTDOWN else ""
    return queued_job or mark_paused(session, job_id, attempt, cause)


def listing(session: Session, job_id: str) -> Sequence[Attempt]:
    """Every attempt of a job, in order."""
    statement = select(Attempt).where(Attempt.job_id == job_id).order_by(Attempt.attempt)
    return session.scalars(statement).all()


def used_s(session: Session, job_id: str) -> float:
    """Seconds that the ended attempts of a job have run, towards its timeout.

    Counted since its last timeout: a retry after that gets the whole time again.
    """
    lasted = seconds_since(Attempt.started_at, until=Attempt.finished_at)
    timed_out = (
        select(func.coalesce(func.max(Attempt.attempt), 0))
        .where(Attempt.job_id == job_id, Attempt.reason == Reason.TIMEOUT)
        .scalar_subquery()
    )
    statement = select(func.sum(lasted)).where(
        Attempt.job_id == job_id, Attempt.attempt > timed_out, Attempt.finished_at.is_not(None)
    )
    return float(session.scalar(statement) or 0.0)
