import pytest

from ampcore.series import Event, EventType
from ampcore.spec import ACTIVE, State
from store import events, ingest, jobs, logs, steps
from store.ingest import LogChunk
from store.tables import StepBlockRow


@pytest.fixture
def running(make_job):
    return make_job(State.RUNNING)


def told(database, job_id):
    """The seqs of all that is stored of a job, and what it was."""
    with database.read() as session:
        rows = [(row.seq, row.type) for row in events.read(session, job_id, after=3, limit=99)]
        rows += [(row.seq, row.text) for row in logs.read(session, job_id, after=0, limit=99)]
        blocks = session.query(StepBlockRow).filter_by(job_id=job_id)
        rows += [(row.seq, row.first_step) for row in blocks]
    return sorted(rows)


def test_everything_gets_the_next_number_in_its_order(database, do, running, make_block):
    entries = [
        LogChunk("stdout", "hello\n"),
        make_block(0, 10),
        Event(EventType.OVERFLOW, step=9, data={"norm": float("inf")}),
        make_block(10, 10),
    ]
    standing = do(ingest.append, running.id, 1, entries, told=0)
    assert told(database, running.id) == [(4, "hello\n"), (5, 0), (6, "overflow"), (7, 10)]
    with database.read() as session:
        job = jobs.get(session, running.id)
        assert (job.seq, job.step, job.latest["loss"], job.told) == (7, 20, 19.0, 4)
        assert (standing.seq, standing.requested) == (7, None)
        [event] = events.read(session, running.id, after=5, limit=1)
        assert (event.step, event.attempt, event.data) == (9, 1, {"norm": "Infinity"})


def test_what_was_written_already_is_not_written_again(database, do, running, make_block):
    entries = [make_block(0, 10), Event(EventType.WARNING)]
    first = do(ingest.append, running.id, 1, entries, told=0)
    again = do(ingest.append, running.id, 1, entries, told=0)
    assert again == first
    assert len(told(database, running.id)) == 2
    do(ingest.append, running.id, 1, [make_block(10, 10)], told=2)
    assert [what for _, what in told(database, running.id)] == [0, "warning", 10]


def test_a_gap_is_refused(database, do, running, make_block):
    with pytest.raises(ValueError, match="expected 3 entries written, found 0"):
        do(ingest.append, running.id, 1, [make_block(0, 10)], told=2)
    assert told(database, running.id) == []


def test_nothing_to_tell_is_a_heartbeat(database, do, running):
    assert do(ingest.append, running.id, 1, [], told=0).seq == 3
    assert told(database, running.id) == []


def test_what_is_asked_of_the_job_is_heard(do, running, make_block):
    do(jobs.request_cancel, running.id)
    standing = do(ingest.append, running.id, 1, [make_block(0, 10)], told=0)
    assert standing.requested == jobs.CANCEL


@pytest.mark.parametrize("state", State, ids=str)
def test_only_the_attempt_that_owns_the_job_writes(database, do, make_job, make_block, state):
    job = make_job(state)
    before = told(database, job.id)
    for attempt in (0, 2):
        assert do(ingest.append, job.id, attempt, [make_block(0, 10)], told=0) is None
    assert told(database, job.id) == before
    standing = do(ingest.append, job.id, 1, [make_block(0, 10)], told=0)
    assert (standing is not None) == (state in ACTIVE)
    assert (told(database, job.id) != before) == (state in ACTIVE)


def test_the_next_attempt_begins_to_count_anew(do, running, make_block):
    from store import attempts

    do(ingest.append, running.id, 1, [make_block(0, 10)], told=0)
    do(attempts.hand_back, running.id, 1)
    do(attempts.claim, running.id, "other")
    assert do(ingest.append, running.id, 2, [make_block(5, 10)], told=0) is not None


def test_an_entry_that_cannot_be_written_takes_the_whole_batch_with_it(
    database, do, running, make_block
):
    from sqlalchemy.exc import IntegrityError

    twice = [Event(EventType.WARNING), make_block(0, 10), make_block(0, 10)]
    with pytest.raises(IntegrityError):
        do(ingest.append, running.id, 1, twice, told=0)
    assert told(database, running.id) == []
    with database.read() as session:
        assert jobs.get(session, running.id).told == 0


def test_text_that_no_database_takes_is_made_storable(database, do, running):
    entries = [
        LogChunk("stderr", "a\0b\ud800"),
        Event(EventType.WARNING, data={"k\0\ud800": "v\0"}),
    ]
    do(ingest.append, running.id, 1, entries, told=0)
    with database.read() as session:
        [chunk] = logs.read(session, running.id, after=0, limit=9)
        assert chunk.text == "a\N{REPLACEMENT CHARACTER}b?"
        [event] = events.read(session, running.id, after=4, limit=9)
        assert event.data == {"k\N{REPLACEMENT CHARACTER}?": "v\N{REPLACEMENT CHARACTER}"}


def test_the_last_values_keep_what_json_cannot_write(database, do, running, make_block):
    do(ingest.append, running.id, 1, [make_block(0, 2, loss=float("nan"))], told=0)
    with database.read() as session:
        assert jobs.get(session, running.id).latest["loss"] == "NaN"
        reading = steps.read(session, running.id, start=0, end=None, limit=9)
        assert reading.block["loss"].tolist() != reading.block["loss"].tolist()
