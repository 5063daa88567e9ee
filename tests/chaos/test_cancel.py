"""Cancel a job that is queued, starting, running or hanging: its process ends first."""

from datetime import timedelta

import psutil
import pytest

from ampclient import Job
from ampspec.jobs import State
from tests.chaos import xdist_groups
from tests.chaos.cluster import SCRIPTED, Cluster
from tests.chaos.reference_run import HOLD_STEP, SPEC, reached, states
from tests.processes import has_ended
from tests.waiting import wait_until

pytestmark = [xdist_groups.SCRIPTED, pytest.mark.quick]

GRACE_S = 2.0
"""How long a trainer may take after SIGTERM before it is killed."""


def test_a_queued_or_starting_job_is_cancelled_before_it_trains(cluster: Cluster) -> None:
    """Mechanisms: a queued job is cancelled at once; stop requests are read while a trainer loads.

    Checked: if store/jobs/jobs.py needs a worker for a queued job too, the cancel is refused; if
    worker/attempt/trainer_supervisor.py reads stop requests only once the trainer is ready, the job
    stays "stopping".
    """
    cluster.ensure_workers(0)
    job = cluster.submit_paused_at(SPEC, step=0)
    assert job.cancel().state == State.CANCELLED
    cluster.ensure_workers(1, SCRIPTED, grace_s=GRACE_S)
    job = cluster.submit_paused_at(SPEC, step=0)  # held before its RUNNING frame
    trainer = cluster.trainer(job)
    trainer.suspend()  # as if its libraries loaded slowly
    assert job.refresh().state == State.STARTING
    assert job.cancel().state == State.STOPPING
    assert_cancelled(job, trainer)
    assert stop_duration(job) >= timedelta(seconds=GRACE_S)
    assert states(job) == ["queued", "starting", "stopping", "cancelled"]


def test_a_running_job_is_cancelled_and_its_process_ends(cluster: Cluster) -> None:
    """Mechanism: each heartbeat of the worker reads pending requests.

    Checked: if worker/attempt/stop_reason.py ignores the request, the job stays "stopping".
    """
    cluster.ensure_workers(1, SCRIPTED, grace_s=GRACE_S)
    job = cluster.submit_paused_at(SPEC)
    wait_until(lambda: reached(job, HOLD_STEP), "the job runs")
    trainer = cluster.trainer(job)
    assert job.cancel().state == State.STOPPING
    assert_cancelled(job, trainer)


def test_a_hanging_step_is_killed_after_the_grace_period(cluster: Cluster) -> None:
    """Mechanism: SIGKILL after the grace period.

    Checked: with a grace period of 600 s in worker/attempt/stop_reason.py the job stays "stopping".
    """
    cluster.ensure_workers(1, SCRIPTED, grace_s=GRACE_S)
    job = cluster.submit_paused_at(SPEC)
    wait_until(lambda: reached(job, HOLD_STEP), "the job runs")
    trainer = cluster.trainer(job)
    trainer.suspend()  # a stopped process does not handle SIGTERM
    assert job.cancel().state == State.STOPPING
    assert_cancelled(job, trainer)
    assert stop_duration(job) >= timedelta(seconds=GRACE_S)


def assert_cancelled(job: Job, trainer: psutil.Process) -> None:
    """Assert that the job is cancelled, and not before its process has ended."""
    wait_until(lambda: job.refresh().state == State.CANCELLED, "it is cancelled")
    assert has_ended(trainer)
    assert job.refresh().reason == "user_request"


def stop_duration(job: Job) -> timedelta:
    """How long it was stopping, by the database's clock."""
    at = {event.data["state"]: event.created_at for event in job.events() if event.type == "state"}
    return at["cancelled"] - at["stopping"]
