"""What ranks print is stored like the telemetry of a job, with the lease of their worker."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sqlalchemy import update

from ampspec.jobs import State
from store.clock import from_now
from store.database import Database
from store.gangs import gang_members
from store.tables import GangMember, Job
from store.telemetry import logs
from store.telemetry.ingest import LogChunk
from tests.waiting import DEADLINE_S, wait_until
from tests.worker.unreliable_database import Unreliable
from worker.attempt.telemetry_writer import TelemetryWriter
from worker.attempt.write_buffer import WriteBuffer
from worker.database_retry import RetryingDatabase
from worker.gangs.member_lease import MemberLease
from worker.usage import SlotMetrics

FIRST, SECOND = LogChunk("stdout", "[rank 1] a\n"), LogChunk("stdout", "[rank 1] b\n")
DEVICES = [{"rank": 1, "state": "running", "device": "a CPU"}]
WORKER = "w1"


class Ranks:
    """The writer of a worker with rank 1 of a job."""

    def __init__(self, database: Database, job: Job, lease_s: float) -> None:
        self.job_id = job.id
        self.stop_request: str | None = None
        self.database = Unreliable(database)
        self.attempt_ended = threading.Event()
        with database.write() as session:
            fields = {"worker_id": WORKER, "first_rank": 1, "ranks": 1}
            session.add(
                GangMember(
                    job_id=job.id,
                    attempt=job.attempt,
                    state=gang_members.RUNNING,
                    lease_expires_at=from_now(lease_s),
                    **fields,
                )
            )
        unreliable: Any = self.database
        lease = MemberLease(
            job.id, job.attempt, lease_s, WORKER, lambda: self.stop_request, lambda: DEVICES
        )
        self.writer = TelemetryWriter(
            RetryingDatabase(unreliable, self.attempt_ended),
            lease,
            SlotMetrics(),
            lambda _: None,
            WriteBuffer(),
        )
        self.writer.start()

    def log(self) -> list[str]:
        with self.database.database.read() as session:
            return [row.text for row in logs.read(session, self.job_id, limit=10)]

    def member(self) -> GangMember:
        with self.database.database.read() as session:
            [member] = gang_members.listing(session, self.job_id)
            return member


@pytest.fixture
def start(database: Database, make_job: Callable[..., Any]) -> Iterator[Callable[..., Ranks]]:
    started: list[Ranks] = []

    def run(lease_s: float = 30.0) -> Ranks:
        started.append(Ranks(database, make_job(State.STARTING), lease_s))
        return started[-1]

    yield run
    for ranks in started:
        ranks.attempt_ended.set()
        ranks.writer.close()


def test_lines_are_kept_during_an_outage_and_stored_after_it(start: Callable[..., Ranks]) -> None:
    """Fails if an error of the database drops them."""
    ranks = start()
    ranks.database.connect_failures = 10**6
    ranks.writer.enqueue(FIRST)
    wait_until(lambda: ranks.database.tries > 0, "the first line could not be stored")
    ranks.writer.enqueue(SECOND)
    ranks.database.connect_failures = 0
    assert ranks.writer.buffer.wait_until_empty(DEADLINE_S)
    assert "".join(ranks.log()) == FIRST.text + SECOND.text


def test_lines_that_are_left_at_the_end_are_stored_with_it(start: Callable[..., Ranks]) -> None:
    ranks = start()
    ranks.database.connect_failures = 2
    ranks.writer.enqueue(FIRST)
    ranks.writer.enqueue(SECOND)
    ranks.writer.close()
    assert "".join(ranks.log()) == FIRST.text + SECOND.text


def test_an_attempt_that_has_ended_stores_no_lines(start: Callable[..., Ranks]) -> None:
    ranks = start()
    with ranks.database.database.write() as session:
        session.execute(update(Job).values(attempt=Job.attempt + 1))
    ranks.writer.enqueue(FIRST)
    wait_until(lambda: ranks.writer.is_fenced, "the writer is fenced")
    assert ranks.log() == []


def test_a_heartbeat_describes_the_ranks_and_exchanges_requests(
    start: Callable[..., Ranks],
) -> None:
    ranks = start(lease_s=0.5)
    ranks.stop_request = "shutdown"
    wait_until(lambda: ranks.member().stop_request == "shutdown", "the request is stored")
    assert ranks.member().devices == DEVICES
    with ranks.database.database.write() as session:
        gang_members.request_stop(session, ranks.job_id, 1)
    wait_until(lambda: ranks.writer.requested == gang_members.STOP, "the request is read")
