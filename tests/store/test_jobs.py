import threading
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import update

from ampcore.spec import ACTIVE, TERMINAL, TRANSITIONS, Reason, State
from store import events, jobs
from store.clock import after
from store.tables import Attempt, EventRow, Job

SUMMARY = {"steps": 3, "final_loss": 0.5}


def state_of(database, job_id):
    with database.read() as session:
        return jobs.get(session, job_id).state


def put(database, job_id, **values):
    """Write columns directly, to set up a state that only time would lead to."""
    with database.write() as session:
        session.execute(update(Job).where(Job.id == job_id).values(**values))


def test_a_new_job_is_queued_and_its_ledger_says_so(database, make_spec):
    spec = make_spec(name="first", labels={"team": "vision"})
    with database.write() as session:
        job_id = jobs.create(session, spec).id
    with database.read() as session:
        job = jobs.get(session, job_id)
        assert (job.state, job.attempt, job.step, job.seq) == (State.QUEUED, 0, 0, 1)
        assert (job.name, job.policy, job.model) == ("first", "float32", "mlp")
        assert job.labels == {"team": "vision"}
        assert job.spec == spec.to_json()
        [event] = events.read(session, job_id, after=0, limit=10)
        assert (event.type, event.data) == ("state", {"state": "queued"})


def test_what_a_failed_transaction_wrote_is_not_there(database, make_spec):
    made = []

    def write_and_fail():
        with database.write() as session:
            made.append(jobs.create(session, make_spec()).id)
            raise RuntimeError("the power is lost")

    with pytest.raises(RuntimeError, match="lost"):
        write_and_fail()
    with database.read() as session:
        assert jobs.get(session, made[0]) is None


def test_of_many_claims_at_once_exactly_one_gets_the_job(database, make_job):
    job_id = make_job().id
    start, won = threading.Barrier(4), []

    def race(worker):
        start.wait()
        with database.write() as session:
            if jobs.claim(session, job_id, worker) is not None:
                won.append(worker)

    threads = [threading.Thread(target=race, args=(f"worker {n}",)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with database.read() as session:
        job = jobs.get(session, job_id)
        assert [job.worker_id] == won
        assert (job.state, job.attempt) == (State.STARTING, 1)
        assert session.get(Attempt, (job_id, 1)).worker_id == won[0]


def test_a_job_that_is_not_there_cannot_be_claimed(database):
    with database.write() as session:
        assert jobs.claim(session, "0" * 12, "w") is None


CHANGES = {
    State.STARTING: lambda s, i, n: jobs.claim(s, i, "w"),
    State.RUNNING: lambda s, i, n: jobs.mark_running(s, i, n, total_steps=9),
    State.SUCCEEDED: lambda s, i, n: jobs.mark_succeeded(s, i, n, SUMMARY),
    State.FAILED: lambda s, i, n: jobs.mark_failed(s, i, n, Reason.TIMEOUT, "Too slow."),
    State.CANCELLED: jobs.mark_cancelled,
}


@pytest.mark.parametrize("target", CHANGES, ids=str)
@pytest.mark.parametrize("source", State, ids=str)
def test_a_change_of_state_happens_exactly_when_the_table_allows_it(
    database, make_job, source, target
):
    job_id = make_job().id
    put(database, job_id, state=source, attempt=1)
    with database.write() as session:
        changed = CHANGES[target](session, job_id, 1)
    allowed = target in TRANSITIONS[source]
    assert (changed is not None) == allowed
    assert state_of(database, job_id) == (target if allowed else source)
    with database.read() as session:
        written = [event.data["state"] for event in events.read(session, job_id, after=1, limit=9)]
    assert written == ([target] if allowed else [])


@pytest.mark.parametrize("change", [State.RUNNING, State.SUCCEEDED, State.FAILED], ids=str)
def test_an_attempt_that_is_over_changes_nothing(database, make_job, change):
    job = make_job(State.STARTING if change is State.RUNNING else State.RUNNING)
    with database.write() as session:
        assert CHANGES[change](session, job.id, job.attempt + 1) is None
    assert state_of(database, job.id) == job.state


def test_the_end_of_a_job_is_written_to_its_attempt_and_frees_its_lease(database, make_job):
    job = make_job(State.FAILED)
    with database.read() as session:
        row, attempt = jobs.get(session, job.id), session.get(Attempt, (job.id, 1))
        assert (row.reason, row.message) == (Reason.INVALID_DATA, "The data is NaN.")
        assert (attempt.outcome, attempt.reason) == (State.FAILED, Reason.INVALID_DATA)
        assert row.lease_expires_at is None
        assert row.finished_at is not None
        assert attempt.finished_at is not None


def test_a_summary_keeps_numbers_that_json_cannot_write(database, make_job):
    job = make_job(State.RUNNING)
    with database.write() as session:
        jobs.mark_succeeded(session, job.id, 1, {"final_loss": float("nan")})
    with database.read() as session:
        assert jobs.get(session, job.id).summary == {"final_loss": "NaN"}


@pytest.mark.parametrize(
    ("before", "then"),
    [
        (State.QUEUED, State.CANCELLED),
        (State.STARTING, State.STOPPING),
        (State.RUNNING, State.STOPPING),
        (State.STOPPING, State.STOPPING),
        (State.CANCELLED, State.CANCELLED),
        (State.SUCCEEDED, None),
        (State.FAILED, None),
    ],
    ids=str,
)
def test_cancel_ends_a_waiting_job_and_asks_for_the_end_of_a_running_one(
    database, make_job, before, then
):
    job_id = make_job(before).id
    with database.write() as session:
        job = jobs.request_cancel(session, job_id)
    assert (job.state if job else None) == then
    assert state_of(database, job_id) == (then or before)


def test_a_job_that_is_not_there_cannot_be_cancelled(database):
    with database.write() as session:
        assert jobs.request_cancel(session, "0" * 12) is None


def test_the_holder_of_a_job_hears_of_the_cancel(database, make_job):
    job = make_job(State.RUNNING)
    with database.write() as session:
        assert jobs.hold(session, job.id, 1).requested is None
        jobs.request_cancel(session, job.id)
        assert jobs.hold(session, job.id, 1).requested == jobs.CANCEL


@pytest.mark.parametrize("state", State, ids=str)
def test_only_an_active_job_can_be_held(database, make_job, state):
    job_id = make_job().id
    put(database, job_id, state=state, attempt=1)
    with database.write() as session:
        assert (jobs.hold(session, job_id, 1) is not None) == (state in ACTIVE)
        assert jobs.hold(session, job_id, 2) is None


def test_a_lease_ends_by_the_clock_of_the_database(database, make_job):
    job = make_job(State.RUNNING)
    with database.read() as session:
        lease = jobs.get(session, job.id).lease_expires_at
    left = lease - datetime.now(UTC)
    assert timedelta(seconds=jobs.LEASE_S - 10) < left <= timedelta(seconds=jobs.LEASE_S + 1)


def test_holding_extends_the_lease(database, make_job):
    job = make_job(State.RUNNING)
    put(database, job.id, lease_expires_at=after(1))
    with database.write() as session:
        jobs.hold(session, job.id, 1)
    with database.read() as session:
        left = jobs.get(session, job.id).lease_expires_at - datetime.now(UTC)
    assert left > timedelta(seconds=jobs.LEASE_S - 10)


@pytest.mark.parametrize(
    ("state", "then"),
    [
        (State.STARTING, State.FAILED),
        (State.RUNNING, State.FAILED),
        (State.STOPPING, State.CANCELLED),
    ],
    ids=str,
)
def test_a_job_whose_worker_is_not_heard_of_comes_to_its_end(database, make_job, state, then):
    job, other = make_job(state), make_job(State.RUNNING)
    put(database, job.id, lease_expires_at=after(-0.1))
    with database.write() as session:
        [ended] = jobs.expire_leases(session)
    assert (ended.id, ended.state, ended.reason) == (job.id, then, Reason.WORKER_LOST)
    assert state_of(database, other.id) == State.RUNNING
    with database.write() as session:
        assert jobs.hold(session, job.id, 1) is None
        assert jobs.expire_leases(session) == []


def test_when_no_worker_is_left_every_active_job_ends_at_once(database, make_job):
    waiting, ended = make_job(), make_job(State.SUCCEEDED)
    active = {make_job(state).id: state for state in ACTIVE}
    with database.write() as session:
        lost = {job.id: job for job in jobs.lose_all(session)}
        assert jobs.lose_all(session) == []
    assert lost.keys() == active.keys()
    for job_id, job in lost.items():
        then = State.CANCELLED if active[job_id] is State.STOPPING else State.FAILED
        assert (job.state, job.reason) == (then, Reason.WORKER_LOST)
    assert state_of(database, waiting.id) == State.QUEUED
    assert state_of(database, ended.id) == State.SUCCEEDED


def test_jobs_without_a_message_are_woken_oldest_first(database, make_job):
    first, second, third = make_job(), make_job(), make_job()
    make_job(State.RUNNING)
    put(database, first.id, created_at=after(-3))
    put(database, second.id, created_at=after(-2), woken_at=after(-10))
    put(database, third.id, created_at=after(-1), woken_at=after(-0.5))
    with database.read() as session:
        assert jobs.to_wake(session, quiet_s=3, limit=10) == [first.id, second.id]
        assert jobs.to_wake(session, quiet_s=3, limit=1) == [first.id]


def test_a_job_that_was_just_woken_is_left_alone(database, make_job):
    job_id = make_job().id
    with database.write() as session:
        jobs.note_woken(session, [job_id])
    with database.read() as session:
        assert jobs.to_wake(session, quiet_s=3, limit=10) == []


def test_pages_hold_every_job_once_the_newest_first(database, make_job):
    made = [make_job().id for _ in range(5)]
    moment = datetime(2030, 1, 2, 3, 4, 5, 678000, UTC)
    for job_id in made[:3]:  # made at one moment: the id decides
        put(database, job_id, created_at=moment)
    seen, before = [], None
    with database.read() as session:
        while rows := jobs.page(session, before=before, limit=2):
            seen += [(row.created_at, row.id) for row in rows]
            before = seen[-1]
    assert seen == sorted(seen, reverse=True)
    assert {job_id for _, job_id in seen} == set(made)
    assert len(seen) == 5


def test_a_page_can_be_of_some_states_only(database, make_job):
    make_job(State.RUNNING)
    waiting, ended = make_job(), make_job(State.FAILED)
    with database.read() as session:
        rows = jobs.page(session, states=[State.QUEUED, State.FAILED], limit=10)
    assert {row.id for row in rows} == {waiting.id, ended.id}


def test_every_end_is_an_end(database, make_job):
    for state in TERMINAL:
        assert make_job(state).finished_at is not None


def test_events_are_numbered_without_a_gap(database, make_job):
    job = make_job(State.SUCCEEDED)
    with database.read() as session:
        rows = events.read(session, job.id, after=0, limit=100)
        assert [row.seq for row in rows] == [1, 2, 3, 4]
        assert [row.data["state"] for row in rows] == ["queued", "starting", "running", "succeeded"]
        assert session.get(EventRow, (job.id, 4)).attempt == 1
