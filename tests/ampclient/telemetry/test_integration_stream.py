"""The event stream of a job from a real server: live, over two attempts, and across a restart."""

import asyncio
import socket
import threading

import pytest
import uvicorn

from ampclient import AsyncClient, Client, JobEvent, LogEntry, StepsEvent
from ampspec.jobs import State
from ampspec.telemetry import Event, EventType
from server.app import create_app
from server.settings import Settings
from store.jobs import attempts
from store.telemetry import ingest
from store.telemetry.ingest import LogChunk
from tests.processes import free_port
from tests.waiting import DEADLINE_S


@pytest.fixture
def database_url(sqlite_url):
    """SQLite alone: the store has its own tests on both databases."""
    return sqlite_url


@pytest.fixture
def write_entries(api, make_job):
    """Creates a running job; returns a function that writes entries of one of its attempts."""
    entries_written = {}
    job_id = make_job(State.RUNNING).id

    def append(*entries, attempt=1):
        before = entries_written.get(attempt, 0)
        with api.database.write() as session:
            assert ingest.append(session, job_id, attempt, entries, entries_written=before)
        entries_written[attempt] = before + len(entries)

    append.job_id = job_id
    return append


@pytest.fixture
def start_second_attempt(api, write_entries):
    """Returns a function that starts the second attempt at a step."""

    def begin(first_step):
        with api.database.write() as session:
            attempts.requeue(session, write_entries.job_id, 1)
            attempts.claim(session, write_entries.job_id, "another")
            attempts.mark_running(
                session, write_entries.job_id, 2, total_steps=100, first_step=first_step
            )

    return begin


@pytest.fixture
def end(api, write_entries):
    def end(attempt=1):
        with api.database.write() as session:
            assert attempts.mark_succeeded(session, write_entries.job_id, attempt, {"steps": 30})

    return end


@pytest.fixture
def job(api, write_entries):
    with Client(api.url, api.token) as client:
        yield client.jobs.get(write_entries.job_id)


def rows(blocks):
    return [(block.attempt, step) for block in blocks for step in block["step"].tolist()]


def test_a_stream_continues_from_stored_to_new_steps(job, write_entries, end, make_block):
    write_entries(make_block(0, 10))
    stream = job.stream()
    assert rows([next(stream)]) == [(1, step) for step in range(10)]
    write_entries(make_block(10, 5))
    assert rows([next(stream)]) == [(1, step) for step in range(10, 15)]
    end()
    assert list(stream) == []


def test_repeated_steps_are_streamed_again_with_their_attempt(
    job, write_entries, start_second_attempt, end, make_block
):
    write_entries(make_block(0, 12, loss=1.0))
    start_second_attempt(6)
    write_entries(make_block(6, 6, loss=2.0, skipped=True), attempt=2)
    end(2)
    blocks = list(job.stream(columns=["loss"]))
    assert rows(blocks) == [(1, s) for s in range(12)] + [(2, s) for s in range(6, 12)]
    assert set(blocks[-1].names) == {"loss", "skipped"}
    assert blocks[-1]["loss"].tolist() == [2.0] * 6
    assert rows(job.stream(after=blocks[0].seq)) == [(2, s) for s in range(6, 12)]


def test_a_stream_has_every_kind_of_entry(job, write_entries, end, make_block):
    write_entries(make_block(0, 3), Event(EventType.WARNING, 2, {"message": "beware"}))
    write_entries(LogChunk("stdout", "hello\n"))
    end()
    entries = list(job.follow())
    assert [e.data["state"] for e in entries if isinstance(e, JobEvent) and e.type == "state"] == [
        *("queued", "starting", "running", "succeeded")
    ]
    assert [e.text for e in entries if isinstance(e, LogEntry)] == ["hello\n"]
    assert rows(e for e in entries if isinstance(e, StepsEvent)) == [(1, 0), (1, 1), (1, 2)]
    assert [e.seq for e in entries] == sorted({e.seq for e in entries})
    events = [e for e in entries if isinstance(e, JobEvent)]
    assert list(job.follow(kinds=["events"])) == events == list(job.events())


class RestartableServer:
    """An API server on its own port, which can be restarted."""

    def __init__(self, settings, dispatcher):
        self._settings, self._dispatcher = settings, dispatcher
        self.port = free_port()
        self._listener = socket.create_server(("127.0.0.1", self.port))
        self._start()

    def _start(self):
        self._app = create_app(self._settings, dispatcher=self._dispatcher, reconcile=False)
        config = uvicorn.Config(self._app, log_config=None, access_log=False, ws="none")
        self._server = uvicorn.Server(config)
        sockets = {"sockets": [self._listener]}
        self._thread = threading.Thread(target=self._server.run, kwargs=sockets, daemon=True)
        self._thread.start()

    def stop(self):
        # As `ampserver` does first: streams end, so that the shutdown does not wait for them.
        self._app.state.services.streams.shutting_down.set()
        self._server.should_exit = True
        self._thread.join(DEADLINE_S)
        assert not self._thread.is_alive()

    def restart(self):
        self.stop()
        self._listener = socket.create_server(("127.0.0.1", self.port))
        self._start()


@pytest.fixture
def serving(database_url, tmp_path, dispatcher):
    settings = Settings(
        database_url=database_url,
        redis_url="redis://127.0.0.1:1/0",
        data_dir=tmp_path / "data",
    )
    serving = RestartableServer(settings, dispatcher)
    yield serving
    serving.stop()


def test_a_stream_continues_after_a_server_restart(api, serving, write_entries, end, make_block):
    write_entries(make_block(0, 10), LogChunk("stdout", "before\n"))
    with Client(f"http://127.0.0.1:{serving.port}", api.token) as client:
        follower = client.jobs.get(write_entries.job_id).follow(kinds=["steps", "logs"])
        entries = [next(follower), next(follower)]
        serving.restart()
        write_entries(make_block(10, 10), LogChunk("stdout", "after\n"))
        end()
        entries += list(follower)
    assert rows(e for e in entries if isinstance(e, StepsEvent)) == [(1, s) for s in range(20)]
    assert [e.text for e in entries if isinstance(e, LogEntry)] == ["before\n", "after\n"]


def test_async_code_reads_two_streams_concurrently(api, write_entries, end, make_block):
    async def read_steps(client, columns):
        job = await client.jobs.get(write_entries.job_id)
        return [step async for block in job.stream(columns=columns) for step in block["step"]]

    async def follow():
        async with AsyncClient(api.url, api.token) as client:
            readers = asyncio.gather(read_steps(client, ["loss"]), read_steps(client, None))
            for first in (10, 20):
                await asyncio.to_thread(write_entries, make_block(first, 10))
            await asyncio.to_thread(end)
            return await readers

    write_entries(make_block(0, 10))
    assert asyncio.run(follow()) == [[*range(30)]] * 2


def test_a_cancelled_task_closes_its_stream(api, write_entries, make_block, wait_until):
    streams = api.app.state.services.streams

    async def follow():
        async with AsyncClient(api.url, api.token) as client:
            stream = (await client.jobs.get(write_entries.job_id)).stream()
            assert len(await anext(stream)) == 10
            waiting = asyncio.ensure_future(anext(stream))
            await asyncio.sleep(0)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            assert [block async for block in stream] == []

    write_entries(make_block(0, 10))
    asyncio.run(follow())
    wait_until(lambda: streams._open == 0)
