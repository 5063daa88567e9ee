"""Tracked runs: each entry once and in order, lost runs continue, ended ones stay ended."""

import threading

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import func, select

from ampspec.jobs import Reason, State
from ampspec.jobs.tracked import TrackedSpec
from ampspec.telemetry import Event, EventType
from ampspec.telemetry.steps.summary import StepSummary
from store import metrics_queries, workers
from store.access import projects
from store.access.projects import QuotaReached
from store.clock import from_now
from store.jobs import attempts, jobs, lease_expiry, tracked_runs
from store.jobs.tracked_runs import EntriesBatch, RunConflict, StepsNotInOrder
from store.tables import Attempt, EventRow, Job, LogRow, RunThroughput, StepBlockRow
from store.telemetry import compaction, compaction_queue, steps
from store.telemetry.ingest import LogChunk
from tests.waiting import join

ORIGIN = jobs.Origin("default", "ada", "request-1")
SPEC = TrackedSpec(name="baseline", labels={"team": "vision"}, config={"layers": 3})


@pytest.fixture
def run(in_transaction):
    """A running tracked run."""
    return in_transaction(tracked_runs.create, SPEC, ORIGIN)


@pytest.fixture
def send(in_transaction, run):
    """Upload entries of the run."""

    def send(first_entry, *entries, **more):
        return in_transaction(
            tracked_runs.append, run.id, EntriesBatch(first_entry, entries, **more)
        )

    return send


@pytest.fixture
def finish(in_transaction, run):
    """End the run."""

    def finish(state=State.SUCCEEDED, *, entries=0, message=None, **summary):
        facts = {"entries": entries, "message": message, "summary": summary}
        return in_transaction(tracked_runs.finish, run.id, state, **facts)

    return finish


@pytest.fixture
def lose(put, in_transaction, run):
    """Expire the lease of the run."""

    def lose(seconds=1):
        put(run.id, lease_expires_at=from_now(-seconds))
        return in_transaction(lease_expiry.expire)

    return lose


def counts(database, job_id):
    """The number of rows of a job, by table."""
    with database.read() as session:
        return {
            table.__tablename__: session.scalar(
                select(func.count()).select_from(table).where(table.job_id == job_id)
            )
            for table in (StepBlockRow, EventRow, LogRow)
        }


def stored_losses(database, job_id):
    with database.read() as session:
        return steps.read(session, job_id, start=0, end=None, limit=10_000).block["loss"].tolist()


def test_a_tracked_run_is_a_running_job_without_a_worker(database, run):
    assert (run.source, run.state, run.attempt) == ("tracked", State.RUNNING, 1)
    assert (run.name, run.policy, run.model) == ("baseline", "unknown", "unknown")
    assert run.spec == SPEC.model_dump(mode="json")
    with database.read() as session:
        [attempt] = attempts.listing(session, run.id)
        assert (attempt.worker_id, attempt.first_step, attempt.outcome) == (None, 0, None)
        [event] = session.scalars(select(EventRow))
        assert (event.seq, event.type, event.data) == (1, "state", {"state": "running"})


def test_entries_are_stored_in_order_with_totals(database, run, send, make_block):
    warning = Event.warning("slow", "Slow.", 3)
    job = send(0, make_block(0, 4), warning, LogChunk("stdout", "hello\n"), make_block(4, 2))
    assert (job.entries_written, job.step, job.seq) == (4, 6, 5)
    assert job.latest["loss"] == 5.0
    assert (job.totals["steps"], job.totals["best_loss"]) == (6, 0.0)
    assert stored_losses(database, run.id) == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    assert counts(database, run.id) == {"step_blocks": 2, "events": 2, "log_chunks": 1}


def test_a_repeated_upload_changes_nothing(database, run, send, make_block):
    entries = (make_block(0, 4), Event(EventType.EPOCH, 3, {"epoch": 0}))
    first = send(0, *entries)
    entry_counts = counts(database, run.id)
    again = send(0, *entries)
    assert counts(database, run.id) == entry_counts
    fields = ("entries_written", "seq", "step", "totals", "latest")
    assert [getattr(first, f) for f in fields] == [getattr(again, f) for f in fields]


def test_of_an_upload_that_overlaps_only_the_new_entries_are_stored(
    database, run, send, make_block
):
    send(0, make_block(0, 4))
    job = send(0, make_block(0, 4), make_block(4, 4))
    assert (job.entries_written, job.step, job.totals["steps"]) == (2, 8, 8)
    assert stored_losses(database, run.id) == [float(step) for step in range(8)]


def test_an_upload_after_missing_entries_is_refused(database, run, send, make_block):
    with pytest.raises(RunConflict, match="Expected entries from number 0 on; received number 1"):
        send(1, make_block(0, 4))
    assert counts(database, run.id)["step_blocks"] == 0


def test_a_block_before_the_end_of_the_stored_steps_is_refused(database, run, send, make_block):
    send(0, make_block(0, 4))
    with pytest.raises(StepsNotInOrder) as refused:
        send(1, make_block(4, 2), make_block(5, 2))
    assert (refused.value.index, refused.value.expected, refused.value.received) == (1, 6, 5)
    assert counts(database, run.id)["step_blocks"] == 1


def test_steps_may_be_missing_between_two_blocks(database, run, send, make_block):
    job = send(0, make_block(0, 2), make_block(10, 2))
    assert (job.step, job.totals["steps"]) == (12, 4)
    with database.read() as session:
        blocks = steps.read_blocks(session, run.id, steps.AttemptSteps(1, 0, 12))
        assert [(block.first_step, len(block)) for block in blocks] == [(0, 2), (10, 2)]


def test_an_upload_without_entries_renews_the_lease(run, send, put, in_transaction):
    put(run.id, lease_expires_at=from_now(-1))
    job = send(7, total_steps=50)
    assert (job.entries_written, job.total_steps) == (0, 50)
    assert in_transaction(lease_expiry.expire) == []


def test_totals_are_those_of_one_summary_over_all_uploads(database, run, send, make_block):
    expected = StepSummary()
    for index in range(6):
        block = make_block(index * 4, 4, loss=10.0 - index, step_time_s=0.1 * (index + 1))
        expected.add(block.count, block.stats)
        job = send(index, block)
    assert {k: v for k, v in job.totals.items() if k != "scale_health"} == expected.to_json()


@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(cuts=st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=8))
def test_any_sequence_of_overlapping_uploads_stores_each_entry_once(
    cuts, database, in_transaction, make_block
):
    job = in_transaction(tracked_runs.create, SPEC, ORIGIN)
    entries = [make_block(index * 2, 2) for index in range(6)]
    for first, last in [*cuts, (0, 6)]:
        try:
            in_transaction(tracked_runs.append, job.id, EntriesBatch(first, entries[first:last]))
        except RunConflict:
            continue
    assert stored_losses(database, job.id) == [float(step) for step in range(12)]


def test_of_two_concurrent_uploads_of_the_same_entries_one_is_stored(database, run, make_block):
    start, errors = threading.Barrier(4), []

    def upload():
        start.wait()
        try:
            with database.write() as session:
                tracked_runs.append(session, run.id, EntriesBatch(0, [make_block(0, 3)]))
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=upload) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        join(thread)
    assert errors == []
    assert counts(database, run.id)["step_blocks"] == 1


def test_a_run_that_sends_nothing_is_lost_and_continues_with_its_next_upload(
    database, run, send, lose, make_block
):
    send(0, make_block(0, 4))
    [lost] = lose()
    assert (lost.state, lost.reason) == (State.FAILED, Reason.RUN_LOST)
    assert lost.message == (
        "The program that trains it sent nothing for 300 s. The run continues with its next data."
    )
    job = send(1, make_block(4, 4))
    assert (job.state, job.reason, job.attempt, job.finished_at) == (State.RUNNING, None, 1, None)
    assert stored_losses(database, run.id) == [float(step) for step in range(8)]
    with database.read() as session:
        [attempt] = attempts.listing(session, run.id)
        assert (attempt.outcome, attempt.finished_at) == (None, None)
        states = [
            event.data["state"]
            for event in session.scalars(select(EventRow).order_by(EventRow.seq))
        ]
    assert states == ["running", "failed", "running"]


def test_a_lost_run_that_was_compacted_continues(database, run, send, lose, make_block):
    send(0, make_block(0, 4), make_block(4, 4))
    lose()
    compact(database)
    send(2, make_block(8, 4))
    compact(database)
    assert stored_losses(database, run.id) == [float(step) for step in range(12)]


def compact(database):
    with database.read() as session:
        uncompacted = compaction_queue.uncompacted_attempts(session, 10)
        parts = [compaction.read_uncompacted(session, attempt) for attempt in uncompacted]
    for part in parts:
        with database.write() as session:
            compaction.write_merged(session, compaction.merge_steps(part))


def test_a_lost_run_can_be_finished(send, finish, lose, make_block):
    send(0, make_block(0, 4))
    lose()
    job = finish(entries=1, val_loss=0.25)
    assert (job.state, job.reason, job.summary) == (State.SUCCEEDED, None, {"val_loss": 0.25})


def test_a_repeated_finish_returns_the_ended_run(finish):
    assert finish().seq == finish().seq


def test_a_run_is_finished_only_when_all_of_its_entries_are_stored(
    run, send, finish, make_block, state_of
):
    send(0, make_block(0, 4))
    with pytest.raises(RunConflict, match="stored entries, 1; received 2"):
        finish(entries=2)
    assert state_of(run.id) == State.RUNNING


@pytest.mark.parametrize(
    ("state", "reason", "message"),
    [
        (State.FAILED, Reason.RUN_FAILED, "Out of memory."),
        (State.CANCELLED, Reason.USER_REQUEST, "Interrupted."),
    ],
)
def test_a_program_can_report_a_failure_or_that_it_was_stopped(finish, state, reason, message):
    job = finish(state, message=message)
    assert (job.state, job.reason, job.message) == (state, reason, message)


def test_a_cancelled_run_ends_as_cancelled_whatever_its_program_reports(
    run, send, finish, in_transaction
):
    in_transaction(jobs.request_cancel, run.id)
    job = send(0)
    assert (job.state, job.requested) == (State.STOPPING, "cancel")
    assert finish(State.SUCCEEDED).state == State.CANCELLED
    assert finish(State.SUCCEEDED).state == State.CANCELLED


def test_a_run_that_has_ended_accepts_no_data(run, send, finish, make_block):
    finish()
    with pytest.raises(RunConflict, match="its state is succeeded"):
        send(0, make_block(0, 4))
    with pytest.raises(RunConflict, match="its state is succeeded"):
        finish(State.FAILED)


def test_a_stopping_run_that_sends_nothing_is_cancelled_for_good(
    run, send, lose, in_transaction, make_block
):
    in_transaction(jobs.request_cancel, run.id)
    assert lose() == []  # its program may still be stopping
    [job] = lose(seconds=301)
    assert (job.state, job.reason) == (State.CANCELLED, Reason.RUN_LOST)
    with pytest.raises(RunConflict, match="its state is cancelled"):
        send(0, make_block(0, 4))


def test_a_restarted_stack_leaves_tracked_runs_alone(run, in_transaction, state_of):
    assert in_transaction(lease_expiry.expire_all) == []
    assert state_of(run.id) == State.RUNNING


def test_the_number_of_tracked_runs_of_a_project_is_limited(in_transaction, monkeypatch, run):
    monkeypatch.setattr(tracked_runs, "MAX_RUNNING", 1)
    with pytest.raises(QuotaReached, match="quota of 1 tracked runs"):
        in_transaction(tracked_runs.create, SPEC, ORIGIN)
    in_transaction(projects.ensure, "other")
    in_transaction(tracked_runs.create, SPEC, jobs.Origin("other"))


def test_tracked_runs_take_no_slot_of_their_project(in_transaction, run, make_spec):
    in_transaction(projects.update, "default", {"max_running": 1})
    queued = in_transaction(jobs.create, make_spec(), ORIGIN)
    claimed = in_transaction(attempts.claim_next, "w", ["default"])
    assert claimed.id == queued.id
    assert in_transaction(projects.load_by_project)["default"].running == 1


def test_no_worker_claims_a_tracked_run(in_transaction, run):
    assert in_transaction(attempts.claim, run.id, "w") is None
    assert in_transaction(attempts.claim_next, "w", [tracked_runs.QUEUE]) is None


def test_metrics_of_workers_leave_tracked_runs_out(in_transaction, run, put, finish):
    put(run.id, updated_at=from_now(-100))
    assert in_transaction(metrics_queries.longest_silence_s) == 0.0
    assert in_transaction(lambda session: workers.busy_slots(session.connection(), ["w"])) == {}
    [waits] = in_transaction(metrics_queries.waits)
    assert not any(waits)
    assert in_transaction(workers.jobs_by_worker) == {}
    finish()
    assert in_transaction(metrics_queries.attempts_by_outcome) == []


def test_deleting_a_run_deletes_all_of_its_rows(database, run, send, finish, make_block):
    send(0, make_block(0, 4))
    finish(entries=1)
    with database.write() as session:
        assert jobs.delete_job(session, run.id)
    with database.read() as session:
        for table in (Job, Attempt, StepBlockRow, EventRow, RunThroughput):
            assert session.scalar(select(func.count()).select_from(table)) == 0
