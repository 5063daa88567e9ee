"""Telemetry written to a database that becomes unreachable, or whose responses are lost."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any

import pytest
from sqlalchemy import update
from sqlalchemy.exc import InterfaceError, OperationalError, ProgrammingError

from ampspec.jobs import State
from ampspec.telemetry import Event, EventType, StepBlock
from ampspec.telemetry.frames import Frame, FrameType
from ampspec.telemetry.steps.codec import encode
from store.database import Database
from store.jobs import jobs
from store.tables import Job
from store.telemetry import events, logs, steps
from store.telemetry.ingest import LogChunk
from tests.databases import ON_SQLITE
from tests.waiting import DEADLINE_S
from tests.worker.unreliable_database import Unreliable
from worker.attempt.telemetry_writer import TelemetryWriter
from worker.attempt.write_buffer import WriteBuffer
from worker.database_retry import Lease, RetryingDatabase
from worker.usage import SlotMetrics

LAST = {"loss": 1.0, "loss_scale": 1.0, "grad_norm": 1.0, "learning_rate": 0.1}
RUNNING = Frame(FrameType.RUNNING, {"total_steps": 100, "first_step": 0})
EVENT = Frame(FrameType.EVENT, {"event": "evaluation", "step": 3, "data": {"val_loss": "\0"}})


def block(first_step: int = 0) -> Frame:
    steps = StepBlock(first_step, {"loss": [1.0] * 4, "skipped": [True, False, False, False]})
    header = {"first_step": first_step, "count": 4, "stats": asdict(steps.stats)}
    header |= {"last": {**LAST, "examples_per_s": 9.0}, "scale_health": "steady"}
    return Frame(FrameType.STEPS, header, encode(steps), 1000)


@pytest.fixture
def unreliable(database: Database) -> Unreliable:
    return Unreliable(database)


@pytest.fixture
def job(make_job: Callable[..., Any]) -> Any:
    return make_job(State.STARTING)


class RunningWriter:
    """A running TelemetryWriter, and the events that it reported."""

    def __init__(self, unreliable: Unreliable, job: Any, lease_s: float = 30.0) -> None:
        self.attempt_ended = threading.Event()
        self.events: list[Event] = []
        self.metrics = SlotMetrics()
        database: Any = unreliable
        retrying_database = RetryingDatabase(database, self.attempt_ended)
        lease = Lease(job.id, job.attempt, lease_s)
        self.writer = TelemetryWriter(
            retrying_database,
            lease,
            self.metrics,
            self.events.append,
            WriteBuffer(capacity_bytes=2000),
        )

    def write_frames(self, *frames: Frame) -> None:
        self.writer.enqueue_frames(frames)
        assert self.writer.buffer.wait_until_empty(DEADLINE_S)


@pytest.fixture
def running(unreliable: Unreliable, job: Any) -> Iterator[RunningWriter]:
    running = RunningWriter(unreliable, job)
    running.writer.start()
    yield running
    running.attempt_ended.set()
    running.writer.close()


def stored(database: Database, job_id: str) -> tuple[int, list[str]]:
    with database.read() as session:
        reading = steps.read(session, job_id, start=0, end=None, limit=100)
        types = [row.type for row in events.read(session, job_id, after_seq=0, limit=100)]
        return len(reading.block), types


def row(database: Database, job_id: str) -> Any:
    with database.read() as session:
        return jobs.get(session, job_id)


@pytest.mark.parametrize("kind", [OperationalError, InterfaceError])
def test_writes_are_retried_while_the_database_is_unreachable(
    running: RunningWriter, unreliable: Unreliable, job: Any, kind: Any
) -> None:
    unreliable.error = kind("SELECT", None, Exception("the server closed the connection"))
    unreliable.connect_failures = 2
    running.write_frames(RUNNING, block(), EVENT)
    assert stored(unreliable.database, job.id)[0] == 4
    assert row(unreliable.database, job.id).state == State.RUNNING


@pytest.mark.parametrize("lost", [1, 2, 3])
def test_a_commit_whose_response_is_lost_is_not_repeated(
    running: RunningWriter, unreliable: Unreliable, job: Any, lost: int
) -> None:
    unreliable.lost_commit_responses = lost
    running.write_frames(RUNNING, block(), EVENT, block(4))
    length, types = stored(unreliable.database, job.id)
    assert length == 8
    assert types.count("evaluation") == types.count("state") - 2 == 1
    latest = row(unreliable.database, job.id).latest
    assert latest["skipped"] == 2
    assert running.writer.error is None


@ON_SQLITE
def test_the_job_has_the_totals_of_its_steps(
    running: RunningWriter, unreliable: Unreliable, job: Any
) -> None:
    running.write_frames(RUNNING)
    assert row(unreliable.database, job.id).totals["steps"] == 0
    running.write_frames(block(), block(4))
    totals = row(unreliable.database, job.id).totals
    assert (totals["steps"], totals["skipped"], totals["applied_steps"]) == (8, 2, 6)
    assert (totals["best_loss"], totals["scale_health"]) == (1.0, "steady")


@ON_SQLITE
def test_on_event_is_called_after_the_commit(
    running: RunningWriter, unreliable: Unreliable
) -> None:
    unreliable.lost_commit_responses = 1
    running.write_frames(EVENT)
    assert [event.type for event in running.events] == [EventType.EVALUATION]


@ON_SQLITE
def test_a_heartbeat_without_telemetry_reads_requests(
    unreliable: Unreliable, job: Any, wait_until: Callable[..., Any]
) -> None:
    running = RunningWriter(unreliable, job, lease_s=0.5)
    running.writer.start()
    with unreliable.database.write() as session:
        jobs.request_cancel(session, job.id)
    wait_until(lambda: running.writer.requested == jobs.CANCEL)
    assert running.writer.since_heartbeat_s < DEADLINE_S
    running.writer.close()


@ON_SQLITE
def test_a_fenced_attempt_writes_nothing(
    running: RunningWriter, unreliable: Unreliable, job: Any, wait_until: Callable[..., Any]
) -> None:
    running.write_frames(RUNNING, block())
    with unreliable.database.write() as session:
        session.execute(update(Job).values(attempt=2))
    running.writer.enqueue_frames([block(4), EVENT])
    wait_until(lambda: running.writer.is_fenced)
    running.writer.enqueue_frames([block(8)])
    assert running.writer.buffer.wait_until_empty(DEADLINE_S)
    assert stored(unreliable.database, job.id)[0] == 4
    assert running.events == []


@ON_SQLITE
def test_since_heartbeat_grows_while_the_database_is_unreachable(
    running: RunningWriter, unreliable: Unreliable, wait_until: Callable[..., Any]
) -> None:
    unreliable.connect_failures = 10**6
    running.writer.enqueue_frames([EVENT])
    wait_until(lambda: running.writer.since_heartbeat_s > 0.5)
    unreliable.connect_failures = 0
    wait_until(lambda: running.writer.since_heartbeat_s < 0.5)


@ON_SQLITE
def test_there_is_a_pause_after_a_heartbeat_that_fails_for_good(
    unreliable: Unreliable,
    job: Any,
    wait_until: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Checked: if the pause counts from the last success, it is 0 after the first failure."""
    running = RunningWriter(unreliable, job, lease_s=0.5)
    take_batch, pauses = running.writer.buffer.take_batch, []

    def take_batch_after(pause_s: float) -> Any:
        pauses.append(pause_s)
        return take_batch(pause_s)

    monkeypatch.setattr(running.writer.buffer, "take_batch", take_batch_after)
    unreliable.error = ProgrammingError("UPDATE", None, Exception("no such column"))
    unreliable.connect_failures = 10**6
    running.writer.start()
    wait_until(lambda: unreliable.tries >= 4)
    running.writer.close()
    assert any(pauses[1:])
    assert running.writer.error is not None


@ON_SQLITE
def test_the_write_buffer_is_bounded(
    running: RunningWriter, unreliable: Unreliable, wait_until: Callable[..., Any]
) -> None:
    unreliable.connect_failures = 10**6
    running.writer.enqueue_frames([RUNNING, block(), block(4)])
    assert not running.writer.buffer.has_room
    unreliable.connect_failures = 0
    running.writer.buffer.wait_for_room(DEADLINE_S)
    assert running.writer.buffer.has_room


@ON_SQLITE
def test_pending_writes_are_dropped_when_the_attempt_ends(
    running: RunningWriter, unreliable: Unreliable
) -> None:
    unreliable.connect_failures = 10**6
    running.writer.enqueue_frames([EVENT])
    running.attempt_ended.set()
    running.writer.close()
    assert unreliable.tries < 100


def test_telemetry_that_cannot_be_stored_is_an_error_and_later_transactions_run(
    running: RunningWriter, unreliable: Unreliable, job: Any
) -> None:
    running.write_frames(RUNNING, block())
    running.write_frames(block())
    assert running.writer.error is not None
    running.write_frames(block(4))
    assert stored(unreliable.database, job.id)[0] == 4
    done: list[bool] = []
    running.writer.enqueue_transaction(lambda session: done.append(True))
    assert running.writer.buffer.wait_until_empty(DEADLINE_S)
    assert done == [True]
    assert not running.writer.is_fenced


@ON_SQLITE
def test_log_output_is_stored_with_the_telemetry(
    running: RunningWriter, unreliable: Unreliable, job: Any
) -> None:
    running.writer.enqueue(LogChunk("stderr", "half a \0 line"))
    running.write_frames(EVENT)
    with unreliable.database.read() as session:
        (chunk,) = logs.read(session, job.id, after_seq=0, limit=10)
    assert (chunk.stream, chunk.text) == ("stderr", "half a \ufffd line")


@ON_SQLITE
def test_stored_steps_are_measured(running: RunningWriter) -> None:
    running.write_frames(RUNNING, block(), block(4))
    reading = running.metrics.reading()
    assert reading["steps_total"] == 8
    assert 0 < reading["lag_s"] < DEADLINE_S
    assert running.metrics.reading() == {"steps_total": 8, "lag_s": 0.0, "busy": 0}
