import pytest

from ampspec.jobs import State
from ampspec.telemetry import COLUMN_DTYPES
from store.jobs import attempts
from store.telemetry import ingest
from tests.databases import ON_SQLITE
from tests.tables import every_row


@pytest.fixture
def append_blocks(api):
    """Append step blocks of an attempt."""

    def append(job_id, *blocks, attempt=1):
        with api.database.write() as session:
            assert ingest.append(session, job_id, attempt, blocks, entries_written=0)

    return append


@pytest.fixture
def job_id(append_blocks, make_job, make_block):
    """A running job of 30 steps in blocks of ten; the loss is the number of the step."""
    job = make_job(State.RUNNING)
    append_blocks(job.id, *(make_block(first, 10) for first in (0, 10, 20)))
    return job.id


def read(api, job_id, **query):
    answer = api.client.get(f"/api/v1/jobs/{job_id}/steps", params=query)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/json"
    return answer.json()


def test_every_step_has_every_column(api, job_id):
    steps = read(api, job_id)
    assert list(steps["data"]) == [
        "step",
        *sorted(COLUMN_DTYPES, key=list(steps["data"]).index),
    ]
    assert steps["data"]["step"] == steps["data"]["loss"] == list(range(30))
    assert steps["data"]["skipped"] == [False] * 30
    assert steps["data"]["learning_rate"] == [0.001] * 30
    assert (
        steps["steps_per_point"],
        steps["next"],
        steps["more"],
    ) == (1, 29, False)


@every_row(
    ("query", "expected", "more"),
    [
        ({"start": 5, "end": 12}, range(5, 12), False),
        ({"after": 27}, range(28, 30), False),
        ({"after": -1, "limit": 3}, range(3), True),
        ({"after": 3, "start": 8, "limit": 2}, range(8, 10), True),
        ({"start": 3, "after": 8, "limit": 2}, range(9, 11), True),
        ({"start": 29}, [29], False),
    ],
)
def test_a_range_of_steps_can_be_requested(api, job_id, query, expected, more):
    steps = read(api, job_id, **query)
    assert steps["data"]["step"] == list(expected)
    assert (steps["next"], steps["more"]) == (expected[-1], more)


def test_polling_with_next_returns_every_step_once(api, job_id):
    seen, after, more = [], -1, True
    while more:
        steps = read(api, job_id, after=after, limit=7)
        seen += steps["data"]["step"]
        after, more = steps["next"], steps["more"]
    assert seen == list(range(30))


@pytest.mark.parametrize(
    ("query", "following"), [({"after": 29}, 29), ({"after": 99}, 99), ({"start": 30}, None)]
)
def test_an_empty_page_keeps_next(api, job_id, query, following):
    steps = read(api, job_id, **query)
    assert steps["data"]["loss"] == []
    assert (steps["next"], steps["more"]) == (following, False)


@ON_SQLITE
def test_columns_are_returned_in_the_requested_order_after_the_step(api, job_id):
    steps = read(api, job_id, columns="loss_scale, loss", limit=2)
    assert steps["data"] == {"step": [0, 1], "loss_scale": [1024, 1024], "loss": [0, 1]}
    assert list(steps["data"]) == ["step", "loss_scale", "loss"]
    assert list(read(api, job_id, columns="step", limit=1)["data"]) == ["step"]


def test_non_finite_numbers_are_strings(api, append_blocks, make_job, make_block):
    job = make_job(State.RUNNING)
    losses = ["nan", "inf", "-inf", "0.1"]
    append_blocks(
        job.id, *(make_block(step, 1, loss=float(loss)) for step, loss in enumerate(losses))
    )
    assert read(api, job.id)["data"]["loss"] == ["NaN", "Infinity", "-Infinity", 0.1]


def test_an_extra_column_is_returned_once_it_exists(api, append_blocks, make_job, make_block):
    job = make_job(State.RUNNING)
    assert read(api, job.id, columns="loss,loss/generator")["data"] == {"step": [], "loss": []}
    append_blocks(job.id, make_block(0, 2, **{"loss/generator": 0.5}))
    assert read(api, job.id, columns="loss/generator")["data"]["loss/generator"] == [0.5, 0.5]


def test_a_column_of_earlier_steps_is_empty_in_later_ones(api, append_blocks, make_job, make_block):
    job = make_job(State.RUNNING)
    append_blocks(job.id, make_block(0, 2, **{"loss/generator": 0.5}), make_block(2, 2))
    steps = read(api, job.id, columns="loss/generator", after=1)
    assert steps["data"] == {"step": [2, 3], "loss/generator": [None, None]}


@ON_SQLITE
@every_row(
    "query",
    [
        "start=-1",
        "end=x",
        "after=-2",
        "limit=0",
        "limit=100001",
        "columns=losss",
        "columns=",
        "start=99999999999999999999",
        "format=cvs",
        "max_points=1",
        "max_points=10001",
        "attempt=0",
        "attempt=99999999999",
    ],
)
def test_an_invalid_steps_query_is_refused(api, job_id, query):
    answer = api.client.get(f"/api/v1/jobs/{job_id}/steps?{query}")
    assert answer.status_code == 422
    problem = answer.json()
    assert problem["code"] == "invalid_request"
    assert problem["errors"][0]["pointer"] == f"/query/{query.partition('=')[0]}"


@ON_SQLITE
def test_a_misspelt_column_gets_a_suggestion(api, job_id):
    answer = api.client.get(f"/api/v1/jobs/{job_id}/steps?columns=loss_scal")
    assert answer.json()["errors"][0]["suggestion"] == "loss_scale"


def test_steps_are_those_of_the_newest_attempt_and_older_attempts_stay_readable(
    api, append_blocks, job_id, make_block
):
    with api.database.write() as session:
        attempts.requeue(session, job_id, 1)
        attempts.claim(session, job_id, "another-worker")
        attempts.mark_running(session, job_id, 2, total_steps=100, first_step=20)
    append_blocks(job_id, make_block(20, 5, loss=-1.0), attempt=2)
    assert read(api, job_id)["data"]["loss"] == [*range(20), *[-1] * 5, *range(25, 30)]
    assert read(api, job_id, attempt=1)["data"]["loss"] == list(range(30))
    assert read(api, job_id, attempt=2)["data"]["step"] == list(range(20, 25))
    assert read(api, job_id, attempt=3)["data"]["step"] == []
