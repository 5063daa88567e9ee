"""One result for all who ask at about the same time."""

import asyncio
import threading

import pytest

from server.errors import Busy
from server.http.admission import shared_result
from server.http.admission.shared_result import SharedResult
from tests.waiting import DEADLINE_S


class Source:
    """Counts its calls; each waits until it may go on."""

    def __init__(self):
        self.calls = 0
        self.may_go_on = threading.Event()
        self.error = None

    def __call__(self):
        self.calls += 1
        assert self.may_go_on.wait(DEADLINE_S)
        if self.error is not None:
            raise self.error
        return self.calls


@pytest.fixture
def source():
    return Source()


def test_requests_at_the_same_time_share_one_call(source):
    async def test():
        shared = SharedResult(source)
        tasks = [asyncio.create_task(shared.get()) for _ in range(20)]
        await asyncio.sleep(0)
        source.may_go_on.set()
        assert set(await asyncio.gather(*tasks)) == {1}

    asyncio.run(test())


def test_a_result_is_used_for_a_while_and_then_computed_again(source, monkeypatch):
    monkeypatch.setattr(shared_result, "TTL_S", 1.0)
    clock = {"s": 0.0}
    source.may_go_on.set()

    async def test():
        shared = SharedResult(source, clock=lambda: clock["s"])
        results = []
        for clock["s"] in (0.0, 0.9, 1.0):
            results.append(await shared.get())
        assert results == [1, 1, 2]

    asyncio.run(test())


def test_all_get_the_error_of_the_call(source):
    source.error = ValueError("broken")
    source.may_go_on.set()

    async def test():
        shared = SharedResult(source)
        errors = await asyncio.gather(*(shared.get() for _ in range(3)), return_exceptions=True)
        assert [str(error) for error in errors] == ["broken"] * 3

    asyncio.run(test())


def test_a_call_that_hangs_is_not_waited_for_and_not_repeated(source):
    async def test():
        shared = SharedResult(source, max_wait_s=0)
        for _ in range(3):
            with pytest.raises(Busy):
                await shared.get()
        source.may_go_on.set()
        while shared._call is not None and not shared._call.done():
            await asyncio.sleep(0.001)
        assert source.calls == 1

    asyncio.run(test())
