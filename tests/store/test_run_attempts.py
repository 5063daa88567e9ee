"""Tracked runs whose program goes on from an earlier step: no step comes twice."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ampspec.jobs import State
from ampspec.jobs.tracked import TrackedSpec
from ampspec.telemetry import Event, EventType
from store.jobs import attempts, jobs, tracked_runs
from store.jobs.tracked_runs import EntriesBatch, NewAttempt, StepsNotInOrder
from store.tables import Attempt, EventRow
from store.telemetry import compaction, compaction_queue, evaluations, key_steps, steps

ORIGIN = jobs.Origin("default", "ada", "request-1")


@pytest.fixture
def create(in_transaction):
    """Creates a tracked run."""
    return lambda: in_transaction(tracked_runs.create, TrackedSpec(), ORIGIN)


@pytest.fixture
def append(in_transaction):
    """Uploads entries of a run."""

    def append(run, first_entry, *entries):
        return in_transaction(tracked_runs.append, run.id, EntriesBatch(first_entry, entries))

    return append


def read(database, run, **options):
    """The numbers and the losses of the visible steps."""
    with database.read() as session:
        block = steps.read(session, run.id, start=0, end=None, limit=10_000, **options).block
        return [*zip(block["step"].tolist(), block["loss"].tolist(), strict=True)]


def compact(database):
    """Merge the blocks of attempts that have ended."""
    with database.read() as session:
        uncompacted = compaction_queue.uncompacted_attempts(session, 10)
        parts = [compaction.read_uncompacted(session, attempt) for attempt in uncompacted]
    with database.write() as session:
        for part in parts:
            compaction.write_merged(session, compaction.merge_steps(part))


def test_steps_that_are_trained_again_replace_those_of_before(database, create, append, make_block):
    run = create()
    append(run, 0, make_block(0, 10))
    job = append(run, 1, NewAttempt(4), make_block(4, 3, loss=40.0))
    assert (job.attempt, job.step, job.entries_written) == (2, 7, 3)
    totals = {name: job.totals[name] for name in ("steps", "repeated_steps", "best_loss")}
    assert totals == {"steps": 7, "repeated_steps": 6, "best_loss": 0.0}
    first = [(step, float(step)) for step in range(10)]
    again = [(4, 40.0), (5, 40.0), (6, 40.0)]
    assert read(database, run) == first[:4] + again
    assert read(database, run, attempt=1) == first
    compact(database)
    assert read(database, run) == first[:4] + again


def test_the_attempts_and_an_event_say_what_was_replaced(
    database, create, append, make_block, in_transaction
):
    run = create()
    append(run, 0, make_block(0, 10), NewAttempt(4), make_block(4, 2))
    facts = {"entries": 3, "message": None, "summary": {}}
    in_transaction(tracked_runs.finish, run.id, State.SUCCEEDED, **facts)
    with database.read() as session:
        rows = [(a.first_step, a.outcome, a.message) for a in attempts.listing(session, run.id)]
        event = session.query(EventRow).filter_by(type=EventType.RESUMED).one()
        assert (event.attempt, event.step) == (2, 4)
        assert "to 9 are trained again. Those of before are kept as attempt 1" in str(event.data)
    assert rows == [
        (0, "replaced", "The program went on from step 4."),
        (4, State.SUCCEEDED, None),
    ]


def test_a_repeated_upload_begins_no_further_attempt(database, create, append, make_block):
    run = create()
    entries = (make_block(0, 6), NewAttempt(2), make_block(2, 2), NewAttempt(3), make_block(3, 1))
    first = append(run, 0, *entries)
    again = append(run, 0, *entries)
    part = append(run, 3, *entries[3:])
    for job in (first, again, part):
        assert (job.attempt, job.step, job.entries_written, job.seq) == (3, 4, 5, first.seq)
    assert [step for step, _ in read(database, run)] == [0, 1, 2, 3]


def test_a_run_that_has_failed_goes_on_in_its_newest_attempt(
    database, create, append, make_block, in_transaction
):
    run = create()
    append(run, 0, make_block(0, 6), NewAttempt(2), make_block(2, 2))
    facts = {"entries": 3, "message": "It was interrupted.", "summary": {}}
    in_transaction(tracked_runs.finish, run.id, State.FAILED, **facts)
    job = in_transaction(tracked_runs.resume, run.id)
    assert (job.attempt, job.step) == (2, 4)
    append(run, 3, make_block(4, 1))
    with database.read() as session:
        rows = session.query(Attempt).filter_by(job_id=run.id).order_by(Attempt.attempt).all()
        assert [row.outcome for row in rows] == ["replaced", None]
    assert [step for step, _ in read(database, run)] == [0, 1, 2, 3, 4]


def test_steps_below_those_of_the_attempt_are_refused(create, append, make_block):
    run = create()
    append(run, 0, make_block(0, 6))
    with pytest.raises(StepsNotInOrder) as caught:
        append(run, 1, NewAttempt(4), make_block(3, 1))
    assert (caught.value.index, caught.value.expected) == (1, 4)


def test_evaluations_of_replaced_steps_are_hidden(database, create, append, make_block):
    run = create()

    def evaluation(step, loss):
        return Event(EventType.EVALUATION, step, {"epoch": 0, "val_loss": loss})

    append(run, 0, make_block(0, 4), evaluation(3, 1.0), make_block(4, 4), evaluation(7, 2.0))
    append(run, 4, NewAttempt(4), make_block(4, 2), evaluation(5, 3.0))
    with database.read() as session:
        rows = evaluations.read(session, run.id, limit=10)
        earlier = evaluations.read(session, run.id, limit=10, attempt=1)
    assert [(row.step, row.metrics["val_loss"]) for row in rows] == [(3, 1.0), (5, 3.0)]
    assert [row.step for row in earlier] == [3, 7]


def test_a_change_of_the_scale_where_a_program_went_on_is_a_key_step(
    database, create, append, make_block
):
    run = create()
    append(run, 0, make_block(0, 3), make_block(9, 1))
    append(run, 2, NewAttempt(5), make_block(5, 1, loss_scale=512.0))
    with database.read() as session:
        ranges = steps.visible_ranges(session, run.id)
        found_steps = key_steps.find(session, run.id, ranges, 0, None)
    assert found_steps.points.changes.steps.tolist() == [5]


@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    programs=st.lists(
        st.tuples(st.integers(0, 40), st.integers(1, 20), st.booleans()), min_size=1, max_size=6
    )
)
def test_whatever_programs_go_on_from_each_step_is_that_of_the_last_one_that_trained_it(
    programs, database, create, append, make_block
):
    run, expected, entry = create(), {}, 0
    trained = 0
    for program, (begin, count, is_merged) in enumerate(programs):
        block = make_block(begin, count, loss=float(program))
        job = append(run, entry, NewAttempt(begin), block)
        entry += 2
        trained += count
        expected = {step: loss for step, loss in expected.items() if step < begin}
        expected |= dict.fromkeys(range(begin, begin + count), float(program))
        if is_merged:
            compact(database)
        assert read(database, run) == sorted(expected.items())
        assert job.totals["steps"] == len(expected)
        assert job.totals["repeated_steps"] == trained - len(expected)
