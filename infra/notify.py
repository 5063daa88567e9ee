"""Publish in Redis that a job has changed. Subscribers that miss a message poll the database."""

import time
from typing import Final

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

CHANNEL: Final = "ampcore.job_updates"
"""The Redis channel; each message is the id of a job."""
TIMEOUT_S: Final = 0.5
RETRY_AFTER_S: Final = 10.0
"""After a failure, nothing is published for this long."""


class Notifier:
    """Publishes job ids; connects at the first message, and is safe to use from several threads."""

    def __init__(self, redis_url: str) -> None:
        self._url = redis_url
        self._redis: redis.Redis | None = None
        self._retry_at = 0.0

    def notify(self, job_id: str) -> None:
        """Publish that a job has changed. Never raises, and never blocks for long."""
        if time.monotonic() < self._retry_at:
            return
        try:
            self._connected().publish(CHANNEL, job_id)
        except (redis.RedisError, OSError, ValueError):
            self._retry_at = time.monotonic() + RETRY_AFTER_S

    def close(self) -> None:
        """Close every connection."""
        if self._redis is not None:
            self._redis.close()

    def _connected(self) -> redis.Redis:
        if self._redis is None:
            self._redis = redis.Redis.from_url(
                self._url,
                retry=Retry(NoBackoff(), 0),
                socket_timeout=TIMEOUT_S,
                socket_connect_timeout=TIMEOUT_S,
            )
        return self._redis
