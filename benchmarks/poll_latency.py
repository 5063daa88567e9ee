"""Latency of a status poll with 200 clients and 20 running jobs: one JSON line.

One API process and one worker with 20 slots. The trainers are synthetic and write a block of 250
steps every half second each, since two cores cannot train 20 jobs; worker and API are real. Clients
poll twice a second, as those do that do not let the server wait. SQLite and PostgreSQL alternate.
"""

import argparse
import random
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from compare import report
from sqlalchemy import func, select
from under_load.load import in_threads, latency_ms
from under_load.service_processes import (
    DATABASES,
    ROOT,
    Api,
    api,
    process,
    service_environment,
    wait_until,
)

from ampclient._job.wait import POLL_S
from store.database import Database
from store.tables import Job

JOBS = 20
POLLERS = 200
ROUNDS = 3
ROUND_S = 20.0
SPEC = {"model": {"kind": "mlp"}, "data": {"kind": "digits"}}
WORKER = str(ROOT / "benchmarks/under_load/synthetic_worker.py")


@contextmanager
def busy_service(kind: str) -> Iterator[tuple[Api, Database, list[str]]]:
    """A service that runs its jobs."""
    with ExitStack() as stack:
        service = stack.enter_context(service_environment(kind))
        server = stack.enter_context(api(service))
        settings = service.environment(AMPCORE_WORKER_SLOTS=str(JOBS))
        worker = stack.enter_context(process([WORKER], settings, service.folder / "worker.log"))
        connection = server.connection()
        for _ in range(JOBS):
            connection.request("POST", "/api/v1/jobs", SPEC)
        connection.close()
        wait_until(lambda: len(running(service.database)) == JOBS, worker)
        yield server, service.database, running(service.database)


def running(database: Database) -> list[str]:
    """The running jobs with stored steps."""
    with database.read() as session:
        return list(session.scalars(select(Job.id).where(Job.state == "running", Job.step > 0)))


def stored_blocks(database: Database) -> int:
    """How many entries the workers have written."""
    with database.read() as session:
        return session.scalar(select(func.sum(Job.entries_written))) or 0


def poll(server: Api, job_id: str, until: float) -> list[float]:
    """The times that one person's polls took."""
    connection, taken = server.connection(), []
    time.sleep(random.random() * POLL_S)  # people do not begin together
    while (begin := time.perf_counter()) < until:
        connection.request("GET", f"/api/v1/jobs/{job_id}")
        taken.append(time.perf_counter() - begin)
        time.sleep(POLL_S)
    connection.close()
    return taken


def measure(server: Api, job_ids: Sequence[str]) -> list[float]:
    """A round of everybody's polls."""
    until = time.perf_counter() + ROUND_S
    asked = [job_ids[number % JOBS] for number in range(POLLERS)]
    return [
        one for taken in in_threads(lambda id_: poll(server, id_, until), asked) for one in taken
    ]


def main() -> None:
    """Measure and print."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    answer = {}
    for kind in DATABASES:
        with busy_service(kind) as (server, database, job_ids):
            measure(server, job_ids)
            before, begin = stored_blocks(database), time.monotonic()
            rounds = [measure(server, job_ids) for _ in range(ROUNDS)]
            blocks = (stored_blocks(database) - before) / (time.monotonic() - begin)
            assert len(running(database)) == JOBS
        latencies = [latency for taken in rounds for latency in taken]
        answer[kind] = latency_ms(latencies) | {
            "polls_per_s": round(len(latencies) / (ROUNDS * ROUND_S), 1),
            "blocks_stored_per_s": round(blocks, 1),
        }
    report(
        "poll_latency", goal_p99_ms=50, jobs=JOBS, pollers=POLLERS, poll_every_s=POLL_S, **answer
    )


if __name__ == "__main__":
    main()
