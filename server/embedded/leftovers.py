"""Take up at once what workers that are gone left, where nobody needs to wait for a lease."""

import logging

from sqlalchemy.exc import SQLAlchemyError

from store import lost, workers
from store.database import Database

log = logging.getLogger(__name__)


def end(database: Database) -> None:
    """Every active job is lost and every worker has stopped; for who knows that none is left.

    When the database does not let us, the leases of the jobs end them later.
    """
    try:
        with database.write() as session:
            for job in lost.lose_all(session):
                log.warning("job %s is %s: %s", job.id, job.state, job.message)
            for worker, state in workers.listing(session):
                if state != "stopped":
                    workers.stopped(session, worker.id)
    except SQLAlchemyError as error:
        log.warning("jobs of workers that are gone wait until their leases end: %s", error)
