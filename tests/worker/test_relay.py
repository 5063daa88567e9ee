"""Writes that meet a database which goes away, or whose answer is lost."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from ampcore.series import StepBlock
from ampcore.series.codec import encode
from ampcore.series.frames import Frame, FrameType
from ampcore.spec import Reason, State
from store import events, jobs, steps
from store.database import Database
from worker.relay import Relay

LAST = {"loss": 1.0, "loss_scale": 1.0, "grad_norm": 1.0, "learning_rate": 0.1}
STEPS = Frame(
    FrameType.STEPS,
    {"first_step": 0, "count": 4, "skipped": 1, "last": {**LAST, "examples_per_s": 9.0}},
    encode(StepBlock(0, {"loss": [1.0] * 4})),
)
EVENT = Frame(FrameType.EVENT, {"event": "evaluation", "step": 3, "data": {"val_loss": "\0"}})


class Unreliable:
    """A database whose next transactions fail, before they begin or after they are committed."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.away = 0
        self.answers_lost = 0

    @contextmanager
    def write(self) -> Iterator[Session]:
        if self.away:
            self.away -= 1
            raise gone()
        with self.database.write() as session:
            yield session
        if self.answers_lost:
            self.answers_lost -= 1
            raise gone()


def gone() -> OperationalError:
    return OperationalError("COMMIT", None, Exception("the connection is gone"))


@pytest.fixture
def unreliable(database: Database) -> Unreliable:
    return Unreliable(database)


@pytest.fixture
def job(make_job: Callable[..., Any]) -> Any:
    return make_job(State.RUNNING)


@pytest.fixture
def relay(unreliable: Unreliable, job: Any) -> Relay:
    database: Any = unreliable
    return Relay(database, job.id, job.attempt, give_up=threading.Event())


def stored(database: Database, job_id: str) -> tuple[int, list[str]]:
    with database.read() as session:
        reading = steps.read(session, job_id, start=0, end=None, limit=100)
        types = [row.type for row in events.read(session, job_id, after=0, limit=100)]
        return len(reading.block), types


def test_a_database_that_is_away_is_waited_for(
    relay: Relay, unreliable: Unreliable, job: Any
) -> None:
    unreliable.away = 2
    assert relay.carry([STEPS, EVENT]) is not None
    assert stored(unreliable.database, job.id)[0] == 4


def test_a_lost_answer_writes_nothing_twice(relay: Relay, unreliable: Unreliable, job: Any) -> None:
    unreliable.answers_lost = 1
    relay.carry([STEPS, EVENT])
    length, types = stored(unreliable.database, job.id)
    assert length == 4
    assert types.count("evaluation") == 1
    with unreliable.database.read() as session:
        kept = jobs.get(session, job.id)
        assert kept is not None
        assert kept.latest is not None
        assert kept.latest["skipped"] == 1


def test_a_worker_that_shuts_down_does_not_wait_for_ever(
    unreliable: Unreliable, job: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("worker.relay.PATIENCE_S", 0.2)
    give_up = threading.Event()
    give_up.set()
    database: Any = unreliable
    relay = Relay(database, job.id, job.attempt, give_up)
    unreliable.away = 1
    assert relay.hold() is not None  # one failure is not the end
    unreliable.away = 1000
    with pytest.raises(OperationalError):
        relay.hold()


def test_a_success_after_a_cancel_was_asked_is_a_cancelled_job(
    relay: Relay, database: Database, job: Any
) -> None:
    with database.write() as session:
        jobs.request_cancel(session, job.id)
    relay.succeeded({"steps": 4})
    with database.read() as session:
        assert jobs.get(session, job.id).state == State.CANCELLED  # type: ignore[union-attr]


def test_a_message_with_bytes_that_no_database_takes_is_kept_without_them(
    relay: Relay, database: Database, job: Any
) -> None:
    relay.failed(Reason.INVALID_DATA, "zero \0 and half a \ud800 pair")
    with database.read() as session:
        failed = jobs.get(session, job.id)
    assert failed is not None
    assert (failed.reason, failed.message) == ("invalid_data", "zero \ufffd and half a ? pair")


def test_a_job_that_has_not_begun_goes_back_when_the_worker_shuts_down(
    unreliable: Unreliable, make_job: Callable[..., Any], database: Database
) -> None:
    job = make_job(State.STARTING)
    wrapped: Any = unreliable
    Relay(wrapped, job.id, job.attempt, threading.Event()).shut_down()
    with database.read() as session:
        back = jobs.get(session, job.id)
        assert back is not None
        assert (back.state, back.lease_expires_at) == (State.QUEUED, None)
        assert jobs.to_wake(session, quiet_s=3, limit=10) == [job.id]
