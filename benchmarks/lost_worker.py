"""How long a job waits after its worker was killed: one JSON line.

PostgreSQL, one API process, two real workers, a lease of 30 s. The worker with the job is killed
with SIGKILL; measured are the seconds until the other one has claimed it, and until steps of the
next attempt are stored.
"""

import argparse
import statistics
import time
from contextlib import ExitStack
from itertools import count
from subprocess import Popen

from compare import report
from sqlalchemy import exists, select
from under_load.service_processes import (
    ServiceEnvironment,
    api,
    process,
    service_environment,
    wait_until,
)

from store.database import Database
from store.tables import Artifact, Job, StepBlockRow, Worker

ROUNDS = 5
LEASE_S = 30
SPEC = {
    "model": {"kind": "mlp", "hidden": [64]},
    "data": {"kind": "digits", "batch_size": 32},
    "train": {"steps": 10_000_000, "checkpoint_every_s": 2},
}
NAMES = (f"worker-{number}" for number in count(1))


def start_worker(stack: ExitStack, service: ServiceEnvironment, **settings: str) -> "Popen[bytes]":
    """Start another worker, by default with one slot; returns once it has registered."""
    environment = service.environment(AMPCORE_LEASE_S=str(LEASE_S), **settings)
    log = service.folder / f"{next(NAMES)}.log"
    started = stack.enter_context(process(["-m", "server", "worker"], environment, log))
    hello = select(exists().where(Worker.pid == started.pid))
    wait_until(lambda: asked(service.database, hello), started)
    return started


def asked(database: Database, question: object) -> object:
    """The one value that a query answers."""
    with database.read() as session:
        return session.scalar(question)


def newest() -> object:
    """The job that was submitted last."""
    return select(Job.id).order_by(Job.created_at.desc()).limit(1)


def has_checkpoint(job_id: str, attempt: int) -> object:
    """Whether a job can resume from this attempt."""
    mine = (Artifact.job_id == job_id, Artifact.attempt == attempt)
    return select(exists().where(*mine, Artifact.kind == "checkpoint"))


def has_steps(job_id: str, attempt: int) -> object:
    """Whether this attempt has stored steps."""
    return select(exists().where(StepBlockRow.job_id == job_id, StepBlockRow.attempt == attempt))


def lose(database: Database, job_id: str, victim: "Popen[bytes]") -> list[float]:
    """Kill the worker; seconds until the second attempt is claimed, and until its first steps."""
    wait_until(lambda: asked(database, has_checkpoint(job_id, attempt=1)), victim)
    time.sleep(5)  # by then the standby of the other worker is warm, as it usually is
    begin = time.perf_counter()
    victim.kill()
    times = []
    for question in (
        select(Job.id).where(Job.id == job_id, Job.attempt == 2),
        has_steps(job_id, attempt=2),
    ):
        wait_until(lambda question=question: asked(database, question), timeout_s=120)
        times.append(time.perf_counter() - begin)
    return times


def owner(database: Database, job_id: str) -> int:
    """The process id of the worker that has the job."""
    statement = select(Worker.pid).join(Job, Job.worker_id == Worker.id).where(Job.id == job_id)
    return int(asked(database, statement))


def main() -> None:
    """Measure, and print."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    with ExitStack() as stack:
        service = stack.enter_context(service_environment("postgresql"))
        server = stack.enter_context(api(service))
        team = [start_worker(stack, service) for _ in range(2)]
        rounds = []
        for _ in range(ROUNDS):  # each with a new job: one that is lost again waits longer
            server.connection().request("POST", "/api/v1/jobs", SPEC)
            job_id = str(asked(service.database, newest()))
            wait_until(lambda it=job_id: asked(service.database, has_steps(it, attempt=1)))
            pid = owner(service.database, job_id)
            (victim,) = [one for one in team if one.pid == pid]
            rounds.append(lose(service.database, job_id, victim))
            server.connection().request("POST", f"/api/v1/jobs/{job_id}/cancel")
            team = [one for one in team if one is not victim] + [start_worker(stack, service)]
    taken, stepping = zip(*rounds, strict=True)
    report(
        "lost_worker",
        goal_s=45,
        lease_s=LEASE_S,
        taken_again_s=round(statistics.median(taken), 1),
        taken_again_worst_s=round(max(taken), 1),
        steps_again_s=round(statistics.median(stepping), 1),
        steps_again_worst_s=round(max(stepping), 1),
        kills=ROUNDS,
    )


if __name__ == "__main__":
    main()
