"""The reads that many requests share."""

import asyncio
import json
import threading
from contextlib import contextmanager

import pytest
from sqlalchemy import update

from server.reads import Reads
from store.tables import Job


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
        assert self.open.wait(10)


@pytest.fixture
def counted(database):
    return Counted(database)


@pytest.fixture
def reads(counted):
    return Reads(counted)


def step_of(standing):
    return json.loads(standing.body)["step"]


async def until(condition):
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.001)


def test_all_who_ask_at_one_moment_share_a_question(reads, counted, make_job):
    first, second = make_job(project="a").id, make_job(project="b").id

    async def ask():
        wanted = [first, second, "000000000000"] * 20
        return await asyncio.gather(*(reads.read(job_id) for job_id in wanted))

    told = asyncio.run(ask())
    assert counted.looks == 1
    assert {one and one.project for one in told} == {"a", "b", None}


def test_who_asks_later_is_told_nothing_older(reads, counted, make_job, database):
    """Fails when a question joins the one that is under way: it may not see what was written."""
    job_id = make_job().id

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
