"""Dispatch queued jobs again whose messages were lost or never sent."""

import logging
from collections.abc import Sequence
from typing import Final

from server.dispatch import (
    GPU_QUEUE,
    Dispatcher,
    dispatch_queues,
    gpu_worker_serves_default_queue,
)
from store import workers
from store.database import Database
from store.jobs import queue
from store.jobs.jobs import DEFAULT_QUEUE
from store.tables import Job

log = logging.getLogger(__name__)

REDISPATCH_AFTER_S: Final = 3.0
"""A queued job gets another message this long after the last one, if its queue is empty."""
FALLBACK_AFTER_S: Final = 60.0
"""A job that prefers a GPU is offered to every worker after this time."""
BATCH: Final = 100


def redispatch(database: Database, dispatcher: Dispatcher) -> None:
    """Send messages to queues that have none. Raises RedisUnavailable.

    A queue with messages has busy workers, and has not lost any.
    """
    with database.autocommit() as connection:
        queues = queue.queues_to_dispatch(connection, silent_for_s=REDISPATCH_AFTER_S)
    for name in queues:
        # A long queue is there for hours: its jobs are read only if a message may be needed.
        if _have_messages(database, dispatcher, name):
            continue
        for dispatch_queue, jobs in _by_dispatch_queue(database, name, REDISPATCH_AFTER_S).items():
            if dispatcher.pending_messages(dispatch_queue) == 0:
                _send(database, dispatcher, dispatch_queue, jobs)
            elif dispatch_queue != name and dispatcher.pending_messages(name) == 0:
                _send(
                    database,
                    dispatcher,
                    name,
                    _by_dispatch_queue(database, name, FALLBACK_AFTER_S).get(dispatch_queue, []),
                )


def _have_messages(database: Database, dispatcher: Dispatcher, name: str) -> bool:
    """Whether all queues to which jobs of this queue are dispatched have messages."""
    if dispatcher.pending_messages(name) == 0:
        return False
    if name != DEFAULT_QUEUE or not gpu_worker_serves_default_queue(database):
        return True
    return dispatcher.pending_messages(GPU_QUEUE) > 0


def _by_dispatch_queue(database: Database, name: str, silent_for_s: float) -> dict[str, list[Job]]:
    """The undispatched jobs of a queue, by the queue to dispatch them to."""
    with database.read() as session:
        jobs = queue.undispatched_jobs(session, name, silent_for_s=silent_for_s, limit=BATCH)
    jobs_by_queue: dict[str, list[Job]] = {}
    for job, dispatch_queue in zip(jobs, dispatch_queues(database, jobs), strict=True):
        jobs_by_queue.setdefault(dispatch_queue, []).append(job)
    return jobs_by_queue


def _send(
    database: Database, dispatcher: Dispatcher, dispatch_queue: str, jobs: Sequence[Job]
) -> None:
    """Send one message per slot: a worker that receives one claims job after job."""
    with database.autocommit() as connection:
        by_queues = workers.slots_by_queues(connection)
    slots = sum(slots for queues, slots in by_queues if dispatch_queue in queues)
    job_ids = [job.id for job in jobs[: max(slots, 1)]]
    if not job_ids:
        return
    log.info("redispatched %d jobs to the queue %s", len(job_ids), dispatch_queue)
    for job_id in job_ids:
        dispatcher.send(job_id, dispatch_queue)
    with database.write() as session:
        queue.mark_dispatched(session, job_ids)
