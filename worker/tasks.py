"""What a slot does when a bell rings: take the job that is next, run it, and look for another."""

import logging

from sqlalchemy.exc import SQLAlchemyError

from service.logs import log_context
from store import attempts
from store.tables import Job
from worker.attempt import JobAttempt
from worker.workshop import Workshop

log = logging.getLogger(__name__)


def work(workshop: Workshop) -> None:
    """Run jobs until none is left that this worker could take, or it is to take no more."""
    while not workshop.shutting_down.is_set():
        claimed = _claim(workshop)
        if claimed is None:
            return
        job, used_s = claimed
        with (
            log_context(request_id=job.request_id, job_id=job.id, attempt=job.attempt),
            workshop.meter.busy(),
        ):
            _run(workshop, job, used_s)


def _claim(workshop: Workshop) -> tuple[Job, float] | None:
    """The job that is next, and how long it has had a worker before."""
    try:
        with workshop.database.write() as session:
            job = attempts.claim_next(
                session, workshop.worker_id, workshop.queues, lease_s=workshop.lease_s
            )
            return (job, attempts.used_s(session, job.id)) if job is not None else None
    except SQLAlchemyError as error:
        # The server rings again for what is queued still.
        log.warning("no job could be claimed: %s", error)
        return None


def _run(workshop: Workshop, job: Job, used_s: float) -> None:
    log.info("the attempt starts")
    try:
        with workshop.scratch.folder(job.id, job.attempt) as folder:
            JobAttempt(workshop, job, used_s, folder).run()
    except Exception:
        # Nothing is known to do this; the lease then runs out, and the job is tried again.
        log.exception("the attempt was given up")
    workshop.standby.prepare()
