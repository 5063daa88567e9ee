"""The reads that many requests share."""

import asyncio
import json
import threading
from contextlib import contextmanager

import pytest
from sqlalchemy import update

from ampcore.spec import State
from server import reads as reading
from server.reads import Reads
from store.tables import Job
from tests.waiting import DEADLINE_S


class Counted:
    """A database that says how often it was asked, and that can be held up."""

    def __init__(self, database):
        self._database = database
        self.looks = 0
        self.open = threading.Event()
        self.open.set()

    @contextmanager
    def look(self):
        self.looks += 1
        with self._database.look() as session:
            yield session
        assert self.open.wait(DEADLINE_S)


@pytest.fixture
def counted(database):
    return Counted(database)


@pytest.fixture
def reads(counted):
    return Reads(counted)


def step_of(standing):
    return json.loads(standing.body)["step"]


async def until(condition):
    async with asyncio.timeout(DEADLINE_S):
        while not condition():
            await asyncio.sleep(0.001)


def test_all_who_ask_at_one_moment_share_a_question(reads, counted, make_job):
    first, second = (make_job(State.RUNNING, project=name).id for name in "ab")

    async def ask():
        wanted = [first, second, "000000000000"] * 20
        return await asyncio.gather(*(reads.read(job_id) for job_id in wanted))

    told = asyncio.run(ask())
    assert counted.looks == 1
    assert {one and one.project for one in told} == {"a", "b", None}


def test_who_asks_later_is_told_nothing_older(reads, counted, make_job, database):
    """Fails when a question joins the one that is under way: it may not see what was written."""
    job_id = make_job(State.RUNNING).id

    async def ask():
        counted.open.clear()
        early = asyncio.create_task(reads.read(job_id))
        await until(lambda: counted.looks == 1)
        with database.write() as session:
            session.execute(update(Job).values(step=7))
        late = asyncio.create_task(reads.read(job_id))
        await asyncio.sleep(0)
        counted.open.set()
        await early
        return await late

    assert step_of(asyncio.run(ask())) == 7
    assert counted.looks == 2


def test_nobody_waits_until_it_is_known_why_others_wait(reads, make_job, monkeypatch):
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
        waiting = asyncio.create_task(reads.read(queued))
        await until(asked.is_set)
        try:
            async with asyncio.timeout(10):
                first = await reads.read(running)
        finally:
            go_on.set()
        return first, await waiting

    first, second = asyncio.run(ask())
    assert step_of(first) == 0
    assert "queue 'default'" in json.loads(second.body)["waiting"]
