"""Reads of jobs that concurrent requests share."""

import asyncio
import json
import threading
from contextlib import contextmanager

import pytest
from sqlalchemy import update

from ampcore.spec import State
from server.jobs import job_reader as reading
from server.jobs.job_reader import JobReader
from store.tables import Job
from tests.waiting import DEADLINE_S


class CountingDatabase:
    """A database that says how often it was asked, and that can be held up."""

    def __init__(self, database):
        self._database = database
        self.looks = 0
        self.open = threading.Event()
        self.open.set()

    @contextmanager
    def autocommit(self):
        self.looks += 1
        with self._database.autocommit() as session:
            yield session
        assert self.open.wait(DEADLINE_S)


@pytest.fixture
def counting_database(database):
    return CountingDatabase(database)


@pytest.fixture
def job_reader(counting_database):
    return JobReader(counting_database)


def step_of(standing):
    return json.loads(standing.body)["step"]


async def until(condition):
    async with asyncio.timeout(DEADLINE_S):
        while not condition():
            await asyncio.sleep(0.001)


def test_concurrent_reads_share_one_query(job_reader, counting_database, make_job):
    first, second = (make_job(State.RUNNING, project=name).id for name in "ab")

    async def ask():
        wanted = [first, second, "000000000000"] * 20
        return await asyncio.gather(*(job_reader.read(job_id) for job_id in wanted))

    told = asyncio.run(ask())
    assert counting_database.looks == 1
    assert {one and one.project for one in told} == {"a", "b", None}


def test_a_later_read_never_returns_older_data(job_reader, counting_database, make_job, database):
    """Fails when a question joins the one that is under way: it may not see what was written."""
    job_id = make_job(State.RUNNING).id

    async def ask():
        counting_database.open.clear()
        early = asyncio.create_task(job_reader.read(job_id))
        await until(lambda: counting_database.looks == 1)
        with database.write() as session:
            session.execute(update(Job).values(step=7))
        late = asyncio.create_task(job_reader.read(job_id))
        await asyncio.sleep(0)
        counting_database.open.set()
        await early
        return await late

    assert step_of(asyncio.run(ask())) == 7
    assert counting_database.looks == 2


def test_nobody_waits_until_it_is_known_why_others_wait(job_reader, make_job, monkeypatch):
    """Fails when a queued job's place is looked up in the round that reads all jobs."""
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
    assert "queue 'default'" in json.loads(second.body)["waiting"]
