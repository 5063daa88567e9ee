"""Wake a worker: one Celery message with a job's id. Losing every message costs seconds.

A message is a bell: whoever hears one takes the job that is next, which may be another one.
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

from ampcore.spec.precision import COMPUTE_DTYPE
from service.celery_names import TASK, queue_key
from store import workers
from store.database import Database
from store.jobs import DEFAULT_QUEUE

log = logging.getLogger(__name__)

GPU_QUEUE: Final = "gpu"
TIMEOUT_S: Final = 0.5
"""For connecting and for each answer: a Redis that is gone must not delay a POST."""


class RedisGone(Exception):
    """Redis does not answer."""


class Wake(Protocol):
    """What the server needs of a queue."""

    def send(self, job_id: str, queue: str) -> None:
        """Put a message for the job where the workers of a queue listen. Raises RedisGone."""

    def waiting(self, queue: str = DEFAULT_QUEUE) -> int:
        """How many of a queue's messages no worker has taken yet. Raises RedisGone."""

    def close(self) -> None:
        """Close every connection."""


class CeleryWake:
    """The queues in Redis; opens nothing until the first message."""

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
        """Put a message for the job where the workers of a queue listen. Raises RedisGone."""
        try:
            self._celery.send_task(TASK, args=[job_id], queue=queue_key(queue), retry=False)
        except (OperationalError, redis.RedisError, OSError) as error:
            raise RedisGone(str(error)) from error

    def waiting(self, queue: str = DEFAULT_QUEUE) -> int:
        """How many of a queue's messages no worker has taken yet. Raises RedisGone."""
        try:
            return int(self._redis.llen(queue_key(queue)))
        except (redis.RedisError, OSError) as error:
            raise RedisGone(str(error)) from error

    def close(self) -> None:
        """Close every connection."""
        self._celery.close()
        self._redis.close()


class Waiting(Protocol):
    """A queued job: the row, the answer made of it, or what `store.queue` tells of it."""

    @property
    def id(self) -> str:
        """The job's id."""

    @property
    def queue(self) -> str:
        """The queue whose workers may take it."""

    @property
    def policy(self) -> str:
        """The precision policy that it was posted with."""


def wake_workers(database: Database, wake: Wake, jobs: Sequence[Waiting]) -> bool:
    """Ring once for each job; what fails is done again by the reconciler. False: it failed."""
    try:
        for job, bell in zip(jobs, bells(database, jobs), strict=True):
            wake.send(job.id, bell)
    except RedisGone as error:
        log.warning("Redis is gone; the jobs stay queued until it is back: %s", error)
        return False
    return True


def bells(database: Database, jobs: Sequence[Waiting]) -> list[str]:
    """For each job the queue to ring in: its own, or `gpu` where that would suit it better."""
    wished = [GPU_QUEUE if _likes_a_gpu(job) else job.queue for job in jobs]
    if not any(map(_likes_a_gpu, jobs)) or _has_a_gpu_for_all(database):
        return wished
    return [job.queue for job in jobs]


def _likes_a_gpu(job: Waiting) -> bool:
    """That any worker may take the job, but float16 is slow on a CPU."""
    return job.queue == DEFAULT_QUEUE and COMPUTE_DTYPE.get(job.policy) == "float16"


def _has_a_gpu_for_all(database: Database) -> bool:
    """That a worker with a GPU takes the jobs of the default queue, too."""
    # One that serves its own queue alone would hear the bell, and leave the job where it is.
    try:
        with database.look() as connection:
            found = workers.online(connection, GPU_QUEUE)
    except SQLAlchemyError as error:
        log.warning("who serves the queue %s is not known: %s", GPU_QUEUE, error)
        return False
    return any(DEFAULT_QUEUE in worker.queues for worker in found)
