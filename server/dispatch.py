"""Dispatch jobs: one Celery message per job tells a worker that its queue has work.

The worker that receives the message claims the next job of the queue, which may be another one. The
database decides; if messages are lost, the reconciler sends them again within seconds.
"""

import logging
from collections.abc import Sequence
from typing import Final, Protocol

import redis
from celery import Celery
from kombu.exceptions import OperationalError
from redis.backoff import NoBackoff
from redis.retry import Retry
from sqlalchemy.exc import SQLAlchemyError

from ampspec.precision.precision import COMPUTE_DTYPE
from infra.celery_names import TASK_NAME, queue_key
from store import workers
from store.database import Database
from store.jobs.jobs import DEFAULT_QUEUE

log = logging.getLogger(__name__)

GPU_QUEUE: Final = "gpu"
TIMEOUT_S: Final = 0.5
"""For connecting and for each response: an unavailable Redis must not delay a submission."""


class RedisUnavailable(Exception):
    """Redis does not respond."""


class Dispatcher(Protocol):
    """The message queue, as the server uses it."""

    def send(self, job_id: str, queue: str) -> None:
        """Send a message for the job to the workers of a queue. Raises RedisUnavailable."""

    def pending_messages(self, queue: str = DEFAULT_QUEUE) -> int:
        """The number of messages that no worker has received yet. Raises RedisUnavailable."""

    def close(self) -> None:
        """Close every connection."""


class CeleryDispatcher:
    """The queues in Redis; connects at the first message."""

    def __init__(self, redis_url: str) -> None:
        timeouts = {"socket_timeout": TIMEOUT_S, "socket_connect_timeout": TIMEOUT_S}
        self._celery = Celery("ampcore", broker=redis_url, set_as_current=False)
        self._celery.conf.update(
            accept_content=["json"],
            broker_pool_limit=4,
            broker_transport_options={**timeouts, "max_retries": 0},
            task_ignore_result=True,
            task_serializer="json",
        )
        self._redis = redis.Redis.from_url(redis_url, retry=Retry(NoBackoff(), 0), **timeouts)

    def send(self, job_id: str, queue: str) -> None:
        """Send a message for the job to the workers of a queue. Raises RedisUnavailable."""
        try:
            self._celery.send_task(TASK_NAME, args=[job_id], queue=queue_key(queue), retry=False)
        except (OperationalError, redis.RedisError, OSError) as error:
            raise RedisUnavailable(str(error)) from error

    def pending_messages(self, queue: str = DEFAULT_QUEUE) -> int:
        """The number of messages that no worker has received yet. Raises RedisUnavailable."""
        try:
            return int(self._redis.llen(queue_key(queue)))
        except (redis.RedisError, OSError) as error:
            raise RedisUnavailable(str(error)) from error

    def close(self) -> None:
        """Close every connection."""
        self._celery.close()
        self._redis.close()


class QueuedJob(Protocol):
    """A queued job: a database row, an API model, or a row of `store.jobs.queue`."""

    @property
    def id(self) -> str:
        """The job's id."""

    @property
    def queue(self) -> str:
        """The queue whose workers may claim it."""

    @property
    def policy(self) -> str:
        """The precision policy in its spec."""


def dispatch_jobs(database: Database, dispatcher: Dispatcher, jobs: Sequence[QueuedJob]) -> bool:
    """Send one message per job. False if that failed; the reconciler sends them again.

    Raises nothing: the jobs are committed.
    """
    try:
        for job, dispatch_queue in zip(jobs, dispatch_queues(database, jobs), strict=True):
            dispatcher.send(job.id, dispatch_queue)
    except RedisUnavailable as error:
        log.warning(
            "Redis is unavailable; jobs stay queued and are dispatched when it is back: %s", error
        )
        return False
    except Exception:
        log.exception("jobs stay queued and are dispatched later, after an unexpected error")
        return False
    return True


def dispatch_queues(database: Database, jobs: Sequence[QueuedJob]) -> list[str]:
    """The queue to dispatch each job to: its own, or `gpu` if a GPU would suit it better."""
    wished = [GPU_QUEUE if _prefers_gpu(job) else job.queue for job in jobs]
    if not any(map(_prefers_gpu, jobs)) or gpu_worker_serves_default_queue(database):
        return wished
    return [job.queue for job in jobs]


def _prefers_gpu(job: QueuedJob) -> bool:
    """Whether any worker may claim the job, but float16 is slow on a CPU."""
    return job.queue == DEFAULT_QUEUE and COMPUTE_DTYPE.get(job.policy) == "float16"


def gpu_worker_serves_default_queue(database: Database) -> bool:
    """Whether a worker with a GPU also serves the default queue; False if the database fails."""
    # A worker that serves only `gpu` would receive the message but not claim the job.
    try:
        with database.autocommit() as connection:
            served = [queues for queues, _ in workers.slots_by_queues(connection)]
    except SQLAlchemyError as error:
        log.warning("cannot find out which workers serve the queue %s: %s", GPU_QUEUE, error)
        return False
    return any(GPU_QUEUE in queues and DEFAULT_QUEUE in queues for queues in served)
