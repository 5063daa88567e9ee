"""The bell in Redis, and who hears it."""

import asyncio
import time

import pytest

from server.streaming.bells import Bells, listen
from service import bells
from service.bells import Bell


@pytest.fixture
def redis_url(private_redis):
    return private_redis.url


def ring_until_heard(bell, event, job_id, timeout_s=20.0):
    async def ring():
        deadline = time.monotonic() + timeout_s
        while not event.is_set():  # before it listens nobody hears it
            assert time.monotonic() < deadline
            await asyncio.to_thread(bell.ring, job_id)
            await asyncio.sleep(0.02)

    return ring()


def test_who_waits_for_a_job_hears_its_bell_and_no_other(redis_url):
    async def main():
        here, bell = Bells(), Bell(redis_url)
        listening = asyncio.create_task(listen(redis_url, here))
        with here.heard("a") as heard, here.heard("b") as other:
            await ring_until_heard(bell, heard, "a")
            assert not other.is_set()
        assert not here._waiting
        listening.cancel()
        bell.close()

    asyncio.run(main())


def test_without_redis_nobody_waits_for_the_bell(monkeypatch):
    bell = Bell("redis://127.0.0.1:1/0")
    bell.ring("a")
    monkeypatch.setattr(bell, "_connected", lambda: pytest.fail("asked again too soon"))
    began = time.monotonic()
    bell.ring("a")
    assert time.monotonic() - began < bells.DEAF_S


@pytest.mark.parametrize("url", ["redis://127.0.0.1:1/0", "sentinel://nowhere", "nonsense"])
def test_no_address_of_redis_is_a_reason_to_fail(url):
    bell = Bell(url)
    bell.ring("a")

    async def main():
        listening = asyncio.create_task(listen(url, Bells()))
        await asyncio.sleep(0.3)
        assert not listening.done()
        listening.cancel()

    asyncio.run(main())
