"""Batches of concurrent requests."""

import asyncio
import threading

import pytest

from server.request_batcher import MAX_BATCH, RequestBatcher
from tests.waiting import DEADLINE_S


class BatchHandler:
    """Doubles numbers, records each batch, and can be paused."""

    def __init__(self):
        self.batches = []
        self.resumed = threading.Event()
        self.resumed.set()

    def __call__(self, numbers):
        self.batches.append(list(numbers))
        assert self.resumed.wait(DEADLINE_S)
        return [ValueError(number) if number < 0 else 2 * number for number in numbers]


@pytest.fixture
def handler():
    return BatchHandler()


@pytest.fixture
def batcher(handler):
    return RequestBatcher(handler)


async def until(condition):
    async with asyncio.timeout(DEADLINE_S):
        while not condition():
            await asyncio.sleep(0.001)


async def submit_all(batcher, numbers):
    submitted = (batcher.submit(number) for number in numbers)
    return await asyncio.gather(*submitted, return_exceptions=True)


def test_concurrent_requests_are_handled_in_one_batch(batcher, handler):
    assert asyncio.run(submit_all(batcher, [3, 1, 2])) == [6, 2, 4]
    assert handler.batches == [[3, 1, 2]]


def test_a_batch_has_a_maximum_size(batcher, handler):
    numbers = list(range(MAX_BATCH + 1))
    assert asyncio.run(submit_all(batcher, numbers)) == [2 * number for number in numbers]
    assert handler.batches == [numbers[:MAX_BATCH], numbers[MAX_BATCH:]]


def test_a_request_during_a_batch_waits_for_the_next_batch(batcher, handler):
    """Fails if a request joins the batch that is running, which may not see newer data."""

    async def submit():
        handler.resumed.clear()
        early = asyncio.create_task(batcher.submit(1))
        await until(lambda: handler.batches)
        late = [asyncio.create_task(batcher.submit(number)) for number in (2, 3)]
        await asyncio.sleep(0)
        handler.resumed.set()
        return await asyncio.gather(early, *late)

    assert asyncio.run(submit()) == [2, 4, 6]
    assert handler.batches == [[1], [2, 3]]


def test_an_error_is_raised_for_its_own_request(batcher):
    one, error, other = asyncio.run(submit_all(batcher, [1, -1, 2]))
    assert (one, other) == (2, 4)
    assert isinstance(error, ValueError)


def test_an_error_of_the_batch_is_raised_for_all_and_the_next_batch_runs(batcher, handler):
    async def submit():
        failed = await submit_all(batcher, ["no number", 1])
        return failed, await submit_all(batcher, [1])

    failed, after = asyncio.run(submit())
    assert all(isinstance(one, TypeError) for one in failed)
    assert after == [2]


def test_a_cancelled_request_does_not_affect_the_others(batcher, handler):
    async def submit():
        handler.resumed.clear()
        submitted = [asyncio.create_task(batcher.submit(number)) for number in (1, 2)]
        await until(lambda: handler.batches)
        submitted[0].cancel()
        handler.resumed.set()
        return await submitted[1], await batcher.submit(3)

    assert asyncio.run(submit()) == (4, 6)
