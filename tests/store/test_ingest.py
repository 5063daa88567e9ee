import pytest

from ampspec.jobs import ACTIVE, State
from ampspec.telemetry import Event, EventType
from store.jobs import attempts, jobs
from store.tables import StepBlockRow
from store.telemetry import events, ingest, logs, steps
from store.telemetry.ingest import LogChunk
from tests.tables import every_row


@pytest.fixture
def running(make_job):
    return make_job(State.RUNNING)


def stored_entries(database, job_id):
    """The seq and the content of every stored entry of a job."""
    with database.read() as session:
        rows = [(row.seq, row.type) for row in events.read(session, job_id, after_seq=3, limit=99)]
        rows += [(row.seq, row.text) for row in logs.read(session, job_id, after_seq=0, limit=99)]
        blocks = session.query(StepBlockRow).filter_by(job_id=job_id)
        rows += [(row.seq, row.first_step) for row in blocks]
    return sorted(rows)


def test_entries_get_consecutive_sequence_numbers_in_their_order(
    database, in_transaction, running, make_block
):
    entries = [
        LogChunk("stdout", "hello\n"),
        make_block(0, 10),
        Event(EventType.OVERFLOW, step=9, data={"norm": float("inf")}),
        make_block(10, 10),
    ]
    lease = in_transaction(ingest.append, running.id, 1, entries, entries_written=0)
    assert stored_entries(database, running.id) == [
        (4, "hello\n"),
        (5, 0),
        (6, "overflow"),
        (7, 10),
    ]
    with database.read() as session:
        job = jobs.get(session, running.id)
        assert (job.seq, job.step, job.latest["loss"], job.entries_written) == (7, 20, 19.0, 4)
        assert (lease.seq, lease.requested) == (7, None)
        [event] = events.read(session, running.id, after_seq=5, limit=1)
        assert (event.step, event.attempt, event.data) == (9, 1, {"norm": "Infinity"})


def test_a_repeated_write_stores_no_entry_twice(database, in_transaction, running, make_block):
    entries = [make_block(0, 10), Event(EventType.WARNING)]
    first = in_transaction(ingest.append, running.id, 1, entries, entries_written=0)
    again = in_transaction(ingest.append, running.id, 1, entries, entries_written=0)
    assert again == first
    assert len(stored_entries(database, running.id)) == 2
    in_transaction(ingest.append, running.id, 1, [make_block(10, 10)], entries_written=2)
    assert [content for _, content in stored_entries(database, running.id)] == [0, "warning", 10]


def test_a_write_with_a_gap_is_refused(database, in_transaction, running, make_block):
    with pytest.raises(ValueError, match="expected 3 entries written, found 0"):
        in_transaction(ingest.append, running.id, 1, [make_block(0, 10)], entries_written=2)
    assert stored_entries(database, running.id) == []


def test_an_empty_write_returns_the_lease_and_stores_nothing(database, in_transaction, running):
    assert in_transaction(ingest.append, running.id, 1, [], entries_written=0).seq == 3
    assert stored_entries(database, running.id) == []


def test_a_write_returns_the_requested_action(in_transaction, running, make_block):
    in_transaction(jobs.request_cancel, running.id)
    lease = in_transaction(ingest.append, running.id, 1, [make_block(0, 10)], entries_written=0)
    assert lease.requested == jobs.CANCEL


@every_row("state", State)
def test_only_the_attempt_that_owns_the_job_writes(
    database, in_transaction, make_job, make_block, state
):
    job = make_job(state)
    entries = stored_entries(database, job.id)
    for attempt in (0, 2):
        assert (
            in_transaction(ingest.append, job.id, attempt, [make_block(0, 10)], entries_written=0)
            is None
        )
    assert stored_entries(database, job.id) == entries
    lease = in_transaction(ingest.append, job.id, 1, [make_block(0, 10)], entries_written=0)
    assert (lease is not None) == (state in ACTIVE)
    assert (stored_entries(database, job.id) != entries) == (state in ACTIVE)


def test_the_count_of_written_entries_starts_at_zero_for_each_attempt(
    in_transaction, running, make_block
):
    from store.jobs import attempts

    in_transaction(ingest.append, running.id, 1, [make_block(0, 10)], entries_written=0)
    in_transaction(attempts.requeue, running.id, 1)
    in_transaction(attempts.claim, running.id, "other")
    assert (
        in_transaction(ingest.append, running.id, 2, [make_block(5, 10)], entries_written=0)
        is not None
    )


def test_an_invalid_entry_rolls_back_the_whole_batch(database, in_transaction, running, make_block):
    from sqlalchemy.exc import IntegrityError

    twice = [Event(EventType.WARNING), make_block(0, 10), make_block(0, 10)]
    with pytest.raises(IntegrityError):
        in_transaction(ingest.append, running.id, 1, twice, entries_written=0)
    assert stored_entries(database, running.id) == []
    with database.read() as session:
        assert jobs.get(session, running.id).entries_written == 0


def test_null_characters_and_surrogates_in_text_are_replaced(database, in_transaction, running):
    entries = [
        LogChunk("stderr", "a\0b\ud800"),
        Event(EventType.WARNING, data={"k\0\ud800": "v\0"}),
    ]
    in_transaction(ingest.append, running.id, 1, entries, entries_written=0)
    with database.read() as session:
        [chunk] = logs.read(session, running.id, after_seq=0, limit=9)
        assert chunk.text == "a\N{REPLACEMENT CHARACTER}b?"
        [event] = events.read(session, running.id, after_seq=4, limit=9)
        assert event.data == {"k\N{REPLACEMENT CHARACTER}?": "v\N{REPLACEMENT CHARACTER}"}


def test_non_finite_latest_values_are_stored_as_strings(
    database, in_transaction, running, make_block
):
    in_transaction(
        ingest.append, running.id, 1, [make_block(0, 2, loss=float("nan"))], entries_written=0
    )
    with database.read() as session:
        assert jobs.get(session, running.id).latest["loss"] == "NaN"
        reading = steps.read(session, running.id, start=0, end=None, limit=9)
        assert reading.block["loss"].tolist() != reading.block["loss"].tolist()


def test_logs_are_read_from_any_seq_and_by_attempt(database, in_transaction, make_job):
    job = make_job(State.RUNNING)
    pieces = [LogChunk("stdout", f"line {number}\n") for number in range(3)]
    in_transaction(ingest.append, job.id, 1, pieces, entries_written=0)
    in_transaction(attempts.requeue, job.id, 1)
    in_transaction(attempts.claim, job.id, "other")
    in_transaction(ingest.append, job.id, 2, [LogChunk("stderr", "again\n")], entries_written=0)

    def read(**arguments):
        with database.read() as session:
            rows = logs.read(session, job.id, **{"after_seq": 0, "limit": 99, **arguments})
            return [row.text for row in rows]

    assert read() == ["line 0\n", "line 1\n", "line 2\n", "again\n"]
    assert read(limit=1) == ["line 0\n"]
    assert read(after_seq=4, limit=2) == ["line 1\n", "line 2\n"]
    assert read(attempt=2) == ["again\n"]


def test_events_are_read_from_any_seq(database, make_job):
    job = make_job(State.SUCCEEDED)
    with database.read() as session:
        assert [row.seq for row in events.read(session, job.id, after_seq=1, limit=2)] == [2, 3]
        assert events.read(session, job.id, after_seq=4, limit=2) == []
