from datetime import UTC, datetime, timedelta

import pytest

from ampspec.jobs import ACTIVE, State
from store import leases
from store.clock import from_now
from store.jobs import attempts, jobs
from tests.tables import every_row


@pytest.fixture
def lease_duration_s(database):
    """The least and the greatest possible duration of a lease that the test sets."""
    started_at = datetime.now(UTC)

    def lease_duration_s(job_id):
        with database.read() as session:
            end = jobs.get(session, job_id).lease_expires_at
        return [(end - at) / timedelta(seconds=1) for at in (datetime.now(UTC), started_at)]

    return lease_duration_s


@every_row("state", State)
def test_only_the_lease_of_an_active_job_can_be_renewed(in_transaction, make_job, state):
    job_id = make_job(state).id
    assert (in_transaction(leases.renew_lease, job_id, 1) is not None) == (state in ACTIVE)
    assert in_transaction(leases.renew_lease, job_id, 2) is None


@pytest.mark.parametrize("lease_s", [leases.LEASE_S, 120.0])
def test_a_claim_sets_a_lease_of_the_given_duration(
    in_transaction, make_job, lease_duration_s, lease_s
):
    job = make_job()
    in_transaction(attempts.claim, job.id, "w", lease_s=lease_s)
    shortest_s, longest_s = lease_duration_s(job.id)
    assert shortest_s - 1 < lease_s < longest_s + 1


def test_renewing_extends_the_lease(in_transaction, make_job, put, lease_duration_s):
    job = make_job(State.RUNNING)
    put(job.id, lease_expires_at=from_now(1))
    in_transaction(leases.renew_lease, job.id, 1)
    shortest_s, longest_s = lease_duration_s(job.id)
    assert shortest_s - 1 < leases.LEASE_S < longest_s + 1


def test_the_outage_grace_is_a_third_of_the_lease_up_to_a_maximum():
    graces_s = [leases.outage_grace_s(lease_s) for lease_s in (6.0, 30.0, 3000.0)]
    assert graces_s == [2.0, 10.0, leases.MAX_OUTAGE_GRACE_S]


@every_row("lease_s", [1.0, 3.0, leases.LEASE_S, 3000.0])
def test_a_worker_reconnects_within_the_outage_grace(lease_s):
    """Fails if the longest wait is a constant: jobs with short leases would be lost."""
    assert leases.max_reconnect_wait_s(lease_s) < leases.outage_grace_s(lease_s)
