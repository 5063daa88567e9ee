"""The rate limit of requests over all servers: each process counts, Redis holds the totals."""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from limits.aio.storage import RedisStorage
from redis.asyncio import ConnectionPool
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from server.http.access.rate_limit import RateLimit

log = logging.getLogger(__name__)

OFF: Final = "off"
KEY_PREFIX: Final = "ampcore.rate_limit"
SHARE_S: Final = 0.25
"""Seconds between two exchanges of counts; until then a server misses hits on other servers."""
TIMEOUT_S: Final = 2.0


class SharedRateLimit(RateLimit):
    """Limits the number of hits per window over all servers that share their counts.

    No hit waits for Redis. Hits that cannot be shared count for this process alone.
    """

    def __init__(self, rate: str, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(rate, clock)
        self._unshared: Counter[str] = Counter()

    def hit(self, key: str) -> None:
        """Count a hit for the key. Raises TooManyRequests."""
        self._unshared[key] += 1
        super().hit(key)

    async def share(self, totals: RedisStorage) -> bool:
        """Add this process's hits to the totals in Redis, and adopt the new totals.

        Returns False if there were no hits. Raises RedisError and OSError; hits that were not
        added count for this process alone.
        """
        unshared, self._unshared = self._unshared, Counter()
        for key, hits in unshared.items():
            window = self._item.key_for(key)
            total = await totals.incr(window, self._item.get_expiry(), hits)
            left_s = await totals.get_expiry(window) - time.time()
            since = self._unshared[key]
            self._counters.set(window, total + since, self._clock() + left_s)
        return bool(unshared)


async def share_counts(limit: SharedRateLimit, redis_url: str) -> None:
    """Share the counts until cancelled; without Redis this server counts for itself."""
    pool: Any = ConnectionPool.from_url(
        redis_url,
        socket_timeout=TIMEOUT_S,
        socket_connect_timeout=TIMEOUT_S,
        retry=Retry(NoBackoff(), 0),
    )
    totals = RedisStorage(
        "redis://",  # not used: the pool has the URL
        implementation="redispy",
        key_prefix=KEY_PREFIX,
        connection_pool=pool,
    )
    was_available = True
    try:
        while True:
            try:
                is_shared = await limit.share(totals)
            except (RedisError, OSError) as error:
                if was_available:
                    log.warning(
                        "Redis is unavailable; each server counts requests for itself: %s", error
                    )
                was_available = False
            else:
                if is_shared and not was_available:
                    log.info("Redis is back; requests are counted for all servers")
                    was_available = True
            await asyncio.sleep(SHARE_S)
    finally:
        await pool.aclose()


def rate_limit_from_setting(rate: str) -> SharedRateLimit | None:
    """The limit for the setting AMPCORE_RATE_LIMIT, as in 60000/minute; None for `off`."""
    return None if rate == OFF else SharedRateLimit(rate)
