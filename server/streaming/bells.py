"""Hear the bell that workers and other servers ring, and wake the streams that wait for a job."""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

import redis.asyncio
from redis.exceptions import RedisError

from service.bells import CHANNEL

log = logging.getLogger(__name__)

AGAIN_S: Final = 2.0
ALIVE_S: Final = 10.0
"""A connection that says nothing for so long is asked whether it is one."""


class Bells:
    """Who waits for news of which job, in one event loop."""

    def __init__(self) -> None:
        self._waiting: defaultdict[str, set[asyncio.Event]] = defaultdict(set)

    @contextmanager
    def heard(self, job_id: str) -> Iterator[asyncio.Event]:
        """An event that is set at each ring for the job; who waits clears it."""
        event = asyncio.Event()
        self._waiting[job_id].add(event)
        try:
            yield event
        finally:
            self._waiting[job_id].discard(event)
            if not self._waiting[job_id]:
                del self._waiting[job_id]

    def ring(self, job_id: str) -> None:
        """Wake those who wait for the job."""
        for event in self._waiting.get(job_id, ()):
            event.set()


async def listen(redis_url: str, bells: Bells) -> None:
    """Pass on what rings in Redis until this is cancelled; without Redis, wait for it quietly."""
    clock = asyncio.get_running_loop().time
    told = False
    while True:
        began = clock()
        try:
            await _pass_on(redis_url, bells)
        except (RedisError, OSError, ValueError) as error:
            if not told or clock() - began > ALIVE_S:
                log.warning("no bell rings without Redis; streams look by themselves: %s", error)
            told = True
        await asyncio.sleep(AGAIN_S)


async def _pass_on(redis_url: str, bells: Bells) -> None:
    client: Any = redis.asyncio.Redis.from_url(
        redis_url, health_check_interval=ALIVE_S, socket_connect_timeout=AGAIN_S
    )
    try:
        async with client.pubsub(ignore_subscribe_messages=True) as channel:
            await channel.subscribe(CHANNEL)
            while True:
                message = await channel.get_message(timeout=ALIVE_S)
                if message is not None:
                    with suppress(UnicodeDecodeError):
                        bells.ring(message["data"].decode())
    finally:
        await client.aclose()
