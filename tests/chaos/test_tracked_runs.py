"""A program that is tracked, and the server that it reports to, are killed and suspended."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from ampclient import Job
from ampspec.jobs import State
from tests.chaos import xdist_groups
from tests.chaos.cluster import Cluster
from tests.chaos.service_processes import PROGRAMS
from tests.waiting import DEADLINE_S, wait_until

pytestmark = [xdist_groups.RANKS_AND_RUNS, pytest.mark.quick]


class Program:
    """A running program and its run."""

    def __init__(self, cluster: Cluster) -> None:
        [api] = cluster.apis
        self.process = subprocess.Popen(
            [sys.executable, str(PROGRAMS / "tracked_program.py")],
            env={**os.environ, "AMPCORE_URL": api.url, "AMPCORE_TOKEN": cluster.token},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdin
        assert self.process.stdout
        self.input, self.output = self.process.stdin, self.process.stdout
        self._cluster, self._id = cluster, self.output.readline().strip()
        self._steps = 0

    @property
    def job(self) -> Job:
        return self._cluster.client.jobs.get(self._id)

    def train(self, steps: int) -> None:
        """Let it do this many further steps."""
        for step in range(self._steps, self._steps + steps):
            self.input.write(f"{step}\n")
        self.input.flush()
        self._steps += steps

    def wait_stored(self) -> None:
        wait_until(lambda: self.job.step == self._steps, "all steps are stored")

    def end(self) -> Job:
        """Let it finish the run."""
        self.input.close()
        assert self.process.wait(DEADLINE_S) == 0
        return self.job

    def close(self) -> None:
        self.process.kill()
        self.process.wait(DEADLINE_S)
        self.output.close()
        with suppress(BrokenPipeError):  # lines that the program did not read
            self.input.close()


@pytest.fixture
def program(cluster: Cluster) -> Iterator[Program]:
    program = Program(cluster)
    yield program
    program.close()


def losses(job: Job) -> list[Any]:
    values: list[Any] = job.steps()["loss"].tolist()
    return values


def epochs(job: Job) -> list[int]:
    return [event.data["epoch"] for event in job.events() if event.type == "epoch"]


def test_a_run_whose_server_is_killed_again_and_again_has_every_step_and_event_once(
    cluster: Cluster, program: Program
) -> None:
    """Mechanism: entries are numbered, and the program repeats what was not confirmed.

    Checked: if ampclient/tracking/sender.py confirms a batch that got no response, steps are
    missing.
    """
    [api] = cluster.apis
    for _ in range(3):
        program.train(5)
        program.wait_stored()
        api.kill()
        program.train(5)
        api.start()
        api.wait_ready()
        program.train(5)
    job = program.end()
    assert (job.state, job.attempt, job.step) == (State.SUCCEEDED, 1, 45)
    assert losses(job) == [float(step) for step in range(45)]
    assert epochs(job) == list(range(45))


def test_a_suspended_program_is_lost_and_its_run_continues_with_it(
    cluster: Cluster, program: Program
) -> None:
    """Mechanism: an upload of a lost run makes it running again.

    Checked: without `_continue` in store/jobs/tracked_runs.py the run stays failed.
    """
    program.train(3)
    program.wait_stored()
    program.process.send_signal(signal.SIGSTOP)
    cluster.expire_lease(program.job)
    lost = program.job.wait(timeout_s=DEADLINE_S)
    assert (lost.state, lost.reason) == (State.FAILED, "run_lost")
    program.process.send_signal(signal.SIGCONT)
    program.train(3)
    job = program.end()
    assert (job.state, job.reason, job.attempt) == (State.SUCCEEDED, None, 1)
    assert losses(job) == [float(step) for step in range(6)]


def test_the_steps_of_a_killed_program_stay(cluster: Cluster, program: Program) -> None:
    """Mechanism: the lease of a run expires as that of an attempt does.

    Checked: without tracked runs in store/jobs/lease_expiry.py the run stays running.
    """
    program.train(4)
    program.wait_stored()
    program.process.kill()
    cluster.expire_lease(program.job)
    lost = program.job.wait(timeout_s=DEADLINE_S)
    assert (lost.state, lost.reason, lost.step) == (State.FAILED, "run_lost", 4)
    assert losses(lost) == [0.0, 1.0, 2.0, 3.0]
