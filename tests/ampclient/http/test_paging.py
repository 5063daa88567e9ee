"""Lazy lists: what they request, and what they offer besides iteration."""

import asyncio
import copy
import operator
import pickle

import httpx
import pytest

from ampclient import AsyncClient, RawResponse, ServerError
from ampclient._http.paging import AsyncPagedIterator, PagedIterator, PagedList
from tests.tables import every_row


@pytest.fixture
def many_jobs(server):
    for number in range(250):
        server.add_job(f"job{number:03}")
    return server


def run_async(server, read):
    """The result of `read`, a coroutine function that takes an async client."""

    async def run():
        http_client = httpx.AsyncClient(transport=httpx.MockTransport(server))
        async with (
            http_client,
            AsyncClient("http://h", "a-secret-token", http_client=http_client) as client,
        ):
            return await read(client)

    return asyncio.run(run())


def page_sizes(server):
    return [int(request.url.params["limit"]) for request in server.requests]


def test_a_list_requests_pages_as_they_are_needed(sync_client, many_jobs):
    jobs = sync_client.jobs.list()
    assert page_sizes(many_jobs) == []
    assert bool(jobs)
    assert jobs[99].id == sync_client.jobs.list(limit=100)[99].id
    assert page_sizes(many_jobs) == [100, 100]
    assert len(jobs) == 250
    assert len(list(jobs)) == 250
    assert not jobs


def test_an_index_or_a_slice_consumes_nothing(sync_client, many_jobs):
    jobs = sync_client.jobs.list(limit=5)
    ids = [job.id for job in jobs[0:5]]
    assert jobs[-1].id == ids[4]
    assert [job.id for job in jobs] == ids
    with pytest.raises(IndexError):
        jobs[0]


def test_every_list_takes_a_limit(sync_client, server, worker):
    server.workers = [worker(id=f"w{number}") for number in range(3)]
    assert len(sync_client.workers.list(limit=2)) == 2
    assert page_sizes(server) == [2]


def test_an_async_list_can_be_awaited(many_jobs):
    async def read(client):
        raw = await client.with_raw_response.jobs.list(limit=3)
        return await client.jobs.list(limit=120), [j async for j in client.jobs.list()], raw

    awaited, iterated, raw = run_async(many_jobs, read)
    assert [job.id for job in awaited] == [job.id for job in iterated[:120]]
    assert len(iterated) == 250
    assert isinstance(raw, RawResponse)
    assert len(raw.parse()) == 3


def test_a_raw_list_is_complete_with_its_last_response(sync_client, many_jobs):
    raw = sync_client.with_raw_response.jobs.list()
    assert len(raw.parse()) == 250
    assert raw.status_code == 200
    assert len(many_jobs.requests) == 3


def test_a_short_list_may_be_iterated_again_and_compared(sync_client, server, worker):
    server.workers = [worker(id=f"w{number}") for number in range(3)]
    workers = sync_client.workers.list()
    ids = [[listed.id for listed in workers] for _ in range(2)]
    assert ids == [["w0", "w1", "w2"]] * 2
    assert workers == list(workers)
    assert len(server.requests) == 1


def test_a_list_that_failed_raises_again_and_never_looks_complete(sync_client, many_jobs, respond):
    jobs = sync_client.jobs.list(max_retries=0)
    assert jobs[0].id
    many_jobs.next_responses = [respond(500)]
    with pytest.raises(ServerError):
        len(jobs)
    with pytest.raises(ServerError):
        list(jobs)
    assert len([next(jobs) for _ in range(100)]) == 100
    with pytest.raises(ServerError):
        next(jobs)
    assert page_sizes(many_jobs) == [100, 100]


def test_a_type_error_of_a_request_is_not_taken_for_an_empty_list():
    def items():
        raise TypeError("unreadable")
        yield

    with pytest.raises(TypeError, match="unreadable"):
        list(PagedIterator(items()))
    with pytest.raises(TypeError, match="unreadable"):
        PagedList(items())


def test_an_interrupted_list_does_not_look_complete(sync_client, many_jobs, respond):
    jobs = sync_client.jobs.list()
    many_jobs.next_responses = [interrupt]
    with pytest.raises(KeyboardInterrupt):
        len(jobs)
    with pytest.raises(RuntimeError, match="interrupted"):
        list(jobs)


def interrupt(request):
    raise KeyboardInterrupt


def test_an_async_list_that_failed_raises_again(many_jobs, respond):
    many_jobs.next_responses = [respond(500)]

    async def read(client):
        jobs = client.jobs.list()
        errors = []
        for read in (jobs.__anext__, jobs.__anext__, lambda: jobs):
            with pytest.raises(ServerError) as caught:
                await read()
            errors.append(caught.value)
        return errors

    assert len(set(run_async(many_jobs, read))) == 1


@every_row("name", ["jobs", "workers", "datasets"])
def test_a_mistyped_option_is_an_error_of_the_call(sync_client, server, name):
    with pytest.raises(TypeError, match="unexpected keyword argument 'limits'"):
        getattr(sync_client, name).list(limits=3)
    assert server.requests == []


def test_a_short_list_requests_its_first_page_at_once(sync_client, server, respond):
    server.next_responses = [respond(500)]
    with pytest.raises(ServerError):
        sync_client.workers.list()


def test_a_short_list_is_shown_added_copied_and_pickled_as_a_list(sync_client, server, worker):
    server.workers = [worker(id="w1"), worker(id="w2")]
    workers = sync_client.workers.list()
    items = list(workers)
    assert repr(workers) == repr(items)
    assert workers + [items[0]] == [*items, items[0]]  # noqa: RUF005 - adding is what is tested
    assert workers + workers == items * 2
    assert [items[0]] + workers == [items[0], *items]  # noqa: RUF005
    for same in (copy.copy(workers), pickle.loads(pickle.dumps(workers))):  # noqa: S301
        assert type(same) is list
        assert same == items
    with pytest.raises(TypeError, match="unsupported operand"):
        operator.add(workers, ("w1",))


def test_an_async_list_can_be_awaited_again_and_be_a_task(many_jobs):
    async def read(client):
        jobs = client.jobs.list(limit=120)
        first, again = await jobs, await jobs
        assert first is again
        tasks = [asyncio.create_task(client.jobs.list(limit=number)) for number in (120, 3)]
        return first, *await asyncio.gather(*tasks, client.jobs.list(limit=120))

    first, task, short, gathered = run_async(many_jobs, read)
    assert first == task == gathered
    assert (len(first), len(short)) == (120, 3)


def test_a_task_of_a_list_can_be_cancelled():
    async def run():
        started = asyncio.Event()

        async def items():
            started.set()
            await asyncio.Event().wait()
            yield 1

        jobs = AsyncPagedIterator(items())
        task = asyncio.create_task(jobs)
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        with pytest.raises(RuntimeError, match="interrupted"):
            await jobs
        AsyncPagedIterator(items()).close()

    asyncio.run(run())


def test_an_async_list_may_be_awaited_by_two_tasks_at_a_time(many_jobs):
    async def read(client):
        jobs = client.jobs.list(limit=120)

        async def wait_for_it():
            return await jobs

        return await asyncio.gather(wait_for_it(), wait_for_it())

    first, second = run_async(many_jobs, read)
    assert len(first) == 120
    assert first == second
