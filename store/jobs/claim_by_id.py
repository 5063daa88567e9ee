"""Claim one job by its id, for a worker that runs this job alone; or say why it cannot."""

from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session

from ampspec.jobs import ACTIVE, Source, State
from store.clock import seconds_since
from store.jobs import attempts
from store.leases import LEASE_S
from store.scheduling import fair_share
from store.tables import Job


@dataclass(frozen=True)
class Refusal:
    """Why a job cannot be claimed."""

    message: str
    """A sentence."""
    is_final: bool
    """Whether only a person can change that: its worker need not wait."""
    runs_elsewhere: bool = False
    """Whether other workers run the job."""


def refusal(session: Session, job_id: str, *, with_bundles: bool) -> Refusal | None:
    """Why a worker cannot run a job, apart from the quotas of its project.

    Args:
        session: The session.
        job_id: The job, which need not exist.
        with_bundles: Whether the worker runs custom code.

    Returns:
        The reason; None if the job is queued and due.
    """
    due_in_s = (-seconds_since(Job.not_before)).label("due_in_s")
    kind = Job.spec["model"]["kind"].as_string().label("model_kind")
    statement = select(Job.state, Job.source, Job.not_before, kind, due_in_s).where(
        Job.id == job_id
    )
    job = session.execute(statement).one_or_none()
    if job is None:
        return Refusal(f"There is no job {job_id!r}; it may have been deleted.", is_final=True)
    name = f"The job {job_id!r}"
    if job.source != Source.SUBMITTED:
        return Refusal(f"{name} is a tracked run, which no worker runs.", is_final=True)
    if job.state in ACTIVE:
        message = f"{name} is {job.state} on another worker."
        return Refusal(message, is_final=False, runs_elsewhere=True)
    if job.state == State.PAUSED:
        return Refusal(f"{name} is paused; resume it first.", is_final=True)
    if job.state != State.QUEUED:
        return Refusal(f"{name} has ended: it is {job.state}.", is_final=True)
    if job.model_kind == attempts.BUNDLE and not with_bundles:
        message = (
            f"{name} runs custom code, and this worker has no sandbox for it; "
            "`ampctl worker list --json` says why."
        )
        return Refusal(message, is_final=True)
    if job.due_in_s is not None and job.due_in_s > 0:
        due_at = f"{job.not_before:%Y-%m-%d %H:%M:%S} UTC"
        return Refusal(
            f"The next attempt at the job {job_id!r} is due at {due_at}.", is_final=False
        )
    return None


def claim(
    session: Session,
    job_id: str,
    worker_id: str,
    *,
    lease_s: float = LEASE_S,
    with_bundles: bool = True,
) -> Job | Refusal:
    """Claim a job with one rank, as `attempts.claim_next` claims the next job of a queue.

    The project is locked before the job, as there: another claim may use the last of its quota.

    Args:
        session: The session; what it has locked is released with its transaction.
        job_id: The job, which need not exist.
        worker_id: The worker that claims it.
        lease_s: How long the worker owns it without a further write.
        with_bundles: Whether the worker runs custom code.

    Returns:
        The claimed job, or why it was not claimed.
    """
    project = session.scalar(select(Job.project).where(Job.id == job_id))
    quota_refusal = None
    if project is not None:
        shares = fair_share.project_shares(session.connection(), [project])
        quota_refusal = fair_share.lock_share(session, shares[project]).refusal()
        session.execute(select(Job.id).where(Job.id == job_id).with_for_update())
    if (state_refusal := refusal(session, job_id, with_bundles=with_bundles)) is not None:
        return state_refusal
    if quota_refusal is not None:
        return Refusal(quota_refusal, is_final=False)
    claimed_job = attempts.claim(session, job_id, worker_id, lease_s=lease_s)
    if claimed_job is None:  # it is locked; only another isolation level leads here
        return Refusal(f"The job {job_id!r} was claimed by another worker.", is_final=False)
    return claimed_job
