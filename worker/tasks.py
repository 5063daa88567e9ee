"""The Celery task's work: claim and run queued jobs until none is left."""

import logging

from sqlalchemy.exc import SQLAlchemyError

from infra import traces
from infra.log_config import log_context
from store.jobs import attempts
from store.tables import Job
from worker.attempt.attempt import JobAttempt
from worker.attempt.attempt_trace import AttemptTrace
from worker.context import WorkerContext

log = logging.getLogger(__name__)


def run_queued_jobs(context: WorkerContext) -> None:
    """Claim and run jobs until none is left for this worker's queues, or it shuts down."""
    while not context.shutting_down.is_set():
        if not context.may_take_jobs:
            return  # the server sends messages again
        if not context.slots.take():
            return  # ranks of gangs have all slots; the server sends messages again
        try:
            claim_began_ns = traces.clock_ns()
            claimed = _claim(context)
            if claimed is None:
                return
            run_claimed(context, *claimed, claim_began_ns=claim_began_ns)
            context.standby.prepare()
        finally:
            context.slots.give_back()


def _claim(context: WorkerContext) -> tuple[Job, float] | None:
    """The next job, and how long its earlier attempts have run; None when there is none."""
    try:
        with context.database.write() as session:
            job = attempts.claim_next(
                session,
                context.worker_id,
                context.queues,
                lease_s=context.lease_s,
                with_bundles=context.sandbox_plan.sandbox is not None,
                spare_slots=context.slots.free,
            )
            return (job, attempts.used_s(session, job.id)) if job is not None else None
    except SQLAlchemyError as error:
        # The server dispatches jobs that are still queued again.
        log.warning("cannot claim a job: %s", error)
        return None


def run_claimed(
    context: WorkerContext, job: Job, used_s: float, *, claim_began_ns: int | None = None
) -> bool:
    """Run an attempt at a job with one rank that this worker has claimed.

    Args:
        context: What the attempts of this worker share.
        job: The job as it was claimed.
        used_s: How long its earlier attempts have run.
        claim_began_ns: When the worker began to claim it, by `traces.clock_ns`.

    Returns:
        False after an unexpected error: the lease expires, and the job is retried.
    """
    trace = AttemptTrace(job, claim_began_ns)
    fields = {"request_id": job.request_id, "job_id": job.id, "attempt": job.attempt}
    with (
        log_context(**fields, trace_id=traces.trace_id(trace.context)),
        context.metrics.busy_slot(),
    ):
        log.info("the attempt starts")
        try:
            with context.work_dirs.attempt_dir(job.id, job.attempt) as folder:
                JobAttempt(context, job, used_s, folder, trace=trace).run()
        except Exception:  # no known error leads here
            log.exception("the attempt was abandoned after an unexpected error")
            return False
        return True
