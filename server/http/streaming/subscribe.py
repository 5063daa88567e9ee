"""Subscribe to job updates in Redis, and notify the streams and requests that wait for them."""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final

import redis.asyncio
from redis.exceptions import RedisError

from infra.notify import CHANNEL

log = logging.getLogger(__name__)

RECONNECT_S: Final = 2.0
HEALTH_CHECK_S: Final = 10.0
"""A connection without a message for this long is pinged."""


class Subscriptions:
    """The events of those who wait, by job; used in one event loop. Iterates over the jobs."""

    def __init__(self) -> None:
        self._waiting: defaultdict[str, set[asyncio.Event]] = defaultdict(set)

    def __len__(self) -> int:
        return len(self._waiting)

    def __contains__(self, job_id: str) -> bool:
        return job_id in self._waiting

    def __iter__(self) -> Iterator[str]:
        return iter(self._waiting)

    @contextmanager
    def subscribe(self, *job_ids: str) -> Iterator[asyncio.Event]:
        """An event that is set at each update of one of the jobs; who waits for it clears it."""
        event = asyncio.Event()
        for job_id in job_ids:
            self._waiting[job_id].add(event)
        try:
            yield event
        finally:
            for job_id in set(job_ids):
                self._waiting[job_id].discard(event)
                if not self._waiting[job_id]:
                    del self._waiting[job_id]

    def notify(self, job_id: str) -> None:
        """Set the events of the job."""
        for event in self._waiting.get(job_id, ()):
            event.set()


async def relay_notifications(redis_url: str, *listeners: Callable[[str], None]) -> None:
    """Call the listeners with the job id of each message from Redis, until cancelled.

    Reconnects silently if Redis is unavailable.
    """
    clock = asyncio.get_running_loop().time
    warned = False
    while True:
        began = clock()
        try:
            await _relay(redis_url, listeners)
        except (RedisError, OSError, ValueError) as error:
            if not warned or clock() - began > HEALTH_CHECK_S:
                log.warning(
                    "Redis is unavailable; streams poll the database until it is back: %s", error
                )
            warned = True
        await asyncio.sleep(RECONNECT_S)


async def _relay(redis_url: str, listeners: Sequence[Callable[[str], None]]) -> None:
    client: Any = redis.asyncio.Redis.from_url(
        redis_url, health_check_interval=HEALTH_CHECK_S, socket_connect_timeout=RECONNECT_S
    )
    try:
        async with client.pubsub(ignore_subscribe_messages=True) as channel:
            await channel.subscribe(CHANNEL)
            while True:
                message = await channel.get_message(timeout=HEALTH_CHECK_S)
                if message is not None:
                    with suppress(UnicodeDecodeError):
                        job_id = message["data"].decode()
                        for listener in listeners:
                            listener(job_id)
    finally:
        await client.aclose()
