"""How long a job takes from its submission to its first step: on a warm worker, and through Slurm.

One stack with PostgreSQL serves both: a plain worker whose standby trainer has TensorFlow imported,
and a scheduler that submits to a real Slurm with two nodes, both of them this machine. Jobs run one
at a time, in alternation. Then one round of the scheduler is measured with 100 and with 10,000
queued jobs, of which a hundred wait in Slurm. Prints one JSON line. Needs Debian's packages
slurmctld, slurmd, slurm-client and munge.
"""

import argparse
import os
import shutil
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import psutil
import yaml
from compare import report
from sqlalchemy import func, select, text
from under_load.service_processes import ServiceEnvironment, api, process, service_environment

from ampclient import Client
from ampspec.jobs import JobSpec
from server.allocations.scheduler import Scheduler
from server.allocations.slurm import Slurm
from server.allocations.slurm_settings import SlurmSettings
from store.clock import seconds_since
from store.database import Database
from store.jobs import jobs
from store.tables import Allocation, Attempt, Job, StepBlockRow, Worker
from tests.slurm import SlurmCluster, slurm_cluster
from worker.trainer.child.fork_server import STANDBY_NAME

JOBS: Final = 9
ROUNDS: Final = 21
DEPTHS: Final = (100, 10_000)
PENDING: Final = 100
"""How many allocations wait in Slurm while a round is measured."""
POLL_S: Final = 1.0
PARTS: Final = ("submitted", "worker_runs", "claimed", "first_step")
"""What is waited for, one after the other."""
SPEC: Final[dict[str, Any]] = {
    "model": {"kind": "cnn"},
    "data": {"kind": "digits"},
    "precision": {"policy": "mixed_bfloat16"},
    "train": {"steps": 200},
}


def waits_s(database: Database, job_id: str) -> dict[str, float]:
    """Seconds after the submission of a job, by the database's clock, at which each part was done.

    `submitted` and `worker_runs` are missing without an allocation: its worker ran before.
    """
    first = select(func.min(StepBlockRow.created_at)).where(StepBlockRow.job_id == job_id)
    statement = (
        select(
            seconds_since(Job.created_at, until=Allocation.created_at).label("submitted"),
            seconds_since(Job.created_at, until=Worker.started_at).label("worker_runs"),
            seconds_since(Job.created_at, until=Attempt.started_at).label("claimed"),
            seconds_since(Job.created_at, until=first.scalar_subquery()).label("first_step"),
        )
        .join(Attempt, Attempt.job_id == Job.id)
        .join(Allocation, Allocation.job_id == Job.id, isouter=True)
        .join(Worker, Worker.job_id == Job.id, isouter=True)
        .where(Job.id == job_id)
    )
    with database.read() as session:
        row = session.execute(statement).one()
    return {part: float(getattr(row, part)) for part in PARTS if getattr(row, part) is not None}


def median_waits(waits: list[dict[str, float]]) -> dict[str, float]:
    """The median of each part, in seconds."""
    return {part: round(statistics.median(one[part] for one in waits), 2) for part in waits[0]}


def wait_until_idle(worker: int) -> None:
    """Wait until the standby trainer of a plain worker has warmed up."""
    while True:
        trainers = [
            child
            for child in psutil.Process(worker).children(recursive=True)
            if child.name() == STANDBY_NAME
        ]
        if len(trainers) == 1 and trainers[0].cpu_percent(interval=0.5) < 3:
            return
        time.sleep(0.1)


def measure_starts(
    stack: ExitStack, service: ServiceEnvironment, cluster: SlurmCluster
) -> dict[str, Any]:
    """The starts of jobs on a warm worker and in allocations, in alternation."""
    command = shutil.which("ampserver", path=str(Path(sys.executable).parent)) or "ampserver"
    settings = service.folder / "slurm.yaml"
    queue = {"partition": "main", "warning_s": 30}
    settings.write_text(
        yaml.safe_dump(
            {
                "command": [command],
                "poll_s": POLL_S,
                "environment": ["PYTHONPATH"],
                "queues": {"slurm": queue},
                "output": str(service.folder / "%x.log"),
            }
        )
    )
    running = stack.enter_context(api(service))
    client = stack.enter_context(Client(running.url, running.token, timeout_s=120))
    environment = service.environment(AMPCORE_WORKER_QUEUES="plain")
    worker = stack.enter_context(
        process(["-P", "-m", "worker"], environment, service.folder / "worker.log")
    )
    scheduler = ["-m", "server", "schedule", "slurm", "--config", str(settings)]
    stack.enter_context(
        process(
            scheduler, {**service.environment(), **cluster.environ}, service.folder / "slurm.log"
        )
    )
    waits: dict[str, list[dict[str, float]]] = {"plain": [], "slurm": []}
    for _ in range(JOBS):
        for name, measured in waits.items():
            wait_until_idle(worker.pid)
            job = client.jobs.submit({**SPEC, "runtime": {"queue": name}}).wait(timeout_s=300)
            assert job.state == "succeeded", (service.folder / "slurm.log").read_text()
            measured.append(waits_s(service.database, job.id))
            cluster.wait_ready()
    return {name: median_waits(measured) for name, measured in waits.items()}


def timed(work: Callable[[], object]) -> float:
    """The duration of a call in seconds."""
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def waiting_allocations(database: Database) -> int:
    """The number of allocations that have not ended."""
    statement = select(func.count()).where(Allocation.ended_at.is_(None))
    with database.read() as session:
        return session.scalar(statement) or 0


def measure_rounds(service: ServiceEnvironment, cluster: SlurmCluster) -> dict[str, Any]:
    """The median duration of a round, in milliseconds, by the number of queued jobs."""
    cluster.run("scontrol", "update", "PartitionName=main", "State=DOWN")  # all of them wait
    settings = SlurmSettings.model_validate(
        {"queues": {"deep": {"partition": "main"}}, "command": ["/bin/true"]}
    )
    slurm = Slurm(settings, {**os.environ, **cluster.environ})
    scheduler = Scheduler(service.database, slurm, max_pending={"deep": PENDING}, poll_s=60)
    spec = JobSpec.parse({**SPEC, "runtime": {"queue": "deep"}})
    measured: dict[str, Any] = {}
    queued = 0
    for depth in DEPTHS:
        with service.database.write() as session:
            for _ in range(depth - queued):
                jobs.create(session, spec, jobs.Origin("default"))
        queued = depth
        with service.database.write() as session:
            session.execute(text("ANALYZE"))
        submitting = [0.0]
        while waiting_allocations(service.database) < PENDING:
            scheduler.renew_leases()
            submitting.append(timed(scheduler.follow_and_submit))
        seconds, squeue = [], []
        for _ in range(ROUNDS):
            scheduler.renew_leases()
            seconds.append(timed(scheduler.follow_and_submit))
            squeue.append(timed(slurm.statuses))
        measured[f"queued_{depth}"] = {
            "round_ms": round(1000 * statistics.median(seconds), 1),
            "of_which_squeue_ms": round(1000 * statistics.median(squeue), 1),
        }
        if depth == DEPTHS[0]:
            measured["submission_ms"] = round(1000 * sum(submitting) / PENDING, 1)
    scheduler.stop_leading()
    return measured


def main() -> None:
    """Measure, and print."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    with ExitStack() as stack:
        service = stack.enter_context(service_environment("postgresql"))
        (service.folder / "slurm").mkdir()
        cluster = stack.enter_context(slurm_cluster(service.folder / "slurm"))
        starts = measure_starts(stack, service, cluster)
        report(
            "slurm_start",
            jobs_of_each=JOBS,
            poll_s=POLL_S,
            seconds_after_submission=starts,
            rounds=measure_rounds(service, cluster),
        )


if __name__ == "__main__":
    main()
