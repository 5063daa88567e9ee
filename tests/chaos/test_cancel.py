"""Cancelled means gone: in the queue, at the start, in the middle, and where a step hangs."""

from datetime import timedelta

import psutil

from ampclient import Job
from ampcore.spec import State
from tests.chaos import groups
from tests.chaos.cluster import SCRIPTED, Cluster
from tests.chaos.runs import HELD_AT, SPEC, reached, states
from tests.processes import has_ended
from tests.waiting import wait_until

pytestmark = groups.SCRIPTED

GRACE_S = 2.0
"""What a trainer gets to obey in; then it is killed."""


def test_a_job_that_waits_or_only_starts_is_cancelled_before_it_trains(cluster: Cluster) -> None:
    """The guards: a job without a worker needs none; a trainer that loads is watched as any other.

    Checked: where store/jobs.py asks a worker for a queued one, too, the cancel is refused; where
    worker/attempt.py obeys only once the trainer is ready, the job stays "stopping".
    """
    cluster.crew(0)
    job = cluster.submit_held(SPEC, step=0)
    assert job.cancel().state == State.CANCELLED
    cluster.crew(1, SCRIPTED, grace_s=GRACE_S)
    job = cluster.submit_held(SPEC, step=0)  # before it says that it runs
    trainer = cluster.trainer(job)
    trainer.suspend()  # as one whose libraries come over a slow network
    assert job.refresh().state == State.STARTING
    assert job.cancel().state == State.STOPPING
    assert_cancelled(job, trainer)
    assert obeying_time(job) >= timedelta(seconds=GRACE_S)
    assert states(job) == ["queued", "starting", "stopping", "cancelled"]


def test_a_running_job_is_cancelled_and_its_process_is_gone(cluster: Cluster) -> None:
    """The guard: the worker hears what is asked with each heartbeat.

    Checked: where worker/halts.py does not look at it, the job stays "stopping".
    """
    cluster.crew(1, SCRIPTED, grace_s=GRACE_S)
    job = cluster.submit_held(SPEC)
    wait_until(lambda: reached(job, HELD_AT), "the job runs")
    trainer = cluster.trainer(job)
    assert job.cancel().state == State.STOPPING
    assert_cancelled(job, trainer)


def test_a_step_that_does_not_return_is_killed_after_the_grace_period(cluster: Cluster) -> None:
    """The guard: SIGKILL after the grace period.

    Checked: with a grace period of 600 s in worker/halts.py the job stays "stopping".
    """
    cluster.crew(1, SCRIPTED, grace_s=GRACE_S)
    job = cluster.submit_held(SPEC)
    wait_until(lambda: reached(job, HELD_AT), "the job runs")
    trainer = cluster.trainer(job)
    trainer.suspend()  # neither SIGTERM nor anything else reaches a process that stands still
    assert job.cancel().state == State.STOPPING
    assert_cancelled(job, trainer)
    assert obeying_time(job) >= timedelta(seconds=GRACE_S)


def assert_cancelled(job: Job, trainer: psutil.Process) -> None:
    """That the job is cancelled, and not before its process is gone."""
    wait_until(lambda: job.refresh().state == State.CANCELLED, "it is cancelled")
    assert has_ended(trainer)
    assert job.refresh().reason == "user_request"


def obeying_time(job: Job) -> timedelta:
    """How long it was to stop, by the database's clock."""
    at = {event.data["state"]: event.created_at for event in job.events() if event.type == "state"}
    return at["cancelled"] - at["stopping"]
