"""Downsampled steps, and the key steps that are returned with them."""

import itertools
import math

import pytest

from ampspec.jobs import State
from server.background.compactor import Compactor
from store.jobs import attempts
from store.telemetry import ingest
from store.telemetry.key_steps import MAX_LISTED
from tests.databases import ON_SQLITE
from tests.tables import every_row

COUNT = 5000
SKIPS = [7, 1234, 1235, 4999]


@pytest.fixture
def append_blocks(api):
    def append(job_id, *blocks, attempt=1):
        with api.database.write() as session:
            assert ingest.append(session, job_id, attempt, blocks, entries_written=0)

    return append


def facts(step):
    """The columns of a step: the loss scale is halved after each skip."""
    scale = 2.0 ** (10 - sum(skip < step for skip in SKIPS))
    return {"loss_scale": scale, "skipped": step in SKIPS}


@pytest.fixture(params=["as they came", "merged"])
def job_id(request, api, append_blocks, make_job, make_block):
    """A job of 5,000 steps whose loss is the number of the step, in blocks of one scale."""
    job = make_job(State.RUNNING)
    bounds = sorted({0, *SKIPS, *(skip + 1 for skip in SKIPS), COUNT})
    append_blocks(
        job.id,
        *(
            make_block(first, end - first, **facts(first))
            for first, end in itertools.pairwise(bounds)
        ),
    )
    if request.param == "merged":
        with api.database.write() as session:
            attempts.mark_succeeded(session, job.id, 1, {})
        assert Compactor(api.database).compact()
    return job.id


def read(api, job_id, **query):
    answer = api.client.get(f"/api/v1/jobs/{job_id}/steps", params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_every_point_summarises_its_steps(api, job_id):
    steps = read(api, job_id, max_points=100, columns="loss,skipped")
    data, size = steps["data"], steps["steps_per_point"]
    assert list(data) == [
        "step",
        "count",
        "skipped",
        *(f"loss.{part}" for part in ("min", "max", "first", "last", "mean")),
    ]
    assert len(data["step"]) <= 100
    assert size >= COUNT / 100
    assert data["step"] == list(range(0, COUNT, size))
    assert sum(data["count"]) == COUNT
    for index, first in enumerate(data["step"]):
        inside = range(first, min(first + size, COUNT))
        assert data["count"][index] == len(inside)
        assert data["skipped"][index] == sum(skip in inside for skip in SKIPS)
        assert data["loss.min"][index] == data["loss.first"][index] == inside[0]
        assert data["loss.max"][index] == data["loss.last"][index] == inside[-1]
        assert data["loss.mean"][index] == pytest.approx(sum(inside) / len(inside))
    assert (steps["next"], steps["more"]) == (COUNT - 1, False)


def test_skipped_steps_and_scale_changes_are_listed_one_by_one(api, job_id):
    steps = read(api, job_id, max_points=2)
    assert steps["skipped_steps"] == {"total": 4, "steps": SKIPS}
    assert steps["scale_changes"] == {
        "total": 3,
        "step": [8, 1235, 1236],
        "before": [1024, 512, 256],
        "after": [512, 256, 128],
        "column": ["loss_scale"] * 3,
    }
    part = read(api, job_id, start=1235, end=1236, max_points=10)
    assert part["skipped_steps"]["steps"] == [1235]
    assert part["scale_changes"]["step"] == [1235]
    assert part["data"]["loss"] == [1235]
    assert part["steps_per_point"] == 1


def test_only_new_steps_are_returned(api, job_id):
    steps = read(api, job_id, after=1234, max_points=50)
    assert steps["data"]["step"][0] == 1235
    assert sum(steps["data"]["count"]) == COUNT - 1235
    assert steps["skipped_steps"] == {"total": 2, "steps": [1235, 4999]}
    nothing = read(api, job_id, after=steps["next"], max_points=50)
    assert (nothing["data"]["step"], nothing["next"]) == ([], COUNT - 1)
    assert nothing["skipped_steps"] == {"total": 0, "steps": []}


def test_few_steps_are_returned_one_by_one(api, job_id):
    steps = read(api, job_id, start=10, end=30, max_points=20, columns="loss")
    assert steps["data"] == {"step": list(range(10, 30)), "loss": list(range(10, 30))}
    assert steps["steps_per_point"] == 1


def test_only_the_first_skipped_steps_are_listed_and_all_are_counted(
    api, append_blocks, make_job, make_block
):
    job = make_job(State.RUNNING)
    append_blocks(job.id, make_block(0, MAX_LISTED + 500, skipped=True))
    steps = read(api, job.id, max_points=10)
    assert steps["skipped_steps"] == {
        "total": MAX_LISTED + 500,
        "steps": list(range(MAX_LISTED)),
    }
    assert sum(steps["data"]["skipped"]) == MAX_LISTED + 500


def test_non_finite_values_are_strings(api, append_blocks, make_job, make_block):
    job = make_job(State.RUNNING)
    append_blocks(job.id, make_block(0, 3, loss=math.nan), make_block(3, 3, loss=math.inf))
    data = read(api, job.id, max_points=2, columns="loss")["data"]
    assert data["loss.max"] == ["NaN", "Infinity"]
    assert data["loss.mean"] == ["NaN", "NaN"]


@ON_SQLITE
def test_a_job_without_steps_has_no_points(api, make_job):
    steps = read(api, make_job(State.RUNNING).id, max_points=10)
    assert (
        steps["data"]["step"],
        steps["next"],
        steps["attempts"],
    ) == ([], None, [])


def test_polling_reports_superseded_attempts(api, append_blocks, make_job, make_block):
    job = make_job(State.RUNNING)
    append_blocks(job.id, make_block(0, 30))
    assert read(api, job.id)["attempts"] == [{"attempt": 1, "start": 0, "end": 30}]
    with api.database.write() as session:
        attempts.requeue(session, job.id, 1)
        attempts.claim(session, job.id, "another-worker")
        attempts.mark_running(session, job.id, 2, total_steps=100, first_step=20)
    append_blocks(job.id, make_block(20, 15), attempt=2)
    assert read(api, job.id, after=29)["attempts"] == [
        {"attempt": 1, "start": 0, "end": 20},
        {"attempt": 2, "start": 20, "end": 35},
    ]


@ON_SQLITE
def test_a_known_etag_gets_304(api, append_blocks, make_job, make_block):
    job = make_job(State.RUNNING)
    append_blocks(job.id, make_block(0, 30))
    path = f"/api/v1/jobs/{job.id}/steps?max_points=5"
    tag = api.client.get(path).headers["etag"]
    again = api.client.get(path, headers={"If-None-Match": tag})
    assert (again.status_code, again.content) == (304, b"")
    assert api.client.get(f"{path}&start=3", headers={"If-None-Match": tag}).status_code == 200
    as_csv = {"If-None-Match": tag, "Accept": "text/csv"}
    assert api.client.get(path, headers=as_csv).status_code == 200
    with api.database.write() as session:
        ingest.append(session, job.id, 1, [make_block(30, 1)], entries_written=1)
    assert api.client.get(path, headers={"If-None-Match": tag}).status_code == 200


@pytest.fixture
def job_with_gap(api, append_blocks, make_job, make_block):
    """A job with a long gap in its steps."""
    job = make_job(State.RUNNING)
    append_blocks(job.id, make_block(0, 10), make_block(100_000, 10))
    return job.id


@every_row("form", ["json", "arrow", "csv", "ndjson", "parquet"])
def test_a_range_of_missing_steps_has_no_points(api, job_with_gap, form):
    query = {"start": 20, "end": 90_000, "max_points": 100, "format": form}
    answer = api.client.get(f"/api/v1/jobs/{job_with_gap}/steps", params=query)
    assert answer.status_code == 200, answer.text
    if form == "json":
        steps = answer.json()
        assert set(map(len, steps["data"].values())) == {0}
        assert (steps["next"], steps["skipped_steps"]["total"]) == (None, 0)


@ON_SQLITE
def test_max_points_and_limit_exclude_each_other(api, job_with_gap):
    answer = api.client.get(f"/api/v1/jobs/{job_with_gap}/steps?max_points=10&limit=5")
    assert answer.status_code == 422
    [error] = answer.json()["errors"]
    assert (error["pointer"], error["code"]) == ("/query/limit", "excluded")
