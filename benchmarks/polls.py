"""How long a status poll takes while 200 people poll and 20 jobs run: one JSON line.

One API process and one worker of 20 slots. The trainers only talk, a block of 250 steps every half
second each, since two cores could not train 20 jobs; all that their worker and the API do is real.
Everybody polls as often as the client's `job.wait` does. SQLite and PostgreSQL take turns.
"""

import random
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from contest import report
from sqlalchemy import func, select
from under_load.load import in_threads, millis
from under_load.parts import DATABASES, ROOT, Api, api, process, surroundings, wait_until

from ampclient.wait import POLL_S
from store.database import Database
from store.tables import Job

JOBS = 20
POLLERS = 200
ROUNDS = 3
ROUND_S = 20.0
SPEC = {"model": {"kind": "mlp"}, "data": {"kind": "digits"}}
WORKER = str(ROOT / "benchmarks/under_load/talking_worker.py")


@contextmanager
def busy_service(kind: str) -> Iterator[tuple[Api, Database, list[str]]]:
    """A service that runs its jobs."""
    with ExitStack() as stack:
        around = stack.enter_context(surroundings(kind))
        server = stack.enter_context(api(around))
        settings = around.environment(AMPCORE_WORKER_SLOTS=str(JOBS))
        worker = stack.enter_context(process([WORKER], settings, around.folder / "worker.log"))
        connection = server.connection()
        for _ in range(JOBS):
            connection.request("POST", "/api/v1/jobs", SPEC)
        connection.close()
        wait_until(lambda: len(running(around.database)) == JOBS, worker)
        yield server, around.database, running(around.database)


def running(database: Database) -> list[str]:
    """The jobs that have told of steps."""
    with database.read() as session:
        return list(session.scalars(select(Job.id).where(Job.state == "running", Job.step > 0)))


def stored_blocks(database: Database) -> int:
    """How many entries the workers have written."""
    with database.read() as session:
        return session.scalar(select(func.sum(Job.told))) or 0


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
    answer = {}
    for kind in DATABASES:
        with busy_service(kind) as (server, database, job_ids):
            measure(server, job_ids)
            before, begin = stored_blocks(database), time.monotonic()
            rounds = [measure(server, job_ids) for _ in range(ROUNDS)]
            blocks = (stored_blocks(database) - before) / (time.monotonic() - begin)
            assert len(running(database)) == JOBS
        latencies = [latency for taken in rounds for latency in taken]
        answer[kind] = millis(latencies) | {
            "polls_per_s": round(len(latencies) / (ROUNDS * ROUND_S), 1),
            "blocks_stored_per_s": round(blocks, 1),
        }
    report("polls", goal_p99_ms=50, jobs=JOBS, pollers=POLLERS, poll_every_s=POLL_S, **answer)


if __name__ == "__main__":
    main()
