"""Wake a worker: one Celery message with a job's id. Losing every message costs seconds."""

import logging
from collections.abc import Collection
from typing import Final, Protocol

import redis
from celery import Celery
from kombu.exceptions import OperationalError
from redis.backoff import NoBackoff
from redis.retry import Retry
from sqlalchemy.exc import SQLAlchemyError

from store import jobs
from store.database import Database

log = logging.getLogger(__name__)

TASK: Final = "ampcore.train"
QUEUE: Final = "ampcore"
TIMEOUT_S: Final = 0.5
"""For connecting and for each answer: a Redis that is gone must not delay a POST."""


class RedisGone(Exception):
    """Redis does not answer."""


class Wake(Protocol):
    """What the server needs of a queue."""

    def send(self, job_id: str) -> None:
        """Put a message for the job into the queue. Raises RedisGone."""

    def waiting(self) -> int:
        """How many messages no worker has taken yet. Raises RedisGone."""

    def close(self) -> None:
        """Close every connection."""


class CeleryWake:
    """The queue in Redis; opens nothing until the first message."""

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

    def send(self, job_id: str) -> None:
        """Put a message for the job into the queue. Raises RedisGone."""
        try:
            self._celery.send_task(TASK, args=[job_id], queue=QUEUE, retry=False)
        except (OperationalError, redis.RedisError, OSError) as error:
            raise RedisGone(str(error)) from error

    def waiting(self) -> int:
        """How many messages no worker has taken yet. Raises RedisGone."""
        try:
            return int(self._redis.llen(QUEUE))
        except (redis.RedisError, OSError) as error:
            raise RedisGone(str(error)) from error

    def close(self) -> None:
        """Close every connection."""
        self._celery.close()
        self._redis.close()


def wake_workers(database: Database, wake: Wake, job_ids: Collection[str]) -> None:
    """Send a message for each job and note it; whatever fails is done again by the reconciler."""
    try:
        for job_id in job_ids:
            wake.send(job_id)
        with database.write() as session:
            jobs.note_woken(session, job_ids)
    except RedisGone as error:
        log.warning("Redis is gone; the jobs stay queued until it is back: %s", error)
    except SQLAlchemyError as error:
        log.warning("could not note that workers were woken: %s", error)
