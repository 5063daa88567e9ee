"""The bell in Redis, and who hears it."""

import asyncio

import pytest

from server.streaming.bells import Bells, _pass_on, listen
from service.bells import Bell
from tests.waiting import DEADLINE_S


@pytest.fixture
def redis_url(private_redis):
    return private_redis.url


def ring_until_heard(bell, event, job_id):
    async def ring():
        async with asyncio.timeout(DEADLINE_S):
            while not event.is_set():  # before it listens nobody hears it
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
    monkeypatch.setattr(bell, "_deaf_until", bell._deaf_until + DEADLINE_S)
    bell.ring("a")


@pytest.mark.parametrize("url", ["redis://127.0.0.1:1/0", "sentinel://nowhere", "nonsense"])
def test_no_address_of_redis_is_a_reason_to_fail(url, monkeypatch):
    bell = Bell(url)
    bell.ring("a")
    tries = []
    monkeypatch.setattr("server.streaming.bells.AGAIN_S", 0.01)
    monkeypatch.setattr("server.streaming.bells._pass_on", counted(_pass_on, tries))

    async def main():
        listening = asyncio.create_task(listen(url, Bells()))
        async with asyncio.timeout(DEADLINE_S):
            while len(tries) < 3 and not listening.done():
                await asyncio.sleep(0.01)
        assert not listening.done()
        listening.cancel()

    asyncio.run(main())


def counted(real, calls):
    async def call(*arguments):
        calls.append(arguments)
        await real(*arguments)

    return call
