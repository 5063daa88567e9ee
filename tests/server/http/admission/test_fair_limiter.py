"""Slots that owners get in turn."""

import asyncio
from contextlib import AsyncExitStack

import pytest

from server.errors import Busy
from server.http.admission.fair_limiter import FairLimiter
from tests.waiting import DEADLINE_S


def run(test):
    async def bounded():
        async with asyncio.timeout(DEADLINE_S):
            await test()

    asyncio.run(bounded())


async def settle():
    """Let every task go on until it waits."""
    for _ in range(10):
        await asyncio.sleep(0)


def test_one_owner_leaves_a_slot_for_others():
    async def test():
        limiter = FairLimiter(3, 2)
        for _ in range(2):
            await limiter.acquire("ada")
        third = asyncio.create_task(limiter.acquire("ada"))
        await settle()
        assert not third.done()
        await limiter.acquire("bob")
        limiter.release("bob")
        await settle()
        assert not third.done()  # the slot of others stays theirs
        limiter.release("ada")
        await third

    run(test)


def test_owners_that_wait_get_slots_in_turn():
    async def test():
        limiter, order = FairLimiter(1, 1), []

        async def work(owner):
            async with limiter.slot(owner):
                order.append(owner)

        async with limiter.slot("first"):
            tasks = [asyncio.create_task(work("ada")) for _ in range(3)]
            await settle()
            tasks += [asyncio.create_task(work(name)) for name in ("bob", "eve")]
            await settle()
        await asyncio.gather(*tasks)
        assert order == ["ada", "bob", "eve", "ada", "ada"]

    run(test)


def test_a_request_that_waits_too_long_is_refused():
    async def test():
        limiter = FairLimiter(1, 1, max_wait_s=0)
        async with limiter.slot("ada"):
            with pytest.raises(Busy):
                await limiter.acquire("bob")
        async with limiter.slot("bob"):
            pass

    run(test)


def test_requests_that_are_given_up_lose_no_slot():
    async def test():
        limiter = FairLimiter(2, 2)
        async with AsyncExitStack() as held:
            for _ in range(2):
                await held.enter_async_context(limiter.slot("ada"))
            waiting = [asyncio.create_task(limiter.acquire("bob")) for _ in range(5)]
            await settle()
            for task in waiting:
                task.cancel()
        # One of them got a slot in the moment in which it was given up.
        await asyncio.gather(*waiting, return_exceptions=True)
        for _ in range(2):
            await limiter.acquire("eve")
        assert set(limiter._held) == {"eve"}
        assert not limiter._waiting

    run(test)
