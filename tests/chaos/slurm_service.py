"""A stack whose jobs a real Slurm with two nodes gives their devices."""

import shlex
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import yaml

from ampclient import Job
from store import allocations
from store.tables import Allocation
from tests.chaos.cluster import SCRIPTED, Cluster
from tests.chaos.process import Process
from tests.chaos.service_processes import PROGRAMS
from tests.processes import free_ports
from tests.slurm import SlurmCluster
from tests.waiting import wait_until

NODES = 2
RANK_PORTS = 16
POLL_S = 0.2
QUEUE = "cpu"
WORKER = """#!/bin/sh
# What a node runs instead of `ampserver worker --job ID`: the real worker with scripted trainers.
[ "$1 $2" = "worker --job" ] || exit 64
export AMPCORE_WORKER_JOB="$3"
export AMPCORE_SCRATCH_DIR={folder}/scratch-$SLURM_JOB_ID-$SLURM_RESTART_COUNT-$SLURM_PROCID
case "$SLURM_PROCID" in
    0) export AMPCORE_WORKER_PORTS={ports[0]} ;;
    *) export AMPCORE_WORKER_PORTS={ports[1]} ;;
esac
exec {command}
"""


class SlurmService:
    """A stack, a Slurm cluster, and the schedulers between them."""

    def __init__(self, cluster: Cluster, slurm: SlurmCluster, folder: Path) -> None:
        self.cluster, self.slurm, self._folder = cluster, slurm, folder
        self.schedulers: list[Process] = []
        self._config = folder / "slurm.yaml"
        self._write_settings()

    def start_scheduler(self) -> Process:
        """Start a scheduler; with one that runs already, it waits for its end."""
        number = len(self.schedulers) + 1
        scheduler = Process(
            f"scheduler-{number}",
            self._folder / f"scheduler-{number}.log",
            ["-m", "server", "schedule", "slurm", "--config", str(self._config)],
            {**self.cluster.environment(), **self.slurm.environ},
        )
        scheduler.start()
        self.schedulers.append(scheduler)
        return scheduler

    def stop(self) -> None:
        """Stop the schedulers, and end what they have submitted."""
        for scheduler in self.schedulers:
            if scheduler.running:
                assert scheduler.stop() == 0, scheduler.log
        self.slurm.end_jobs()

    def allocations(self, job: Job) -> list[Allocation]:
        """All allocations of a job, the oldest first."""
        with self.cluster.database.read() as session:
            rows = list(allocations.of_job(session, job.id))
            session.expunge_all()
            return rows

    def current(self, job: Job) -> Allocation:
        """The newest allocation of a job, once it is known to Slurm."""

        def newest() -> Allocation | None:
            rows = self.allocations(job)
            return rows[-1] if rows and rows[-1].external_id is not None else None

        allocation: Allocation = wait_until(newest, "it is submitted", show=self.state)
        return allocation

    def worker(self, job: Job) -> psutil.Process:
        """The process of the worker that runs a job with one rank."""
        job = job.refresh()
        [pid] = [known.pid for known in self.cluster.client.workers.list()
                 if known.id == job.worker_id]  # fmt: skip
        return psutil.Process(pid)

    def submissions(self) -> Counter[str]:
        """How often each name was submitted, of the jobs that Slurm still lists."""
        listed = self.slurm.run("squeue", "--states=all", "--noheader", "--format=%j").stdout
        return Counter(listed.split())

    def scontrol(self, *arguments: str) -> str:
        """Run a command of scontrol that must succeed."""
        ended = self.slurm.run("scontrol", *arguments)
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    def state(self) -> str:
        """What Slurm and the schedulers say, for the message of a failed test."""
        listed = self.slurm.run("squeue", "--states=all").stdout
        logs = [f"{scheduler.name}:\n{scheduler.log}" for scheduler in self.schedulers]
        return "\n".join([listed, *logs])

    def _write_settings(self) -> None:
        script, ports = self._folder / "ampserver", free_ports(NODES * RANK_PORTS)
        worker, trainer = str(PROGRAMS / "patched_worker.py"), str(PROGRAMS / SCRIPTED)
        python = [sys.executable, "-u"]
        command = [*python, worker, "--", *python, trainer, self.cluster.control.argument()]
        ranges = [ports[number * RANK_PORTS :][:RANK_PORTS] for number in range(NODES)]
        script.write_text(
            WORKER.format(
                folder=self._folder,
                ports=[f"{numbers[0]}-{numbers[-1]}" for numbers in ranges],
                command=shlex.join(command),
            )
        )
        script.chmod(0o755)
        settings: dict[str, Any] = {
            "poll_s": POLL_S,
            "command": [str(script)],
            "environment": ["TMPDIR", "PYTHONPATH"],
            "output": str(self._folder / "worker-%x.log"),
            "queues": {QUEUE: {"partition": "main", "warning_s": 30}},
        }
        self._config.write_text(yaml.safe_dump(settings))


@contextmanager
def slurm_service(cluster: Cluster, slurm: SlurmCluster, folder: Path) -> Iterator[SlurmService]:
    """A stack without workers of its own, and one scheduler; all allocations end with it.

    Args:
        cluster: The stack.
        slurm: The cluster of Slurm.
        folder: An empty folder for logs and scratch files.
    """
    cluster.ensure_workers(0)
    service = SlurmService(cluster, slurm, folder)
    service.start_scheduler()
    try:
        yield service
    finally:
        cluster.control.release()
        service.stop()
