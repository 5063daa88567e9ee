"""Batches of concurrent requests."""

import asyncio
import threading

import pytest

from server.request_batcher import MAX_BATCH, RequestBatcher
from tests.waiting import DEADLINE_S


class Rounds:
    """Doubles numbers, remembers with whom, and can be held up."""

    def __init__(self):
        self.rounds = []
        self.open = threading.Event()
        self.open.set()

    def __call__(self, numbers):
        self.rounds.append(list(numbers))
        assert self.open.wait(DEADLINE_S)
        return [ValueError(number) if number < 0 else 2 * number for number in numbers]


@pytest.fixture
def rounds():
    return Rounds()


@pytest.fixture
def batcher(rounds):
    return RequestBatcher(rounds)


async def until(condition):
    async with asyncio.timeout(DEADLINE_S):
        while not condition():
            await asyncio.sleep(0.001)


async def ask_all(batcher, numbers):
    asked = (batcher.submit(number) for number in numbers)
    return await asyncio.gather(*asked, return_exceptions=True)


def test_concurrent_requests_are_handled_in_one_batch(batcher, rounds):
    assert asyncio.run(ask_all(batcher, [3, 1, 2])) == [6, 2, 4]
    assert rounds.rounds == [[3, 1, 2]]


def test_no_round_is_too_long(batcher, rounds):
    numbers = list(range(MAX_BATCH + 1))
    assert asyncio.run(ask_all(batcher, numbers)) == [2 * number for number in numbers]
    assert rounds.rounds == [numbers[:MAX_BATCH], numbers[MAX_BATCH:]]


def test_a_request_during_a_batch_waits_for_the_next_batch(batcher, rounds):
    """Fails when a question joins the round that is under way, which may not see what was new."""

    async def submit():
        rounds.open.clear()
        early = asyncio.create_task(batcher.submit(1))
        await until(lambda: rounds.rounds)
        late = [asyncio.create_task(batcher.submit(number)) for number in (2, 3)]
        await asyncio.sleep(0)
        rounds.open.set()
        return await asyncio.gather(early, *late)

    assert asyncio.run(submit()) == [2, 4, 6]
    assert rounds.rounds == [[1], [2, 3]]


def test_an_error_is_raised_for_its_own_request(batcher):
    one, error, other = asyncio.run(ask_all(batcher, [1, -1, 2]))
    assert (one, other) == (2, 4)
    assert isinstance(error, ValueError)


def test_an_error_of_the_batch_is_raised_for_all_and_the_next_batch_runs(batcher, rounds):
    async def submit():
        failed = await ask_all(batcher, ["no number", 1])
        return failed, await ask_all(batcher, [1])

    failed, after = asyncio.run(submit())
    assert all(isinstance(one, TypeError) for one in failed)
    assert after == [2]


def test_a_cancelled_request_does_not_affect_the_others(batcher, rounds):
    async def submit():
        rounds.open.clear()
        asked = [asyncio.create_task(batcher.submit(number)) for number in (1, 2)]
        await until(lambda: rounds.rounds)
        asked[0].cancel()
        rounds.open.set()
        return await asked[1], await batcher.submit(3)

    assert asyncio.run(submit()) == (4, 6)
