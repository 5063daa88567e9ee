"""Ring again for jobs whose messages were lost or never sent."""

import logging
from collections.abc import Sequence
from typing import Final

from server.wake import Wake, bells
from store import queue, workers
from store.database import Database
from store.tables import Job

log = logging.getLogger(__name__)

QUIET_S: Final = 3.0
"""A queued job for which no message went out for so long gets another one, if none waits."""
LONG_QUIET_S: Final = 60.0
"""A job that would rather wait for a GPU is offered to every worker after so long."""
BATCH: Final = 100


def resend(database: Database, wake: Wake) -> None:
    """Send again where no message waits: behind busy workers none is lost. Raises RedisGone."""
    with database.read() as session:
        queues = queue.to_wake(session, quiet_s=QUIET_S)
    for name in queues:
        for bell, jobs in _by_bell(database, name, QUIET_S).items():
            if wake.waiting(bell) == 0:
                _ring(database, wake, bell, jobs)
            elif bell != name and wake.waiting(name) == 0:
                _ring(database, wake, name, _by_bell(database, name, LONG_QUIET_S).get(bell, []))


def _by_bell(database: Database, name: str, quiet_s: float) -> dict[str, list[Job]]:
    """The silent jobs of a queue, by the queue to ring in."""
    with database.read() as session:
        jobs = queue.silent(session, name, quiet_s=quiet_s, limit=BATCH)
    found: dict[str, list[Job]] = {}
    for job, bell in zip(jobs, bells(database, jobs), strict=True):
        found.setdefault(bell, []).append(job)
    return found


def _ring(database: Database, wake: Wake, bell: str, jobs: Sequence[Job]) -> None:
    """One message a slot is enough: whoever hears it takes job after job."""
    with database.read() as session:
        slots = sum(worker.slots for worker in workers.online(session.connection(), bell))
    rung = [job.id for job in jobs[: max(slots, 1)]]
    if not rung:
        return
    log.info("messages sent again in the queue %s: %d", bell, len(rung))
    for job_id in rung:
        wake.send(job_id, bell)
    with database.write() as session:
        queue.note_woken(session, rung)
