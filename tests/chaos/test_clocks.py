"""A worker's clock is ten minutes off: leases are counted by the database's."""

import time
from pathlib import Path

import pytest

from ampcore.spec import State
from tests.chaos.cluster import Cluster
from tests.chaos.runs import SPEC, Record, assert_undisturbed
from tests.chaos.surroundings import LEASE_S
from tests.chaos.waiting import wait_until

pytestmark = pytest.mark.xdist_group("chaos-1")

SHIFTED = str(Path(__file__).with_name("shifted_worker.py"))


@pytest.mark.parametrize("wrong_s", [600, -600])
def test_no_lease_is_lost_or_kept_because_a_clock_is_wrong(
    cluster: Cluster, undisturbed: Record, wrong_s: int
) -> None:
    """The guard: every moment in the database is the database's own.

    Checked: where store.clock.after counts from the process's clock, the lease of a worker whose
    clock is slow is lost at once, and that of one whose clock is fast is kept for ten minutes.
    """
    cluster.crew(0)
    shifted = cluster.worker([SHIFTED, str(wrong_s)])
    job = cluster.client.jobs.submit(SPEC)
    assert cluster.past_a_checkpoint(job) is shifted
    held_since = time.monotonic()
    wait_until(lambda: time.monotonic() > held_since + LEASE_S, what="a lease has passed")
    assert job.refresh().attempt == 1, "a lease was lost"
    shifted.kill()
    wait_until(lambda: job.refresh().state == State.QUEUED, 30, "the lease runs out")
    cluster.crew(1)
    job = job.wait(timeout=120)
    assert_undisturbed(job, undisturbed)
    assert job.attempt == 2
    for attempt in job.attempts():
        assert attempt.finished_at is not None
        assert attempt.started_at < attempt.finished_at
