"""Jobs for these tests, and streams that are open while something happens to the service."""

import threading
from typing import Any, Final

import numpy as np

from ampclient import Artifact, Client, Job, StepsEvent, Worker
from tests.containers.compose import Container, Project
from tests.waiting import join, wait_until

DIGITS: Final[dict[str, Any]] = {
    "name": "digits",
    "model": {"kind": "mlp", "hidden": [16]},
    "data": {"kind": "digits", "batch_size": 32},
    "precision": {"policy": "mixed_float16"},
    # Too high at first, and growing often: its history must survive every failure.
    "loss_scale": {"mode": "dynamic", "initial": 2.0**24, "growth_interval": 20},
    "train": {"steps": 2_000, "seed": 3, "checkpoint_every_s": 1},
    # The same engine each time: results are compared bit by bit.
    "runtime": {"engine": "graph", "device": "cpu"},
}
ENDLESS: Final[dict[str, Any]] = {
    **DIGITS,
    "name": "endless",
    "train": {**DIGITS["train"], "steps": 100_000_000, "eval_every_epochs": 10_000_000},
}
"""Ended by the test: how many steps it takes depends on nothing but the test."""


class OpenStream:
    """A thread that reads the step blocks of a job until it ends."""

    def __init__(self, job: Job) -> None:
        self.blocks: list[StepsEvent] = []
        self._job = job
        self._thread = threading.Thread(target=self._read, name=f"stream of {job.id}", daemon=True)
        self._thread.start()

    def wait_for_more(self, count: int = 2) -> None:
        """Wait until this many more blocks have come."""
        wanted = len(self.blocks) + count
        wait_until(lambda: len(self.blocks) >= wanted, f"{wanted} blocks", show=self._job.refresh)

    def check_complete(self) -> None:
        """Wait for the end. Within an attempt every step came once, in order, without a gap."""
        join(self._thread)
        for attempt in {block.attempt for block in self.blocks}:
            steps = steps_of([block for block in self.blocks if block.attempt == attempt])
            assert (np.diff(steps) == 1).all()

    def _read(self) -> None:
        for block in self._job.stream():
            self.blocks.append(block)


def steps_of(blocks: list[StepsEvent]) -> np.ndarray:
    """The numbers of the steps of the blocks."""
    return np.concatenate([block.first_step + np.arange(len(block)) for block in blocks])


def has_step(job: Job, step: int) -> Any:
    """Whether the job has come this far."""
    return (job.refresh().step or 0) >= step


def checkpoints(job: Job) -> list[Artifact]:
    """The checkpoints that are stored for the job."""
    return [artifact for artifact in job.artifacts() if artifact.kind == "checkpoint"]


def running_worker(client: Client, job: Job) -> Worker | None:
    """The worker that runs the job."""
    return next((worker for worker in client.workers.list() if job.id in worker.jobs), None)


def container_of(project: Project, worker: Worker) -> Container:
    """The container of a worker, whose host name is the start of the container's id."""
    found = [c for c in project.containers("worker") if c.inspect()["Id"][:12] == worker.hostname]
    return found[0]
