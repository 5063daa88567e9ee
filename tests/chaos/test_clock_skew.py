"""A worker's clock is ten minutes off: leases use the database's clock."""

import pytest
from sqlalchemy import select

from ampclient import Job
from ampspec.jobs import State
from store.clock import seconds_since
from store.tables import Job as JobRow
from tests.chaos import xdist_groups
from tests.chaos.cluster import SCRIPTED, Cluster
from tests.chaos.reference_run import SPEC, assert_equals_reference, scripted_reference
from tests.chaos.stack_environment import LEASE_S
from tests.waiting import wait_until

pytestmark = [xdist_groups.SCRIPTED, pytest.mark.quick]


@pytest.mark.parametrize("wrong_s", [600, -600])
def test_a_wrong_worker_clock_neither_ends_nor_extends_a_lease(
    cluster: Cluster, wrong_s: int
) -> None:
    """Mechanism: every timestamp in the database comes from the database's clock.

    Checked: if store.clock.from_now uses the process's clock, the lease of a worker with a slow
    clock has expired from the start, and that of one with a fast clock is ten minutes too long.
    """
    cluster.ensure_workers(0)
    shifted = cluster.worker(SCRIPTED, clock_offset_s=wrong_s)
    job = cluster.submit_paused_at(SPEC)
    assert cluster.wait_past_checkpoint(job) is shifted
    assert 0 < lease_s(cluster, job) <= LEASE_S
    # Wait for a heartbeat: it extends the lease that the claim began.
    before = lease_end(cluster, job)
    wait_until(lambda: lease_end(cluster, job) > before, "the lease is extended")
    assert 0 < lease_s(cluster, job) <= LEASE_S
    assert job.refresh().attempt == 1, "a lease was lost"
    shifted.kill()
    cluster.expire_lease(job)
    wait_until(lambda: job.refresh().state == State.QUEUED, "the job is taken from the worker")
    cluster.ensure_workers(1, SCRIPTED)
    job = cluster.finish(job)
    assert_equals_reference(job, scripted_reference())
    assert job.attempt == 2
    for attempt in job.attempts():
        assert attempt.finished_at is not None
        assert attempt.started_at < attempt.finished_at


def lease_s(cluster: Cluster, job: Job) -> float:
    """How long its lease lasts from now on, by the database's clock."""
    left = -seconds_since(JobRow.lease_expires_at)
    with cluster.database.read() as session:
        return float(session.scalars(select(left).where(JobRow.id == job.id)).one())


def lease_end(cluster: Cluster, job: Job) -> object:
    with cluster.database.read() as session:
        return session.scalars(select(JobRow.lease_expires_at).where(JobRow.id == job.id)).one()
