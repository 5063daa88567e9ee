import pytest

from ampspec.jobs import ACTIVE, Reason, State
from store import leases
from store.clock import from_now
from store.jobs import attempts, lease_expiry
from store.tables import Attempt, Job


@pytest.mark.parametrize("state", [State.STARTING, State.RUNNING, State.PAUSING], ids=str)
def test_a_job_with_an_expired_lease_is_queued_again(
    database, in_transaction, make_job, put, state
):
    job, other_job = make_job(state), make_job(State.RUNNING)
    put(job.id, lease_expires_at=from_now(-0.1))
    [ended] = in_transaction(lease_expiry.expire)
    then = State.PAUSED if state == State.PAUSING else State.QUEUED
    assert (ended.id, ended.state, ended.reason) == (job.id, then, Reason.WORKER_LOST)
    assert (ended.failures, ended.lease_expires_at) == (1, None)
    with database.read() as session:
        assert session.get(Job, other_job.id).state == State.RUNNING
        assert session.get(Attempt, (job.id, 1)).outcome == lease_expiry.LOST
    assert in_transaction(leases.renew_lease, job.id, 1) is None
    assert in_transaction(lease_expiry.expire) == []


def test_a_job_fails_when_the_leases_of_all_its_attempts_expired(in_transaction, make_job, put):
    job_id = make_job(runtime={"max_attempts": 2}).id
    for attempt in (1, 2):
        put(job_id, not_before=None)
        assert in_transaction(attempts.claim, job_id, "w").attempt == attempt
        put(job_id, lease_expires_at=from_now(-1))
        [ended] = in_transaction(lease_expiry.expire)
    assert (ended.state, ended.failures) == (State.FAILED, 2)
    assert "2 attempts failed." in ended.message


def test_custom_code_whose_worker_stalled_is_not_retried(in_transaction, make_job, put):
    """Before, it stalled one worker after the other."""
    model = {"kind": "bundle", "bundle": f"sha256:{'0' * 64}", "build": "net:build"}
    job = make_job(State.RUNNING, model=model, runtime={"max_attempts": 3})
    put(job.id, lease_expires_at=from_now(-1))
    [ended] = in_transaction(lease_expiry.expire)
    assert (ended.state, ended.reason, ended.failures) == (State.FAILED, Reason.WORKER_LOST, 1)
    assert "custom code, which may have stalled its worker" in ended.message
    assert "Retry it to train from the beginning." in ended.message


def test_custom_code_whose_worker_was_killed_is_retried(in_transaction, make_job):
    """After a restart of everything on one machine: nothing says that its code was the cause."""
    model = {"kind": "bundle", "bundle": f"sha256:{'0' * 64}", "build": "net:build"}
    make_job(State.RUNNING, model=model, runtime={"max_attempts": 3})
    [ended] = in_transaction(lease_expiry.expire_all)
    assert (ended.state, ended.reason) == (State.QUEUED, Reason.WORKER_LOST)


def test_a_stopping_job_expires_only_after_its_worker_must_have_fenced_itself(
    in_transaction, make_job, put
):
    job = make_job(State.STOPPING)
    put(job.id, lease_expires_at=from_now(-leases.SELF_FENCE_S + 10))
    assert in_transaction(lease_expiry.expire) == []
    put(job.id, lease_expires_at=from_now(-leases.SELF_FENCE_S - 1))
    [ended] = in_transaction(lease_expiry.expire)
    assert (ended.state, ended.reason) == (State.CANCELLED, Reason.WORKER_LOST)


def test_expire_all_ends_the_attempt_of_every_active_job(in_transaction, make_job, state_of):
    waiting, ended = make_job(), make_job(State.SUCCEEDED)
    active = {make_job(state).id: state for state in ACTIVE}
    states = {job.id: job.state for job in in_transaction(lease_expiry.expire_all)}
    assert in_transaction(lease_expiry.expire_all) == []
    then = {State.STOPPING: State.CANCELLED, State.PAUSING: State.PAUSED}
    assert states == {job_id: then.get(state, State.QUEUED) for job_id, state in active.items()}
    assert state_of(waiting.id) == State.QUEUED
    assert state_of(ended.id) == State.SUCCEEDED


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)  # SQLite has one writer
def test_expiry_skips_a_job_that_a_stalled_transaction_has_locked(
    database, make_job, put, in_transaction
):
    locked, unlocked = (make_job(State.RUNNING) for _ in range(2))
    for job in (locked, unlocked):
        put(job.id, lease_expires_at=from_now(-1))
    with database.write() as session:
        leases.renew_lease(session, locked.id, 1)
        assert [job.id for job in in_transaction(lease_expiry.expire)] == [unlocked.id]
    assert in_transaction(lease_expiry.expire) == []  # its lease was renewed
