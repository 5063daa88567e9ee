import numpy as np
import pytest

from ampcore.series import COLUMNS
from ampcore.spec import State
from store import jobs, steps
from store.tables import StepBlockRow


@pytest.fixture
def running(make_job):
    return make_job(State.RUNNING)


def append(database, job_id, attempt, *blocks):
    with database.write() as session:
        return [steps.append(session, job_id, attempt, block) for block in blocks]


@pytest.fixture
def of_30_steps(database, running, make_block):
    append(database, running.id, 1, *(make_block(first, 10) for first in (0, 10, 20)))
    return running


def read(database, job_id, start=0, end=None, limit=1000):
    with database.read() as session:
        return steps.read(session, job_id, start=start, end=end, limit=limit)


def numbers(reading):
    return reading.block["step"].tolist()


def test_a_block_moves_the_job_on(database, running, make_block):
    [standing] = append(database, running.id, 1, make_block(0, 10))
    with database.read() as session:
        job = jobs.get(session, running.id)
        assert (job.step, job.seq, job.latest["loss"]) == (10, standing.seq, 9.0)
        assert session.get(StepBlockRow, (running.id, 1, 0)).seq == standing.seq


def test_an_attempt_that_was_superseded_writes_nothing(database, running, make_block):
    append(database, running.id, 1, make_block(0, 10))
    with database.write() as session:
        jobs.get(session, running.id).attempt = 2
    assert append(database, running.id, 1, make_block(10, 10)) == [None]
    assert append(database, running.id, 1, make_block(0, 10)) == [None]
    assert numbers(read(database, running.id)) == list(range(10))


def test_a_job_that_has_ended_takes_no_steps(database, make_job, make_block):
    job = make_job(State.SUCCEEDED)
    assert append(database, job.id, 1, make_block(0, 10)) == [None]


def test_the_last_values_keep_what_json_cannot_write(database, running, make_block):
    append(database, running.id, 1, make_block(0, 2, loss=float("nan")))
    with database.read() as session:
        assert jobs.get(session, running.id).latest["loss"] == "NaN"
    assert np.isnan(read(database, running.id).block["loss"]).all()


@pytest.mark.parametrize(
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
    ids=str,
)
def test_any_range_can_be_read(database, of_30_steps, asked, expected, more):
    reading = read(database, of_30_steps.id, **asked)
    assert numbers(reading) == list(expected)
    assert reading.block["loss"].tolist() == list(expected)
    assert reading.more is more


def test_the_newest_attempt_that_has_steps_is_read(database, running, make_block):
    append(database, running.id, 1, make_block(0, 10))
    with database.write() as session:
        jobs.get(session, running.id).attempt = 2
    assert numbers(read(database, running.id)) == list(range(10))
    append(database, running.id, 2, make_block(0, 5, loss=7.0))
    reading = read(database, running.id)
    assert reading.block["loss"].tolist() == [7.0] * 5


def test_a_job_without_steps_has_every_column_empty(database, running):
    reading = read(database, running.id)
    assert len(reading.block) == 0
    assert reading.block.names == tuple(COLUMNS)
