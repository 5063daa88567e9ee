"""Cancelled means gone: in the queue, at the start, in the middle, and where a step hangs."""

import time

import psutil
import pytest

from ampclient import Job
from ampcore.spec import State
from tests.chaos.cluster import Cluster
from tests.chaos.process import gone
from tests.chaos.runs import ENDLESS, running, states
from tests.chaos.waiting import wait_until

pytestmark = pytest.mark.xdist_group("chaos-2")

GRACE_S = 10.0
"""What a trainer gets to obey in; then it is killed."""


def test_a_job_that_waits_or_only_starts_is_cancelled_before_it_trains(cluster: Cluster) -> None:
    """The guards: a job without a worker needs none; a trainer that loads is watched as any other.

    Checked: where store/jobs.py asks a worker for a queued one, too, the cancel is refused; where
    worker/attempt.py obeys only once the trainer is ready, the job stays "stopping".
    """
    cluster.crew(0)
    job = cluster.client.jobs.submit(ENDLESS)
    assert job.cancel().state == State.CANCELLED
    job = cluster.client.jobs.submit(ENDLESS)
    worker = cluster.worker()  # its trainer has TensorFlow to load yet
    wait_until(lambda: job.refresh().state == State.STARTING, 60, "the job starts")
    trainer = worker.trainer
    trainer.suspend()  # as one whose libraries come over a slow network
    assert job.cancel().state == State.STOPPING
    assert_cancelled(job, trainer, GRACE_S + 5)
    assert states(job) == ["queued", "starting", "stopping", "cancelled"]


def test_a_running_job_is_cancelled_and_its_process_is_gone(cluster: Cluster) -> None:
    """The guard: the worker hears what is asked with each heartbeat.

    Checked: where worker/halts.py does not look at it, the job stays "stopping".
    """
    [worker] = cluster.crew(1)
    job = cluster.client.jobs.submit(ENDLESS)
    wait_until(lambda: running(job), 90, "the job runs")
    trainer = worker.trainer
    assert job.cancel().state == State.STOPPING
    assert_cancelled(job, trainer, GRACE_S)


def test_a_step_that_does_not_return_is_killed_after_the_grace_period(cluster: Cluster) -> None:
    """The guard: SIGKILL after the grace period.

    Checked: with GRACE_S = 600 in worker/halts.py the job stays "stopping".
    """
    [worker] = cluster.crew(1)
    job = cluster.client.jobs.submit(ENDLESS)
    wait_until(lambda: running(job), 90, "the job runs")
    trainer = worker.trainer
    trainer.suspend()  # neither SIGTERM nor anything else reaches a process that stands still
    assert job.cancel().state == State.STOPPING
    assert_cancelled(job, trainer, GRACE_S + 5)


def assert_cancelled(job: Job, trainer: psutil.Process, within_s: float) -> None:
    """That the job is cancelled in time, and not before its process is gone."""
    asked_at = time.monotonic()
    wait_until(lambda: job.refresh().state == State.CANCELLED, within_s + 5, "it is cancelled")
    assert gone(trainer)
    assert time.monotonic() - asked_at < within_s
    assert job.refresh().reason == "user_request"
