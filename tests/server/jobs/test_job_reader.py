"""Reads of jobs that concurrent requests share."""

import asyncio
import json
import threading
from contextlib import contextmanager

import pytest
from sqlalchemy import update

from ampspec.jobs import State
from server.jobs import job_reader as reading
from server.jobs.job_reader import JobReader
from store.tables import Job
from tests.waiting import DEADLINE_S


class CountingDatabase:
    """A database that counts its reads and can be paused."""

    def __init__(self, database):
        self._database = database
        self.reads = 0
        self.resumed = threading.Event()
        self.resumed.set()

    @contextmanager
    def autocommit(self):
        self.reads += 1
        with self._database.autocommit() as session:
            yield session
        assert self.resumed.wait(DEADLINE_S)


@pytest.fixture
def counting_database(database):
    return CountingDatabase(database)


@pytest.fixture
def job_reader(counting_database):
    return JobReader(counting_database)


def step_of(job):
    return json.loads(job.response.body)["step"]


async def until(condition):
    async with asyncio.timeout(DEADLINE_S):
        while not condition():
            await asyncio.sleep(0.001)


def test_concurrent_reads_share_one_query(job_reader, counting_database, make_job):
    first, second = (make_job(State.RUNNING, project=name).id for name in "ab")

    async def ask():
        wanted = [first, second, "000000000000"] * 20
        return await asyncio.gather(*(job_reader.read(job_id) for job_id in wanted))

    responses = asyncio.run(ask())
    assert counting_database.reads == 1
    assert {one and one.project for one in responses} == {"a", "b", None}


def test_a_later_read_never_returns_older_data(job_reader, counting_database, make_job, database):
    """Fails if a read joins the running query, which may not see what was written since."""
    job_id = make_job(State.RUNNING).id

    async def ask():
        counting_database.resumed.clear()
        early = asyncio.create_task(job_reader.read(job_id))
        await until(lambda: counting_database.reads == 1)
        with database.write() as session:
            session.execute(update(Job).values(step=7))
        late = asyncio.create_task(job_reader.read(job_id))
        await asyncio.sleep(0)
        counting_database.resumed.set()
        await early
        return await late

    assert step_of(asyncio.run(ask())) == 7
    assert counting_database.reads == 2


def test_reading_a_running_job_does_not_wait_for_the_ranks_of_queued_jobs(
    job_reader, make_job, monkeypatch
):
    """Fails if the ranks of queued jobs are queried in the batch that reads all jobs."""
    queued, running = make_job().id, make_job(State.RUNNING).id
    asked, go_on = threading.Event(), threading.Event()
    why_waiting = reading.why_waiting

    def slowly(connection, rows):
        asked.set()
        assert go_on.wait(DEADLINE_S)
        return why_waiting(connection, rows)

    monkeypatch.setattr(reading, "why_waiting", slowly)

    async def ask():
        waiting = asyncio.create_task(job_reader.read(queued))
        await until(asked.is_set)
        try:
            async with asyncio.timeout(10):
                first = await job_reader.read(running)
        finally:
            go_on.set()
        return first, await waiting

    first, second = asyncio.run(ask())
    assert step_of(first) == 0
    assert "queue 'default'" in json.loads(second.response.body)["waiting"]
