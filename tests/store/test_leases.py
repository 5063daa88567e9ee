from datetime import UTC, datetime, timedelta

import pytest

from ampcore.spec import ACTIVE, State
from store import attempts, jobs, leases
from store.clock import after


@pytest.fixture
def held_s(database):
    """How long a lease lasts that was made since now, at least and at most."""
    before = datetime.now(UTC)

    def held_s(job_id):
        with database.read() as session:
            end = jobs.get(session, job_id).lease_expires_at
        return [(end - at) / timedelta(seconds=1) for at in (datetime.now(UTC), before)]

    return held_s


@pytest.mark.parametrize("state", State, ids=str)
def test_only_an_active_job_can_be_held(in_transaction, make_job, state):
    job_id = make_job(state).id
    assert (in_transaction(leases.renew_lease, job_id, 1) is not None) == (state in ACTIVE)
    assert in_transaction(leases.renew_lease, job_id, 2) is None


@pytest.mark.parametrize("lease_s", [leases.LEASE_S, 120.0])
def test_a_lease_ends_by_the_clock_of_the_database(in_transaction, make_job, held_s, lease_s):
    job = make_job()
    in_transaction(attempts.claim, job.id, "w", lease_s=lease_s)
    least, most = held_s(job.id)
    assert least - 1 < lease_s < most + 1


def test_holding_extends_the_lease(in_transaction, make_job, put, held_s):
    job = make_job(State.RUNNING)
    put(job.id, lease_expires_at=after(1))
    in_transaction(leases.renew_lease, job.id, 1)
    least, most = held_s(job.id)
    assert least - 1 < leases.LEASE_S < most + 1


def test_a_silent_worker_is_given_a_third_of_its_lease_to_speak_again():
    calm = [leases.outage_grace_s(lease_s) for lease_s in (6.0, 30.0, 3000.0)]
    assert calm == [2.0, 10.0, leases.MAX_OUTAGE_GRACE_S]


@pytest.mark.parametrize("lease_s", [1.0, 3.0, leases.LEASE_S, 3000.0])
def test_after_an_outage_a_worker_is_back_before_the_calm_is_over(lease_s):
    """Fails when the longest wait is a constant: with short leases the job was given away."""
    assert leases.max_reconnect_wait_s(lease_s) < leases.outage_grace_s(lease_s)
