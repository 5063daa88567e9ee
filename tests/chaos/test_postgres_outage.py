"""PostgreSQL restarts, is down longer than a lease, and responses are lost; training continues."""

from pathlib import Path

import pytest

from server.background.reconciler import EXPIRE_LEASES
from tests.chaos import xdist_groups
from tests.chaos.cluster import SCRIPTED, Cluster
from tests.chaos.reference_run import (
    BLOCK_STEPS,
    HOLD_STEP,
    SPEC,
    assert_equals_reference,
    reached,
    scripted_reference,
)
from tests.chaos.service_processes import Worker
from tests.chaos.stack_environment import LEASE_S
from tests.folders import paths_in
from tests.waiting import wait_until

pytestmark = [xdist_groups.SCRIPTED, pytest.mark.quick]


def test_training_continues_while_postgresql_is_down_longer_than_a_lease(
    cluster: Cluster,
) -> None:
    """Mechanism: the worker retries its writes, and the reconciler waits for workers to return.

    Checked: without the retries in worker/database_retry.py the training ends with the database.
    tests/server/background/test_reconciler.py tests with a fake clock that the reconciler waits.
    """
    [worker] = cluster.ensure_workers(1, SCRIPTED)
    job = cluster.submit_paused_at(SPEC)
    wait_until(lambda: reached(job, HOLD_STEP), "the job runs")
    cluster.postgres.stop()
    cluster.postgres.start()
    cluster.train_to_step(job, HOLD_STEP + BLOCK_STEPS)
    wait_until(lambda: not database_is_down(cluster), "the reconciler reaches its database again")
    # Cut the proxies first: no one may read the lease between its end and the server's stop.
    cluster.proxies.postgres.cut()
    cluster.api_proxies.postgres.cut()
    cluster.expire_lease(job, 10 * LEASE_S)
    cluster.postgres.stop()
    before = saved(worker)
    cluster.control.hold(HOLD_STEP + 3 * BLOCK_STEPS)
    wait_until(lambda: saved(worker) - before, "a checkpoint is saved in the meantime")
    wait_until(lambda: database_is_down(cluster), "the reconciler notices the outage")
    cluster.postgres.start()
    cluster.proxies.postgres.restore()
    cluster.api_proxies.postgres.restore()
    job = cluster.finish(job)
    assert_equals_reference(job, scripted_reference())
    assert job.attempt == 1


def test_a_postgresql_crash_and_lost_responses_duplicate_no_write(cluster: Cluster) -> None:
    """Mechanism: a write names the number of entries before it.

    Checked: without the check of `entries_written` in store/telemetry/ingest.py a repeated write
    fails the attempt.
    """
    cluster.ensure_workers(1, SCRIPTED)
    job = cluster.submit_paused_at(SPEC)
    wait_until(lambda: reached(job, HOLD_STEP), "the job runs")
    for blocks in range(1, 6):
        cluster.proxies.postgres.drop_answer_to(b"COMMIT")
        wait_until(cluster.proxies.postgres.answer_dropped.is_set, "a response is lost")
        cluster.train_to_step(job, HOLD_STEP + blocks * BLOCK_STEPS)
    cluster.postgres.stop("immediate")
    cluster.postgres.start()
    job = cluster.finish(job)
    assert_equals_reference(job, scripted_reference())
    assert job.attempt == 1


def database_is_down(cluster: Cluster) -> bool:
    """Whether the reconciler's last log line about the database says that it is unreachable."""
    text = cluster.apis[0].log_file.read_text(errors="replace")
    return text.rfind(f"{EXPIRE_LEASES} failed") > text.rfind(f"{EXPIRE_LEASES} works again")


def saved(worker: Worker) -> set[Path]:
    """The checkpoints in the worker's scratch folder."""
    return set(paths_in(worker.scratch_dir, "checkpoint-*.safetensors"))
