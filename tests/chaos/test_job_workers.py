"""Workers that run one job and end, as a batch system starts them; they reach no Redis."""

import signal
from typing import Any

import pytest
from sqlalchemy import update

from ampclient import Job
from ampspec.jobs import State
from store.clock import from_now
from store.tables import Job as JobRow
from tests.chaos import xdist_groups
from tests.chaos.cluster import SCRIPTED, Cluster
from tests.chaos.reference_run import (
    HOLD_STEP,
    SPEC,
    assert_equals_reference,
    outcomes,
    scripted_reference,
)
from tests.chaos.service_processes import Worker
from tests.waiting import wait_until

pytestmark = [xdist_groups.RANKS_AND_RUNS, pytest.mark.quick]

NO_REDIS = "redis://127.0.0.1:1"


def start_job_worker(cluster: Cluster, job: Job, **environment: str) -> Worker:
    return cluster.worker(
        SCRIPTED, AMPCORE_WORKER_JOB=job.id, AMPCORE_REDIS_URL=NO_REDIS, **environment
    )


def test_a_worker_runs_its_job_alone_and_ends(cluster: Cluster) -> None:
    """Mechanism: it claims the job by its id.

    Checked: if worker/one_job.py claims the next job of the queue, it runs the first one.
    """
    cluster.ensure_workers(0)
    first, job = (cluster.client.jobs.submit(SPEC) for _ in range(2))
    worker = start_job_worker(cluster, job)
    row = wait_until(lambda: cluster.registered(worker), "it is registered")
    assert (row.job_id, row.queues) == (job.id, ["cpu"])
    assert worker.wait() == 0, worker.log
    assert_equals_reference(job.refresh(), scripted_reference())
    assert first.refresh().state == State.QUEUED
    assert cluster.registered(worker).state == "stopped"
    assert not worker.scratch_dir.exists() or not list(worker.scratch_dir.glob("*-attempt-*"))

    again = start_job_worker(cluster, job)
    assert again.wait() == 3
    assert f"The job '{job.id}' has ended: it is succeeded." in again.log


def test_the_warning_of_a_time_limit_requeues_the_job_with_its_checkpoint(
    cluster: Cluster,
) -> None:
    """Mechanism: SIGUSR1 begins a drain; Slurm sends it to each process of the allocation.

    Checked: if worker/trainer/child/fork_server.py does not ignore it, the trainer is killed before
    it saves, and the second attempt repeats steps.
    """
    cluster.ensure_workers(0)
    job = cluster.submit_paused_at(SPEC)
    worker = start_job_worker(cluster, job)
    cluster.wait_past_checkpoint(job)
    for process in worker.descendants():
        process.send_signal(signal.SIGUSR1)
    worker.started.send_signal(signal.SIGUSR1)
    assert worker.wait() == 0, worker.log
    assert job.refresh().state == State.QUEUED
    next_worker = start_job_worker(cluster, job)
    job = cluster.finish(job)
    assert next_worker.wait() == 0, next_worker.log
    assert_equals_reference(job, scripted_reference())
    assert [outcome for outcome, _ in outcomes(job)] == ["requeued", "succeeded"]
    assert job.attempts()[1].first_step == HOLD_STEP, "steps were trained twice"


@pytest.mark.slow
def test_the_warning_of_a_time_limit_drains_any_worker(cluster: Cluster) -> None:
    """Mechanism: its handler of SIGUSR1 sends SIGTERM.

    Checked: without worker/app.py: on_ready, Celery prints the stacks of its threads.
    """
    [worker] = cluster.ensure_workers(1, SCRIPTED)
    job = cluster.submit_paused_at(SPEC)
    cluster.wait_past_checkpoint(job)
    worker.started.send_signal(signal.SIGUSR1)
    assert worker.wait() == 0, worker.log
    assert job.refresh().state == State.QUEUED
    assert [outcome for outcome, _ in outcomes(job)] == ["requeued"]


@pytest.mark.slow
def test_ranks_train_on_the_workers_of_their_job_although_others_are_there(
    cluster: Cluster,
) -> None:
    """Mechanism: store/scheduling/gang_placement.py prefers the workers of the job.

    Checked: without that, rank 0 is on the worker with the fewest slots.
    """
    [plain] = cluster.ensure_workers(1, SCRIPTED)
    ranks: dict[str, Any] = {"workers": 2, "devices": 1, "exchange": {"timeout_s": 3600}}
    job = cluster.client.jobs.submit({**SPEC, "runtime": {**SPEC["runtime"], **ranks}})
    with cluster.database.write() as session:  # until both workers are there
        later = update(JobRow).where(JobRow.id == job.id).values(not_before=from_now(3600))
        session.execute(later)
    job_workers = [start_job_worker(cluster, job, AMPCORE_WORKER_SLOTS="2") for _ in range(2)]
    wait_until(lambda: all(map(cluster.is_ready, job_workers)), "the workers are ready")
    cluster.end_retry_delay(job)
    assert [worker.wait() for worker in job_workers] == [0, 0], job_workers[0].log
    assert_equals_reference(job.refresh(), scripted_reference())
    registered = {cluster.registered(worker).id for worker in job_workers}
    assert {member.worker_id for member in cluster.members(job)} == registered
    assert plain.running
