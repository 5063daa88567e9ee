"""A worker's clock is ten minutes off: leases are counted by the database's."""

import pytest
from sqlalchemy import select

from ampclient import Job
from ampcore.spec import State
from store.clock import seconds_since
from store.tables import Job as JobRow
from tests.chaos import groups
from tests.chaos.cluster import SCRIPTED, Cluster
from tests.chaos.runs import SPEC, assert_undisturbed, scripted
from tests.chaos.surroundings import LEASE_S
from tests.waiting import wait_until

pytestmark = groups.SCRIPTED


@pytest.mark.parametrize("wrong_s", [600, -600])
def test_no_lease_is_lost_or_kept_because_a_clock_is_wrong(cluster: Cluster, wrong_s: int) -> None:
    """The guard: every moment in the database is the database's own.

    Checked: where store.clock.after counts from the process's clock, the lease of a worker whose
    clock is slow is over before it has begun, and that of one whose clock is fast is ten minutes
    too long.
    """
    cluster.crew(0)
    shifted = cluster.worker(SCRIPTED, clock_off_s=wrong_s)
    job = cluster.submit_held(SPEC)
    assert cluster.past_a_checkpoint(job) is shifted
    assert 0 < lease_s(cluster, job) <= LEASE_S
    # A heartbeat ends the lease anew: the one that is looked at is none of the claim.
    before = lease_end(cluster, job)
    wait_until(lambda: lease_end(cluster, job) > before, "the lease is extended")
    assert 0 < lease_s(cluster, job) <= LEASE_S
    assert job.refresh().attempt == 1, "a lease was lost"
    shifted.kill()
    cluster.lapse(job)
    wait_until(lambda: job.refresh().state == State.QUEUED, "the job is taken from the worker")
    cluster.crew(1, SCRIPTED)
    job = cluster.finish(job)
    assert_undisturbed(job, scripted())
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
