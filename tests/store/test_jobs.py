import threading

import pytest

from ampspec.jobs import TERMINAL, Reason, State
from store import leases
from store.jobs import attempts, jobs
from store.jobs.jobs import Origin
from store.tables import Artifact, Attempt, EventRow, Job, LogRow, StepBlockRow
from store.telemetry import events
from tests.databases import ON_SQLITE
from tests.tables import every_row
from tests.waiting import join


def test_a_new_job_is_queued_with_an_event(database, in_transaction, make_spec):
    spec = make_spec(name="first", labels={"team": "vision"}, runtime={"priority": 7})
    origin = Origin("default", created_by="ada", request_id="r-1", cloned_from="0" * 12)
    job_id = in_transaction(jobs.create, spec, origin).id
    with database.read() as session:
        job = jobs.get(session, job_id)
        assert (job.state, job.attempt, job.step, job.seq) == (State.QUEUED, 0, 0, 1)
        assert (job.name, job.policy, job.model) == ("first", "float32", "mlp")
        assert (job.priority, job.max_attempts, job.queue) == (7, 3, "default")
        assert Origin(job.project, job.created_by, job.request_id, job.cloned_from) == origin
        assert job.labels == {"team": "vision"}
        assert job.spec == spec.to_json()
        [event] = events.read(session, job_id, after_seq=0, limit=10)
        assert (event.type, event.data) == ("state", {"state": "queued"})


@every_row(
    ("runtime", "queue"),
    [
        ({}, "default"),
        ({"device": "cpu"}, "cpu"),
        ({"device": "gpu"}, "gpu"),
        ({"device": "gpu", "queue": "big"}, "big"),
    ],
)
def test_the_queue_defaults_to_that_of_the_device(make_spec, runtime, queue):
    assert jobs.queue_of(make_spec(runtime=runtime)) == queue


def test_jobs_that_are_created_together_are_claimed_in_their_order(in_transaction, make_spec):
    names = [f"job {number}" for number in range(6)]
    new = [(make_spec(name=name), Origin("default")) for name in names]
    assert [row.name for row in in_transaction(jobs.create_all, new)] == names
    claimed = [in_transaction(attempts.claim_next, "w", ["default"]) for _ in names]
    assert [job.name for job in claimed] == names


def test_jobs_that_are_created_after_each_other_are_claimed_in_that_order(
    database, in_transaction, make_spec
):
    # In one transaction, so that several of them are created within a millisecond.
    with database.write() as session:
        ids = [jobs.create(session, make_spec(), Origin(project="default")).id for _ in range(30)]
    assert [in_transaction(attempts.claim_next, "w", ["default"]).id for _ in ids] == ids


def test_a_failed_transaction_creates_no_job(database, make_spec):
    ids = []

    def write_and_fail():
        with database.write() as session:
            ids.append(jobs.create(session, make_spec(), Origin("default")).id)
            raise RuntimeError("the power is lost")

    with pytest.raises(RuntimeError, match="lost"):
        write_and_fail()
    with database.read() as session:
        assert jobs.get(session, ids[0]) is None


def test_a_job_is_found_only_in_its_own_project(database, make_job):
    job_id = make_job(project="vision").id
    with database.read() as session:
        assert jobs.get(session, job_id, project="vision").id == job_id
        assert jobs.get(session, job_id, project="default") is None
        assert jobs.get(session, job_id).id == job_id


ACTIONS = {
    "claim": (
        lambda s, i: attempts.claim(s, i, "w"),
        {State.QUEUED: State.STARTING},
    ),
    "running": (
        lambda s, i: attempts.mark_running(s, i, 1, total_steps=9, first_step=0),
        {
            State.STARTING: State.RUNNING,
            State.RUNNING: State.RUNNING,
            State.PAUSING: State.PAUSING,
            State.STOPPING: State.STOPPING,
        },
    ),
    "succeeded": (
        lambda s, i: attempts.mark_succeeded(s, i, 1, {}),
        {
            State.RUNNING: State.SUCCEEDED,
            State.PAUSING: State.SUCCEEDED,
            State.STOPPING: State.CANCELLED,
        },
    ),
    "failed for good": (
        lambda s, i: attempts.mark_failed(s, i, 1, Reason.TIMEOUT, "Too slow."),
        {
            State.STARTING: State.FAILED,
            State.RUNNING: State.FAILED,
            State.PAUSING: State.FAILED,
            State.STOPPING: State.CANCELLED,
        },
    ),
    "failed": (
        lambda s, i: attempts.mark_failed(s, i, 1, Reason.PROCESS_KILLED, "Killed."),
        {
            State.STARTING: State.QUEUED,
            State.RUNNING: State.QUEUED,
            State.PAUSING: State.PAUSED,
            State.STOPPING: State.CANCELLED,
        },
    ),
    "cancelled": (
        lambda s, i: attempts.mark_cancelled(s, i, 1),
        {State.STOPPING: State.CANCELLED},
    ),
    "paused": (
        lambda s, i: attempts.mark_paused(s, i, 1),
        {State.PAUSING: State.PAUSED, State.STOPPING: State.CANCELLED},
    ),
    "requeue": (
        lambda s, i: attempts.requeue(s, i, 1),
        {
            State.STARTING: State.QUEUED,
            State.RUNNING: State.QUEUED,
            State.PAUSING: State.PAUSED,
            State.STOPPING: State.CANCELLED,
        },
    ),
    "cancel": (
        jobs.request_cancel,
        {
            State.QUEUED: State.CANCELLED,
            State.PAUSED: State.CANCELLED,
            State.CANCELLED: State.CANCELLED,
            State.STARTING: State.STOPPING,
            State.RUNNING: State.STOPPING,
            State.PAUSING: State.STOPPING,
            State.STOPPING: State.STOPPING,
        },
    ),
    "pause": (
        jobs.request_pause,
        {
            State.QUEUED: State.PAUSED,
            State.PAUSED: State.PAUSED,
            State.STARTING: State.PAUSING,
            State.RUNNING: State.PAUSING,
            State.PAUSING: State.PAUSING,
        },
    ),
    "resume": (jobs.resume, {State.PAUSED: State.QUEUED}),
    "retry": (jobs.retry, {State.FAILED: State.QUEUED, State.CANCELLED: State.QUEUED}),
}


@every_row("action", ACTIONS)
def test_each_action_leads_from_each_state_to_the_expected_one(
    make_job, in_transaction, state_of, action
):
    act, leads_to = ACTIONS[action]
    new_states = {}
    for state in State:
        job_id = make_job(state).id
        job = in_transaction(act, job_id)
        assert state_of(job_id) == (job.state if job else state)
        if job:
            new_states[state] = State(job.state)
    assert new_states == leads_to


@every_row("action", ACTIONS)
def test_an_action_on_an_unknown_job_returns_none(in_transaction, action):
    assert in_transaction(ACTIONS[action][0], "0" * 12) is None


@ON_SQLITE
def test_the_events_of_a_job_are_numbered_without_gaps(database, make_job):
    job = make_job(State.SUCCEEDED)
    with database.read() as session:
        rows = events.read(session, job.id, after_seq=0, limit=100)
        assert [row.seq for row in rows] == [1, 2, 3, 4]
        assert [row.data["state"] for row in rows] == ["queued", "starting", "running", "succeeded"]
        assert session.get(EventRow, (job.id, 4)).attempt == 1


def test_renewing_the_lease_returns_the_requested_action(in_transaction, make_job):
    job = make_job(State.RUNNING)
    assert in_transaction(leases.renew_lease, job.id, 1).requested is None
    in_transaction(jobs.request_pause, job.id)
    assert in_transaction(leases.renew_lease, job.id, 1).requested == jobs.PAUSE
    in_transaction(jobs.request_cancel, job.id)
    assert in_transaction(leases.renew_lease, job.id, 1).requested == jobs.CANCEL


def test_an_edit_is_in_the_event_log(database, in_transaction, make_job):
    job = make_job()
    edited = in_transaction(
        jobs.edit, job.id, {"name": "other", "priority": 9, "labels": {"a": "b"}}
    )
    assert (edited.name, edited.priority, edited.labels) == ("other", 9, {"a": "b"})
    with database.read() as session:
        [event] = events.read(session, job.id, after_seq=1, limit=9)
        assert (event.type, event.data["priority"]) == ("edited", 9)
    assert in_transaction(jobs.edit, "0" * 12, {"name": "other"}) is None


def test_an_empty_edit_writes_no_event(in_transaction, make_job):
    job = make_job()
    assert in_transaction(jobs.edit, job.id, {}).seq == 1


@every_row("state", State)
def test_only_a_job_that_has_ended_can_be_deleted(database, in_transaction, make_job, state):
    job_id = make_job(state).id
    assert in_transaction(jobs.delete_job, job_id) == (state in TERMINAL)
    with database.read() as session:
        assert (jobs.get(session, job_id) is None) == (state in TERMINAL)


def test_a_job_that_is_being_extended_is_deleted_only_after_the_commit_and_then_stays(
    database, in_transaction, make_job, make_spec, until_blocked
):
    job_id, deleted = make_job(State.SUCCEEDED).id, []
    thread = threading.Thread(
        target=lambda: deleted.append(in_transaction(jobs.delete_job, job_id))
    )
    with database.write() as session:
        assert jobs.lock_needed(session, {job_id, "0" * 12}) == {job_id}
        thread.start()
        until_blocked(thread)
        jobs.create(session, make_spec(), jobs.Origin("default", extends=job_id))
    join(thread)
    assert deleted == [False]


def test_deleting_a_job_deletes_all_its_rows(database, in_transaction, make_job, make_block):
    from ampspec.telemetry import Event, EventType
    from store.files import artifacts
    from store.telemetry import ingest

    job = make_job(State.RUNNING)
    entries = [make_block(0, 3), Event(EventType.WARNING), ingest.LogChunk("stdout", "hello\n")]
    in_transaction(ingest.append, job.id, 1, entries, entries_written=0)
    in_transaction(
        artifacts.add,
        job.id,
        1,
        artifacts.StoredArtifact("model", artifacts.MODEL, None, 1, "0" * 64),
    )
    in_transaction(attempts.mark_succeeded, job.id, 1, {})
    assert in_transaction(jobs.delete_job, job.id)
    with database.read() as session:
        for table in (Job, Attempt, EventRow, StepBlockRow, LogRow, Artifact):
            assert session.query(table).count() == 0


def test_retrying_a_job_resets_its_failures_and_keeps_counting_attempts(in_transaction, make_job):
    job = make_job(State.FAILED)
    assert job.failures == 1
    again = in_transaction(jobs.retry, job.id)
    assert (again.failures, again.reason, again.message, again.finished_at) == (0, *[None] * 3)
    assert again.attempt == 1
    assert in_transaction(attempts.claim, job.id, "w").attempt == 2


@ON_SQLITE
def test_only_a_job_in_a_terminal_state_has_a_finish_time(make_job):
    for state in State:
        assert (make_job(state).finished_at is not None) == (state in TERMINAL)


def test_the_request_for_a_profile_of_a_thousand_steps_fits_into_its_column(
    in_transaction, make_job
):
    """Fails on PostgreSQL if it has one character more."""
    job = make_job(State.RUNNING)
    requested = in_transaction(jobs.request_profile, job.id, steps=1000).requested
    assert jobs.profile_steps(requested) == 1000
    assert len(requested) <= Job.requested.type.length
    assert in_transaction(jobs.request_profile, job.id, steps=1000).requested != requested
