"""Methods that are written once and offered in sync and async form."""

import asyncio
import gc
import inspect
from collections.abc import AsyncGenerator, Iterator

import httpx
import pytest

import ampclient
from ampclient import AsyncClient, AsyncJob, Client, Job
from ampclient._http.operations import (
    Async,
    Operations,
    Sync,
    iterate_sync,
    iterator,
    operation,
    paginated,
    run_sync,
)
from ampclient._http.paging import PagedIterator


class Echo(Operations):
    def __init__(self, mode=Sync):
        super().__init__(None, mode)
        self.closed = 0

    @operation
    async def say(self, word: str, *, times: int = 1) -> str:
        """The word, repeated."""
        return word * times

    @iterator
    async def count(self, end: int) -> AsyncGenerator[int, None]:
        """The numbers below `end`."""
        try:
            for number in range(end):
                yield number
        finally:
            self.closed += 1

    @paginated
    async def numbers(self) -> AsyncGenerator[int, None]:
        """Three numbers."""
        for number in range(3):
            yield number


def test_sync_code_gets_the_result_and_async_code_awaits_it():
    assert Echo().say("a", times=3) == "aaa"

    async def awaited():
        echo = Echo(Async)
        return (
            await echo.say("b"),
            [n async for n in echo.count(2)],
            [n async for n in echo.numbers()],
        )

    assert asyncio.run(awaited()) == ("b", [0, 1], [0, 1, 2])


def test_an_iterator_is_lazy_and_is_closed_when_it_is_abandoned():
    echo = Echo()
    numbers = echo.count(10)
    assert isinstance(numbers, Iterator)
    assert next(numbers) == 0
    numbers.close()
    assert echo.closed == 1
    for _ in echo.count(10):
        break
    gc.collect()
    assert echo.closed == 2


def test_a_paged_iterator_shows_its_remaining_items():
    numbers = Echo().numbers()
    assert isinstance(numbers, PagedIterator)
    assert next(numbers) == 0
    assert "<td" in numbers._repr_html_()
    assert list(numbers) == [1, 2]
    assert numbers._repr_html_() == "<p>none</p>"


def test_sync_code_may_run_within_an_event_loop():
    async def as_in_a_notebook():
        return Echo().say("a"), list(Echo().count(2))

    assert asyncio.run(as_in_a_notebook()) == ("a", [0, 1])


def test_running_code_that_needs_an_event_loop_synchronously_is_an_error():
    with pytest.raises(RuntimeError, match="needs an event loop"):
        run_sync(asyncio.sleep(0))

    async def pausing():
        await asyncio.sleep(0)
        yield 1

    with pytest.raises(RuntimeError, match="needs an event loop"):
        next(iterate_sync(pausing()))


@pytest.mark.parametrize(("sync_class", "async_class"), [(Client, AsyncClient), (Job, AsyncJob)])
def test_sync_and_async_classes_have_the_same_methods_and_docstrings(sync_class, async_class):
    names = {name for name in dir(sync_class) if not name.startswith("_")}
    assert names == {name for name in dir(async_class) if not name.startswith("_")}
    for name in names:
        sync_method, async_method = getattr(sync_class, name), getattr(async_class, name)
        if inspect.isfunction(sync_method):
            assert sync_method.__doc__ == async_method.__doc__
            assert inspect.signature(sync_method) == inspect.signature(async_method)
            assert not inspect.iscoroutinefunction(sync_method)


def test_methods_of_a_job_return_jobs_of_its_own_class(sync_client, async_client, server):
    server.add_job("a", state="running")
    assert type(sync_client.jobs.get("a").refresh()) is Job
    job = async_client.jobs.get("a")
    assert type(job.refresh()._target) is AsyncJob
    [listed] = async_client.jobs.list()
    assert type(listed._target) is AsyncJob


def test_the_async_client_sends_requests_concurrently(server):
    """While one request waits, the others continue."""
    names = [f"job{number}" for number in range(20)]
    for name in names:
        server.add_job(name)
    arrived, all_arrived = [], asyncio.Event()

    async def respond(request):
        arrived.append(request.url.path)
        if len(arrived) == len(names):
            all_arrived.set()
        await asyncio.wait_for(all_arrived.wait(), 20)
        return server(request)

    async def read():
        http_client = httpx.AsyncClient(transport=httpx.MockTransport(respond))
        async with (
            http_client,
            AsyncClient("http://h", "a-secret-token", http_client=http_client) as c,
        ):
            return await asyncio.gather(*(c.jobs.get(name) for name in names))

    assert [job.id for job in asyncio.run(read())] == names


def test_the_async_client_closes_only_its_own_connections(server):
    async def use():
        connected = AsyncClient("http://h", "token")
        async with connected:
            pass
        http_client = httpx.AsyncClient(transport=httpx.MockTransport(server))
        async with AsyncClient("http://h", "token", http_client=http_client) as client:
            assert repr(client) == "<AsyncClient of http://h>"
        open_still = not http_client.is_closed
        await http_client.aclose()
        return connected._transport._backend._http.is_closed, open_still

    assert asyncio.run(use()) == (True, True)


def test_both_clients_are_exported():
    assert ampclient.AsyncClient is AsyncClient
    assert ampclient.AsyncJob is AsyncJob
