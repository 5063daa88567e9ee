"""PostgreSQL restarts, is gone for longer than a lease, and loses answers; training goes on."""

import time
from pathlib import Path

import pytest

from tests.chaos.cluster import Cluster
from tests.chaos.members import Worker
from tests.chaos.runs import SPEC, Record, assert_undisturbed, running
from tests.chaos.waiting import wait_until

OUTAGE_S = 30.0
"""Ten leases."""

pytestmark = pytest.mark.xdist_group("chaos-1")


def test_training_goes_on_while_postgresql_restarts_and_is_gone_for_longer_than_a_lease(
    cluster: Cluster, undisturbed: Record
) -> None:
    """The guard: the worker's writes wait, and the reconciler lets the workers come back first.

    Checked: without the waiting in worker/patience.py the training ends with the database.
    """
    [worker] = cluster.crew(1)
    job = cluster.client.jobs.submit(SPEC)
    wait_until(lambda: running(job), 90, "the job runs")
    cluster.postgres.stop()
    cluster.postgres.start()
    step = job.refresh().step
    wait_until(lambda: job.refresh().step > step, 30, "steps arrive again")
    cluster.postgres.stop()
    gone_at = time.monotonic()
    before = saved(worker)
    wait_until(lambda: saved(worker) - before, 30, "a checkpoint is made in the meantime")
    wait_until(lambda: time.monotonic() > gone_at + OUTAGE_S, 60, "ten leases have run out")
    cluster.postgres.start()
    job = job.wait(timeout=120)
    assert_undisturbed(job, undisturbed)
    assert job.attempt == 1


def test_a_crash_of_postgresql_and_lost_answers_write_nothing_twice(
    cluster: Cluster, undisturbed: Record
) -> None:
    """The guard: a block is written behind exactly what was told before.

    Checked: without `Job.told == told` in store/ingest.py a repeated write fails the attempt.
    """
    cluster.crew(1)
    job = cluster.client.jobs.submit(SPEC)
    wait_until(lambda: running(job), 90, "the job runs")
    for _ in range(5):
        cluster.ways.postgres.lose_answer_to(b"COMMIT")
        wait_until(cluster.ways.postgres.forgotten.is_set, 30, "an answer is lost")
        step = job.refresh().step
        wait_until(lambda: job.refresh().step > step, 30, "steps arrive again")  # noqa: B023
    cluster.postgres.stop("immediate")
    cluster.postgres.start()
    job = job.wait(timeout=120)
    assert_undisturbed(job, undisturbed)
    assert job.attempt == 1


def saved(worker: Worker) -> set[Path]:
    """The checkpoints in the worker's scratch folder."""
    return set(worker.scratch.rglob("checkpoint-*.safetensors"))
