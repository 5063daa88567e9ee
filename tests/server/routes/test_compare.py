"""Comparison of jobs: curves on one grid, and differences."""

import math
from dataclasses import replace

import pytest

from ampspec.jobs import State
from ampspec.telemetry import Event, EventType
from server.comparison.response import differences
from store.access.tokens import create
from store.jobs import attempts
from store.telemetry import ingest
from tests.databases import ON_SQLITE
from tests.tables import every_row

NO_JOB = "0" * 12


@pytest.fixture
def make_trained_job(api, make_job, make_block):
    """Create an ended job of `count` steps with one loss."""

    def make(count, loss, *, rate=100.0, summary=None, blocks=(), **spec):
        job = make_job(State.RUNNING, **spec)
        block = make_block(0, count, loss=loss, step_time_s=64 / rate) if count else None
        trained_blocks = [replace(block, totals={"median_examples_per_s": rate})] if block else []
        with api.database.write() as session:
            assert ingest.append(session, job.id, 1, [*trained_blocks, *blocks], entries_written=0)
            assert attempts.mark_succeeded(session, job.id, 1, summary or {})
        return job.id

    return make


def compare(api, *ids, status=200, **query):
    answer = api.client.get("/api/v1/compare", params={"jobs": ",".join(ids), **query})
    assert answer.status_code == status, answer.text
    return answer.json()


def test_all_jobs_are_downsampled_to_one_grid(api, make_trained_job):
    ids = make_trained_job(5000, 2.0), make_trained_job(1234, 1.0), make_trained_job(37, 1.0)
    found = compare(api, *ids, max_points=50, columns="loss")
    size = found["steps_per_point"]
    assert size >= 100
    assert [each["job"]["id"] for each in found["jobs"]] == list(ids)
    for each, count in zip(found["jobs"], (5000, 1234, 37), strict=True):
        data = each["data"]
        assert data["step"] == list(range(0, count, size))
        assert len(data["step"]) <= 50
        assert sum(data["count"]) == count
        assert set(data) == {
            *("step", "count", "skipped", "elapsed_s"),
            *(f"loss.{part}" for part in ("min", "max", "first", "last", "mean")),
        }
        assert data["elapsed_s"][-1] == pytest.approx(count * 0.64, rel=1e-5)
        assert data["elapsed_s"] == sorted(data["elapsed_s"])


def test_speedup_and_loss_drift_are_relative_to_the_baseline(api, make_trained_job):
    slow, fast = make_trained_job(1000, 2.0, rate=100.0), make_trained_job(1000, 2.5, rate=250.0)
    found = compare(api, slow, fast)
    assert found["baseline"] == slow
    assert [each["speedup"] for each in found["jobs"]] == [1.0, 2.5]
    assert [each["loss_drift"] for each in found["jobs"]] == [0.0, 0.25]
    found = compare(api, slow, fast, baseline=fast)
    assert [each["speedup"] for each in found["jobs"]] == [0.4, 1.0]
    assert [each["loss_drift"] for each in found["jobs"]] == pytest.approx([-0.2, 0.0])


def test_losses_are_compared_over_the_steps_that_both_jobs_have(api, make_trained_job, make_block):
    # The loss of the longer job falls to 0 only after the last step of the shorter one.
    short = make_trained_job(1000, 1.0)
    long = make_trained_job(1000, 3.0, blocks=[make_block(1000, 9000, loss=0.0)])
    assert compare(api, short, long)["jobs"][1]["loss_drift"] == 2.0


@pytest.mark.parametrize("loss", [math.nan, math.inf])
def test_a_non_finite_loss_has_no_drift(api, make_trained_job, loss):
    found = compare(api, make_trained_job(100, 1.0), make_trained_job(100, loss))
    assert found["jobs"][1]["loss_drift"] is None


def test_every_skipped_step_is_returned(api, make_trained_job, make_block):
    skips = [make_block(100 + i, 1, skipped=i % 7 == 3) for i in range(200)]
    found = compare(
        api, make_trained_job(100, 1.0, blocks=skips), make_trained_job(300, 1.0), max_points=2
    )
    skipped = [100 + i for i in range(200) if i % 7 == 3]
    assert found["jobs"][0]["skipped_steps"] == {"total": len(skipped), "steps": skipped}
    assert sum(found["jobs"][0]["data"]["skipped"]) == len(skipped)


def test_differences_of_specs_and_results_are_returned(api, make_trained_job):
    single = make_trained_job(
        10, 1.0, summary={"val_loss": 0.5}, precision={"policy": "float32"}, name="a"
    )
    mixed = make_trained_job(10, 1.0, precision={"policy": "mixed_bfloat16"}, name="b")
    found = compare(api, single, mixed)
    assert {each["pointer"]: each["values"] for each in found["spec"]} == {
        "/name": ["a", "b"],
        "/precision/policy": ["float32", "mixed_bfloat16"],
    }
    results = {each["name"]: each["values"] for each in found["results"]}
    assert results["state"] == ["succeeded", "succeeded"]
    assert results["val_loss"] == [0.5, None]
    assert results["median_examples_per_s"] == [100.0, 100.0]


def test_jobs_without_steps_can_be_compared(api, make_job):
    found = compare(api, make_job().id, make_job().id)
    assert [each["loss_drift"] for each in found["jobs"]] == [None, None]
    assert [each["speedup"] for each in found["jobs"]] == [None, None]
    assert [each["data"]["step"] for each in found["jobs"]] == [[], []]


def test_a_column_is_returned_for_the_jobs_that_have_it(api, make_trained_job, make_block):
    plain = make_trained_job(10, 1.0)
    gan = make_trained_job(0, 1.0, blocks=[make_block(0, 10, **{"loss/generator": 0.5})])
    found = compare(api, plain, gan, columns="loss/generator")
    assert "loss/generator.mean" not in found["jobs"][0]["data"]
    assert found["jobs"][1]["data"]["loss/generator.mean"] == [0.5] * 10


@ON_SQLITE
def test_an_unchanged_comparison_gets_304(api, make_trained_job, make_job):
    done, running = make_trained_job(10, 1.0), make_job(State.RUNNING)
    query = {"jobs": f"{done},{running.id}"}
    tag = api.client.get("/api/v1/compare", params=query).headers["ETag"]
    again = {"If-None-Match": tag}
    assert api.client.get("/api/v1/compare", params=query, headers=again).status_code == 304
    with api.database.write() as session:
        assert attempts.mark_succeeded(session, running.id, 1, {})
    assert api.client.get("/api/v1/compare", params=query, headers=again).status_code == 200


def test_comparing_a_job_that_is_unknown_or_not_visible_gets_404(api, make_trained_job, make_job):
    mine, foreign = make_trained_job(10, 1.0), make_job(project="vision").id
    with api.database.write() as session:
        secret = create(session, "member")
    headers = {"Authorization": f"Bearer {secret}"}
    for other in (foreign, NO_JOB, "nonsense"):
        params = {"jobs": f"{mine},{other}"}
        answer = api.client.get("/api/v1/compare", params=params, headers=headers)
        assert answer.status_code == 404
        assert other in answer.json()["detail"]


@ON_SQLITE
@every_row(
    ("query", "pointer"),
    [
        ({"jobs": "{a}"}, "/query/jobs"),
        ({"jobs": "{a},{a}"}, "/query/jobs"),
        ({"jobs": ",".join(f"{i:012x}" for i in range(101))}, "/query/jobs"),
        ({"jobs": "{a},{b}", "baseline": NO_JOB}, "/query/baseline"),
        ({"jobs": "{a},{b}", "columns": "los"}, "/query/columns"),
        ({"jobs": "{a},{b}", "max_points": "1"}, "/query/max_points"),
        ({"jobs": "{a},{b}", "by": "time"}, "/query/by"),
    ],
)
def test_invalid_parameters_are_reported_with_a_pointer(api, make_trained_job, query, pointer):
    ids = {"a": make_trained_job(10, 1.0), "b": make_trained_job(10, 1.0)}
    params = {name: value.format(**ids) for name, value in query.items()}
    answer = api.client.get("/api/v1/compare", params=params)
    assert answer.status_code == 422
    assert [error["pointer"] for error in answer.json()["errors"]] == [pointer]


def test_differences_are_listed_by_leaf():
    documents = [
        {"same": 1, "a": {"b": 1, "c": [1, 2]}, "only": {"x": 1}},
        {"same": 1, "a": {"b": 2, "c": [1, 2]}, "only": {}},
    ]
    assert differences(documents) == [
        ("/a/b", [1, 2]),
        ("/only/x", [1, None]),
        ("/only", [None, {}]),
    ]


def evaluation(step, **metrics):
    return Event(EventType.EVALUATION, step, metrics)


def test_validation_curves_and_final_metrics_of_all_jobs_are_compared(api, make_trained_job):
    started = Event(EventType.STARTED, None, {"steps_per_epoch": 10})
    evaluated = [evaluation(9, val_loss=0.5), evaluation(19, val_loss=math.nan, val_auc=0.75)]
    one = make_trained_job(20, 1.0, blocks=[started, *evaluated])
    other = make_trained_job(20, 1.0)
    found = compare(api, one, other, max_points=20)
    curves = [each["evaluations"] for each in found["jobs"]]
    assert curves[0] == {
        "step": [9, 19],
        "epoch": [0, 1],
        "val_loss": [0.5, "NaN"],
        "val_auc": ["NaN", 0.75],
        "elapsed_s": pytest.approx([6.4, 12.8]),
    }
    assert curves[1] == {"step": [], "epoch": [], "elapsed_s": []}
    results = {result["name"]: result["values"] for result in found["results"]}
    assert results["val_loss"] == ["NaN", None]
    assert results["val_auc"] == [0.75, None]
    assert results["val_accuracy"] == [None, None]


def test_the_policy_that_auto_chose_is_compared(api, make_job, make_trained_job):
    job = make_job(State.STARTING, precision={"policy": "auto"})
    start = {"total_steps": 10, "first_step": 0, "policy": "mixed_bfloat16"}
    with api.database.write() as session:
        attempts.mark_running(session, job.id, 1, **start)
    fallen_back = make_trained_job(10, 1.0, summary={"policy": "float32"})
    results = compare(api, job.id, fallen_back)["results"]
    assert results[1] == {"name": "policy", "values": ["mixed_bfloat16", "float32"]}


def test_long_validation_curves_are_thinned_out(api, make_trained_job):
    blocks = [evaluation(step, val_loss=1.0) for step in range(100)]
    ids = [make_trained_job(100, 1.0, blocks=blocks), make_trained_job(0, 1.0, blocks=blocks)]
    curves = [each["evaluations"] for each in compare(api, *ids, max_points=10)["jobs"]]
    assert [curve["step"] for curve in curves] == [list(range(9, 100, 10))] * 2
    assert curves[1]["elapsed_s"] == [0.0] * 10
