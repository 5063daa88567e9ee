"""Writes that meet a database which goes away, or whose answer is lost."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

import pytest
from sqlalchemy import update
from sqlalchemy.exc import InterfaceError, OperationalError
from sqlalchemy.orm import Session

from ampcore.series import Event, EventType, StepBlock
from ampcore.series.codec import encode
from ampcore.series.frames import Frame, FrameType
from ampcore.spec import State
from store import events, jobs, logs, steps
from store.database import Database
from store.ingest import LogChunk
from store.tables import Job
from tests.waiting import DEADLINE_S
from worker.meter import Meter
from worker.patience import Lease, PatientWrites
from worker.relay import Relay
from worker.spool import Spool

LAST = {"loss": 1.0, "loss_scale": 1.0, "grad_norm": 1.0, "learning_rate": 0.1}
RUNNING = Frame(FrameType.RUNNING, {"total_steps": 100, "first_step": 0})
EVENT = Frame(FrameType.EVENT, {"event": "evaluation", "step": 3, "data": {"val_loss": "\0"}})


def block(first_step: int = 0) -> Frame:
    made = StepBlock(first_step, {"loss": [1.0] * 4, "skipped": [True, False, False, False]})
    header = {"first_step": first_step, "count": 4, "facts": asdict(made.facts)}
    header |= {"last": {**LAST, "examples_per_s": 9.0}, "scale_health": "steady"}
    return Frame(FrameType.STEPS, header, encode(made), 1000)


class Unreliable:
    """A database whose next transactions fail, before they begin or after they are committed."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.away = 0
        self.answers_lost = 0
        self.tries = 0
        self.gone: Exception = OperationalError("COMMIT", None, Exception("the connection is gone"))

    @contextmanager
    def write(self) -> Iterator[Session]:
        self.tries += 1
        if self.away:
            self.away -= 1
            raise self.gone
        with self.database.write() as session:
            yield session
        if self.answers_lost:
            self.answers_lost -= 1
            raise self.gone


@pytest.fixture
def unreliable(database: Database) -> Unreliable:
    return Unreliable(database)


@pytest.fixture
def job(make_job: Callable[..., Any]) -> Any:
    return make_job(State.STARTING)


class Told:
    """A relay at work, and what it has told of."""

    def __init__(self, unreliable: Unreliable, job: Any, lease_s: float = 30.0) -> None:
        self.over = threading.Event()
        self.events: list[Event] = []
        self.meter = Meter()
        database: Any = unreliable
        writes = PatientWrites(database, self.over)
        lease = Lease(job.id, job.attempt, lease_s)
        self.relay = Relay(writes, lease, self.meter, self.events.append, Spool(room_bytes=2000))

    def wrote(self, *frames: Frame) -> None:
        self.relay.carry(frames)
        assert self.relay.spool.drained(DEADLINE_S)


@pytest.fixture
def told(unreliable: Unreliable, job: Any) -> Iterator[Told]:
    told = Told(unreliable, job)
    told.relay.start()
    yield told
    told.over.set()
    told.relay.close()


def stored(database: Database, job_id: str) -> tuple[int, list[str]]:
    with database.read() as session:
        reading = steps.read(session, job_id, start=0, end=None, limit=100)
        types = [row.type for row in events.read(session, job_id, after=0, limit=100)]
        return len(reading.block), types


def row(database: Database, job_id: str) -> Any:
    with database.read() as session:
        return jobs.get(session, job_id)


@pytest.mark.parametrize("kind", [OperationalError, InterfaceError])
def test_a_database_that_is_away_is_waited_for(
    told: Told, unreliable: Unreliable, job: Any, kind: Any
) -> None:
    unreliable.gone = kind("SELECT", None, Exception("the server closed the connection"))
    unreliable.away = 2
    told.wrote(RUNNING, block(), EVENT)
    assert stored(unreliable.database, job.id)[0] == 4
    assert row(unreliable.database, job.id).state == State.RUNNING


@pytest.mark.parametrize("lost", [1, 2, 3])
def test_a_lost_answer_writes_nothing_twice(
    told: Told, unreliable: Unreliable, job: Any, lost: int
) -> None:
    unreliable.answers_lost = lost
    told.wrote(RUNNING, block(), EVENT, block(4))
    length, types = stored(unreliable.database, job.id)
    assert length == 8
    assert types.count("evaluation") == types.count("state") - 2 == 1
    latest = row(unreliable.database, job.id).latest
    assert latest["skipped"] == 2
    assert told.relay.error is None


def test_the_job_shows_what_its_steps_add_up_to(
    told: Told, unreliable: Unreliable, job: Any
) -> None:
    told.wrote(RUNNING)
    assert row(unreliable.database, job.id).totals["steps"] == 0
    told.wrote(block(), block(4))
    totals = row(unreliable.database, job.id).totals
    assert (totals["steps"], totals["skipped"], totals["applied_steps"]) == (8, 2, 6)
    assert (totals["best_loss"], totals["scale_health"]) == (1.0, "steady")


def test_an_event_is_told_of_when_it_is_committed(told: Told, unreliable: Unreliable) -> None:
    unreliable.answers_lost = 1
    told.wrote(EVENT)
    assert [event.type for event in told.events] == [EventType.EVALUATION]


def test_silence_is_broken_by_a_heartbeat_that_hears_what_is_asked(
    unreliable: Unreliable, job: Any, wait_until: Callable[..., Any]
) -> None:
    told = Told(unreliable, job, lease_s=0.5)
    told.relay.start()
    with unreliable.database.write() as session:
        jobs.request_cancel(session, job.id)
    wait_until(lambda: told.relay.asked == jobs.CANCEL)
    assert told.relay.silent_s < DEADLINE_S
    told.relay.close()


def test_a_job_that_is_another_attempts_gets_no_word_more(
    told: Told, unreliable: Unreliable, job: Any, wait_until: Callable[..., Any]
) -> None:
    told.wrote(RUNNING, block())
    with unreliable.database.write() as session:
        session.execute(update(Job).values(attempt=2))
    told.relay.carry([block(4), EVENT])
    wait_until(lambda: told.relay.is_fenced)
    told.relay.carry([block(8)])
    assert told.relay.spool.drained(DEADLINE_S)
    assert stored(unreliable.database, job.id)[0] == 4
    assert told.events == []


def test_a_lease_that_cannot_be_held_grows_old(
    told: Told, unreliable: Unreliable, wait_until: Callable[..., Any]
) -> None:
    unreliable.away = 10**6
    told.relay.carry([EVENT])
    wait_until(lambda: told.relay.silent_s > 0.5)
    unreliable.away = 0
    wait_until(lambda: told.relay.silent_s < 0.5)


def test_what_waits_is_bounded_by_the_room(
    told: Told, unreliable: Unreliable, wait_until: Callable[..., Any]
) -> None:
    unreliable.away = 10**6
    told.relay.carry([RUNNING, block(), block(4)])
    assert not told.relay.spool.has_room
    unreliable.away = 0
    told.relay.spool.wait_for_room(DEADLINE_S)
    assert told.relay.spool.has_room


def test_nobody_waits_for_ever_when_the_attempt_is_over(told: Told, unreliable: Unreliable) -> None:
    unreliable.away = 10**6
    told.relay.carry([EVENT])
    told.over.set()
    told.relay.close()
    assert unreliable.tries < 100


def test_what_cannot_be_stored_is_an_error_and_the_end_is_written_all_the_same(
    told: Told, unreliable: Unreliable, job: Any
) -> None:
    told.wrote(RUNNING, block())
    told.wrote(block())
    assert told.relay.error is not None
    told.wrote(block(4))
    assert stored(unreliable.database, job.id)[0] == 4
    done: list[bool] = []
    told.relay.act(lambda session: done.append(True))
    assert told.relay.spool.drained(DEADLINE_S)
    assert done == [True]
    assert not told.relay.is_fenced


def test_what_was_printed_is_stored_with_the_rest(
    told: Told, unreliable: Unreliable, job: Any
) -> None:
    told.relay.tell(LogChunk("stderr", "half a \0 line"))
    told.wrote(EVENT)
    with unreliable.database.read() as session:
        (chunk,) = logs.read(session, job.id, after=0, limit=10)
    assert (chunk.stream, chunk.text) == ("stderr", "half a \ufffd line")


def test_stored_steps_are_measured(told: Told) -> None:
    told.wrote(RUNNING, block(), block(4))
    reading = told.meter.reading()
    assert reading["steps_total"] == 8
    assert 0 < reading["lag_s"] < DEADLINE_S
    assert told.meter.reading() == {"steps_total": 8, "lag_s": 0.0, "busy": 0}
