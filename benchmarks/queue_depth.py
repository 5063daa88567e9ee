"""The latency of requests with a queue of 10,000 jobs. Prints one JSON line.

It measures listing, reading, claiming, cancelling and submitting with 100 and with 10,000 queued
jobs, in alternation, on SQLite and on PostgreSQL. All except the claim go through one API process
each. Finally it measures reading a finished job, alone and while 50 clients poll queued jobs.
"""

import argparse
import itertools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass

from compare import report
from sqlalchemy import select, text, update
from under_load.http_connection import Connection
from under_load.load import in_threads, latency_ms
from under_load.service_processes import (
    DATABASES,
    Api,
    ServiceEnvironment,
    api,
    service_environment,
)

from ampspec.jobs import JobSpec
from store import workers
from store.clock import from_now
from store.database import Database
from store.jobs import attempts, jobs
from store.tables import Job, Worker

DEPTHS = (100, 10_000)
ROUNDS = 60
POLLERS = 50
POLL_S = 0.1
POSTED = {"model": {"kind": "mlp"}, "data": {"kind": "digits"}}
SPEC = JobSpec.parse(POSTED)


@dataclass(frozen=True)
class Queue:
    """A service with a number of queued jobs, and an endless iterator over their ids."""

    connection: Connection
    database: Database
    server: Api
    ids: Iterator[str]
    finished: str
    """The id of a finished job."""

    def list_newest(self) -> None:
        """List the first page of jobs."""
        self.connection.request("GET", "/api/v1/jobs?limit=50")

    def list_queued(self) -> None:
        """List the first page of queued jobs."""
        self.connection.request("GET", "/api/v1/jobs?state=queued&limit=50")

    def read(self) -> None:
        """Read a queued job, with the sentence that explains why it waits."""
        self.connection.request("GET", f"/api/v1/jobs/{next(self.ids)}")

    def read_finished(self) -> None:
        """Read a finished job."""
        self.connection.request("GET", f"/api/v1/jobs/{self.finished}")

    def submit(self) -> None:
        """Submit a job."""
        self.connection.request("POST", "/api/v1/jobs", POSTED)

    def cancel(self) -> None:
        """Cancel a queued job."""
        self.connection.request("POST", f"/api/v1/jobs/{next(self.ids)}/cancel")

    def claim(self) -> None:
        """Claim the next job as a worker does, with a lease that does not expire meanwhile."""
        with self.database.write() as session:
            job = attempts.claim_next(session, "benchmark", ["default"], lease_s=3600)
        assert job is not None


MEASURED: tuple[Callable[[Queue], None], ...] = (
    Queue.list_newest,
    Queue.list_queued,
    Queue.read,
    Queue.read_finished,
    Queue.claim,
    Queue.submit,
    Queue.cancel,
)


def fill(service: ServiceEnvironment, depth: int) -> None:
    """Queue a number of jobs."""
    with service.database.write() as session:
        for _ in range(depth):
            jobs.create(session, SPEC, jobs.Origin("default"))
    with service.database.write() as session:
        session.execute(text("ANALYZE"))  # PostgreSQL does so by itself within a minute


def queue(stack: ExitStack, service: ServiceEnvironment) -> Queue:
    """Open an API on a database, and a connection that must not be idle from now on."""
    with service.database.read() as session:
        # The newest jobs first: claims take the oldest.
        ids = session.scalars(select(Job.id).order_by(Job.created_at.desc())).all()
    with service.database.write() as session:
        # A worker serves the queue and is busy, so that the response has the job's position.
        known = {"hostname": "h", "pid": 1, "version": "1", "queues": ["default"]}
        workers.register(session, "benchmark", slots=1, **known)
        session.execute(update(Worker).values(last_seen_at=from_now(3600)))
        finished = jobs.create(session, SPEC, jobs.Origin("default")).id
        jobs.request_cancel(session, finished)
    server = stack.enter_context(api(service))
    connection = server.connection()
    stack.callback(connection.close)
    return Queue(connection, service.database, server, itertools.cycle(ids), finished)


def beside_pollers(of: Queue) -> dict[str, dict[str, float]]:
    """Reads of a finished job, and the polls, while POLLERS clients poll queued jobs."""
    over, taken = threading.Event(), []

    def poll(job_id: str) -> list[float]:
        connection, mine = of.server.connection(), []
        while not over.wait(POLL_S):
            begin = time.perf_counter()
            connection.request("GET", f"/api/v1/jobs/{job_id}")
            mine.append(time.perf_counter() - begin)
        connection.close()
        return mine

    def look(_: str) -> list[float]:
        time.sleep(10 * POLL_S)
        for _ in range(ROUNDS):
            taken.append(timed(Queue.read_finished, of))
            time.sleep(POLL_S / 5)
        over.set()
        return []

    asked = [next(of.ids) for _ in range(POLLERS)]
    work = [(look, ""), *((poll, job_id) for job_id in asked)]
    polls = in_threads(lambda one: one[0](one[1]), work)
    return {
        "finished": latency_ms(taken),
        "polls": latency_ms([one for mine in polls for one in mine]),
    }


def timed(ask: Callable[[Queue], None], of: Queue) -> float:
    """The duration of a call in seconds."""
    begin = time.perf_counter()
    ask(of)
    return time.perf_counter() - begin


def measure(kind: str) -> dict[str, dict[str, dict[str, float]]]:
    """Measure each request at each queue length, in alternation."""
    with ExitStack() as stack:
        places = {depth: stack.enter_context(service_environment(kind)) for depth in DEPTHS}
        for depth, service in places.items():
            fill(service, depth)
        queues = {depth: queue(stack, service) for depth, service in places.items()}
        found: dict[str, dict[str, dict[str, float]]] = {}
        for ask in MEASURED:
            taken: dict[int, list[float]] = {depth: [] for depth in DEPTHS}
            for _, (depth, of) in itertools.product(range(ROUNDS), queues.items()):
                taken[depth].append(timed(ask, of))
            found[ask.__name__] = {str(depth): latency_ms(these) for depth, these in taken.items()}
            if ask is Queue.read_finished:
                beside = {depth: beside_pollers(of) for depth, of in queues.items()}
                for name in ("finished", "polls"):
                    found[f"{name}_beside_{POLLERS}_pollers"] = {
                        str(depth): measured[name] for depth, measured in beside.items()
                    }
    return found


def main() -> None:
    """Measure and print the result."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    report("queue_depth", rounds=ROUNDS, **{kind: measure(kind) for kind in DATABASES})


if __name__ == "__main__":
    main()
