from itertools import accumulate, pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ampspec.jobs import State
from ampspec.telemetry import COLUMN_DTYPES
from store.jobs.jobs import Origin, create
from store.tables import StepBlockRow
from store.telemetry import ingest, steps
from tests.tables import every_row


@pytest.fixture
def running(make_job):
    return make_job(State.RUNNING)


@pytest.fixture
def job_of_30_steps(in_transaction, running, make_block):
    blocks = [make_block(first, 10) for first in (0, 10, 20)]
    in_transaction(ingest.append, running.id, 1, blocks, entries_written=0)
    return running


def read(database, job_id, **asked):
    with database.read() as session:
        return steps.read(session, job_id, **{"start": 0, "end": None, "limit": 1000, **asked})


def numbers(reading):
    return reading.block["step"].tolist()


@every_row(
    ("asked", "expected", "more"),
    [
        ({}, range(30), False),
        ({"limit": 30}, range(30), False),
        ({"limit": 29}, range(29), True),
        ({"limit": 10}, range(10), True),
        ({"limit": 1}, range(1), True),
        ({"start": 7, "end": 23}, range(7, 23), False),
        ({"start": 7, "end": 23, "limit": 5}, range(7, 12), True),
        ({"start": 7, "end": 23, "limit": 16}, range(7, 23), False),
        ({"start": 10, "end": 20, "limit": 10}, range(10, 20), False),
        ({"start": 29}, [29], False),
        ({"start": 30}, [], False),
        ({"start": 9, "end": 9}, [], False),
        ({"start": 20, "end": 10}, [], False),
    ],
)
def test_any_range_can_be_read(database, job_of_30_steps, asked, expected, more):
    reading = read(database, job_of_30_steps.id, **asked)
    assert numbers(reading) == list(expected)
    assert reading.block["loss"].tolist() == list(expected)
    assert reading.more is more


ATTEMPTS = st.lists(
    st.tuples(st.integers(0, 25), st.lists(st.integers(1, 6), max_size=5)), max_size=5
)
"""The first step of each, and the lengths of its blocks."""
ASKED = st.tuples(st.integers(0, 40), st.integers(0, 40), st.integers(1, 30))
"""The first step, the length of the range, and the limit."""


@pytest.fixture
def new_job(in_transaction, make_spec):
    """The id of one more job."""
    return lambda: in_transaction(create, make_spec(), Origin("default")).id


@pytest.fixture
def put_block(in_transaction, make_block):
    """Store a block of an attempt; the loss is the number of the attempt."""

    def put(job_id, attempt, first_step, count, *, skipped=0):
        block = make_block(first_step, count, loss=float(attempt))
        columns = {"job_id": job_id, "attempt": attempt, "seq": 0, "skipped": skipped}
        columns |= {"first_step": first_step, "end_step": block.end_step}
        in_transaction(lambda session: session.add(StepBlockRow(payload=block.payload, **columns)))

    return put


@settings(
    deadline=None,
    max_examples=40,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(attempt_blocks=ATTEMPTS, asked=ASKED)
def test_every_step_is_read_once_from_the_newest_attempt_that_reached_it(
    database, new_job, put_block, attempt_blocks, asked
):
    job_id, newest = new_job(), {}
    for attempt, (begin, blocks) in enumerate(attempt_blocks, start=1):
        step = min(begin, max(newest, default=-1) + 1)  # no later than the steps reached so far
        of_attempt = {}
        for first, end in pairwise(accumulate(blocks, initial=step)):
            put_block(job_id, attempt, first, end - first)
            of_attempt |= dict.fromkeys(range(first, end), float(attempt))
        newest |= of_attempt
        alone = read(database, job_id, attempt=attempt)
        assert dict(zip(numbers(alone), alone.block["loss"].tolist(), strict=True)) == of_attempt
    start, length, limit = asked
    expected_steps = [step for step in sorted(newest) if start <= step < start + length]
    reading = read(database, job_id, start=start, end=start + length, limit=limit)
    assert numbers(reading) == expected_steps[:limit]
    assert reading.block["loss"].tolist() == [newest[step] for step in expected_steps[:limit]]
    assert reading.more == (len(expected_steps) > limit)


def test_a_read_continues_after_a_gap_and_keeps_the_numbers(database, new_job, put_block):
    job_id = new_job()
    for first in (0, 3, 10):
        put_block(job_id, 1, first, 3)
    reading = read(database, job_id)
    assert (numbers(reading), reading.more) == ([*range(6), 10, 11, 12], False)
    reading = read(database, job_id, start=4, limit=3)
    assert (numbers(reading), reading.more) == ([4, 5, 10], True)
    reading = read(database, job_id, start=6)
    assert (numbers(reading), reading.more) == ([10, 11, 12], False)


def test_only_the_requested_columns_are_read(database, job_of_30_steps):
    reading = read(database, job_of_30_steps.id, columns=["loss", "no such column"])
    assert reading.block.names == ("loss",)


def test_a_job_without_steps_has_every_column_empty(database, running):
    reading = read(database, running.id)
    assert len(reading.block) == 0
    assert reading.block.names == tuple(COLUMN_DTYPES)
