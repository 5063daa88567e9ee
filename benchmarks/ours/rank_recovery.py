"""How long a job with two ranks waits after one of them was killed; prints one JSON line.

PostgreSQL, one API process, one worker with two slots. A rank is killed with SIGKILL; measured are
the seconds until steps of the next attempt are stored. It contains the delay of the first retry of
a killed process: 5 s.
"""

import json
import statistics
import time
from contextlib import ExitStack
from subprocess import Popen

import psutil
from lost_worker import SPEC, asked, has_checkpoint, has_steps, newest, start_worker
from under_load.service_processes import api, service_environment, wait_until

from store.database import Database
from worker.trainer.child.fork_server import TRAINER_NAME

RANKS = 2
ROUNDS = 4
ON_RANKS = {**SPEC, "runtime": {"devices": RANKS, "device": "cpu"}}
TIMEOUT_S = 180.0


def trainers(worker: "Popen[bytes]") -> list[psutil.Process]:
    """The processes of the ranks, in the order in which they were started."""
    found = psutil.Process(worker.pid).children(recursive=True)
    return sorted((one for one in found if one.name() == TRAINER_NAME), key=lambda one: one.pid)


def lose_rank(database: Database, job_id: str, worker: "Popen[bytes]", number: int) -> float:
    """Kill one of the processes; seconds until the next attempt has stored steps."""
    wait_until(lambda: asked(database, has_checkpoint(job_id, attempt=1)), worker, TIMEOUT_S)
    ranks = trainers(worker)
    if len(ranks) != RANKS:
        raise RuntimeError(f"Expected {RANKS} ranks; received {ranks}.")
    begin = time.perf_counter()
    ranks[number].kill()
    wait_until(lambda: asked(database, has_steps(job_id, attempt=2)), worker, TIMEOUT_S)
    return time.perf_counter() - begin


def main() -> None:
    """Measure, and print."""
    seconds = []
    with ExitStack() as stack:
        service = stack.enter_context(service_environment("postgresql"))
        server = stack.enter_context(api(service))
        worker = start_worker(stack, service, AMPCORE_WORKER_SLOTS=str(RANKS))
        for index in range(ROUNDS):  # each with a new job: a second failure waits longer
            server.connection().request("POST", "/api/v1/jobs", ON_RANKS)
            job_id = str(asked(service.database, newest()))
            seconds.append(lose_rank(service.database, job_id, worker, index % RANKS))
            server.connection().request("POST", f"/api/v1/jobs/{job_id}/cancel")
            wait_until(lambda: not trainers(worker), worker, TIMEOUT_S)
    median = round(statistics.median(seconds), 1)
    print(json.dumps({"seconds": median, "worst": round(max(seconds), 1), "kills": ROUNDS}))


if __name__ == "__main__":
    main()
