"""A bell that rings when there is news of a job; who misses it looks by himself a little later."""

import time
from typing import Final

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

CHANNEL: Final = "ampcore.news"
"""Each message is the id of a job."""
TIMEOUT_S: Final = 0.5
DEAF_S: Final = 10.0
"""Where Redis does not answer, nobody waits for it again for so long."""


class Bell:
    """Rings through Redis; opens nothing until the first time, and is safe in several threads."""

    def __init__(self, redis_url: str) -> None:
        self._url = redis_url
        self._redis: redis.Redis | None = None
        self._deaf_until = 0.0

    def ring(self, job_id: str) -> None:
        """Say that there is news of a job. Never fails, and never waits for long."""
        if time.monotonic() < self._deaf_until:
            return
        try:
            self._connected().publish(CHANNEL, job_id)
        except (redis.RedisError, OSError, ValueError):
            self._deaf_until = time.monotonic() + DEAF_S

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
