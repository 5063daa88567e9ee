"""End the jobs of a killed stack at its next start, without waiting for their leases."""

import logging

from sqlalchemy.exc import SQLAlchemyError

from store import workers
from store.database import Database
from store.jobs import lease_expiry

log = logging.getLogger(__name__)


def end_orphaned_jobs(database: Database) -> None:
    """End every active attempt, and mark every worker as stopped; only if none is running.

    Workers that a batch system has started for one job go on, with their attempts. If the database
    is unavailable, the leases expire later.
    """
    try:
        with database.write() as session:
            for job in lease_expiry.expire_all(session):
                log.warning("job %s is %s: %s", job.id, job.state, job.message)
            for worker, state in workers.listing(session):
                if state != "stopped" and worker.job_id is None:
                    workers.stopped(session, worker.id)
    except SQLAlchemyError as error:
        log.warning(
            "cannot end the jobs of stopped workers now; their leases will expire: %s", error
        )
