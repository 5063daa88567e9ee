"""The ranges of a job: samples of the latest attempt, and what a number format would do."""

import pytest

from ampspec.jobs import State
from ampspec.telemetry import Event, EventType
from ampspec.telemetry.ranges.range_samples import RangeSample
from store.telemetry import ingest
from tests.range_layers import GOOD, HOT

SCALE = 1024.0


def sampled(step, *layers, scale=SCALE):
    data = RangeSample(step, {"model": scale}, layers).to_json()
    return Event(EventType.RANGES, step, data)


def append(api, job_id, attempt, entries, written=0):
    with api.database.write() as session:
        assert ingest.append(session, job_id, attempt, entries, entries_written=written)


def get(api, job_id, **query):
    answer = api.client.get(f"/api/v1/jobs/{job_id}/ranges", params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.fixture
def job_id(api, make_job):
    job = make_job(State.RUNNING)
    entries = [sampled(step, GOOD, HOT) for step in (0, 1, 2, 8)]
    append(api, job.id, 1, [*entries, Event(EventType.EPOCH, 8, {"epoch": 0})])
    return job.id


def test_the_samples_come_with_the_report_of_the_format(api, job_id):
    found = get(api, job_id)
    assert found["steps"] == [0, 1, 2, 8]
    assert [one["step"] for one in found["samples"]] == [0, 1, 2, 8]
    report = found["report"]
    assert (report["number_format"], report["samples"]) == ("float16", 4)
    assert report["window"] == {"min_subnormal": -24, "min_normal": -14, "max": 15}
    assert report["layers"] == ["hot"]
    assert report["overrides"] == [{"layers": "^hot$", "dtype": "float32"}]
    worst = report["tensors"][0]
    assert (worst["layer"], worst["tensor"], worst["problem"]) == ("hot", "activations", "overflow")
    assert worst["overflow"] == 0.5
    assert report["scales"][0]["used_exponent"] == 10
    assert get(api, job_id, format="bfloat16")["report"]["layers"] == []


def test_samples_are_not_in_the_event_log(api, job_id):
    events = api.client.get(f"/api/v1/jobs/{job_id}/events").json()["items"]
    assert [event["type"] for event in events][-1] == "epoch"
    assert "ranges" not in [event["type"] for event in events]


def test_steps_are_chosen_evenly_with_the_last_one(api, job_id):
    found = get(api, job_id, max_samples=2)
    assert found["steps"] == [0, 1, 2, 8]
    assert [one["step"] for one in found["samples"]] == [1, 8]
    found = get(api, job_id, start=1, end=8)
    assert [one["step"] for one in found["samples"]] == [1, 2]


def test_a_later_attempt_replaces_the_sample_of_a_step(api, job_id, requeue):
    requeue(job_id)
    append(api, job_id, 2, [sampled(8, GOOD, scale=1.0)])
    last = get(api, job_id)["samples"][-1]
    assert (last["step"], last["scales"]) == (8, {"model": 1.0})
    assert [one["layer"] for one in last["layers"]] == ["good"]


@pytest.fixture
def requeue(api):
    """Ends the first attempt of a job; a worker begins the second."""

    def begin_again(job_id):
        with api.database.write() as session:
            session.connection().exec_driver_sql("UPDATE jobs SET attempt = 2, entries_written = 0")

    return begin_again


def test_a_damaged_sample_is_left_out(api, job_id):
    broken = sampled(9, GOOD).data
    broken["layers"][0]["activations"]["first_exponent"] = 10**6
    append(api, job_id, 1, [Event(EventType.RANGES, 9, broken)], written=5)
    found = get(api, job_id)
    assert [one["step"] for one in found["samples"]] == [0, 1, 2, 8]


def test_a_job_without_samples_has_no_report(api, make_job):
    found = get(api, make_job(State.RUNNING).id)
    assert found == {"steps": [], "samples": [], "report": None}


@pytest.mark.parametrize("query", [{"format": "int8"}, {"max_samples": 0}, {"start": -1}])
def test_invalid_parameters_are_refused(api, job_id, query):
    answer = api.client.get(f"/api/v1/jobs/{job_id}/ranges", params=query)
    assert answer.status_code == 422


def test_a_scale_at_which_a_step_was_skipped_is_never_advised(api, make_job):
    """Between the samples gradients may be larger than in them."""
    job = make_job(State.RUNNING)
    cause = {"diagnosis": "scale", "finite_below": 64.0}
    skipped = [
        Event(EventType.OVERFLOW, 3, {"scale_before": 128.0, "scale_after": 64.0, **cause}),
        Event(EventType.OVERFLOW, 4, {"scale_before": 2.0, "scale_after": 1.0}),  # no cause
        Event(EventType.OVERFLOW, 5, {"diagnosis": "data", "finite_below": None}),
    ]
    append(api, job.id, 1, [sampled(0, GOOD, scale=2.0**20), *skipped])
    report = get(api, job.id)["report"]
    [scale] = report["scales"]
    assert (scale["highest"], scale["finite_exponent"], scale["best_exponent"]) == (6, 6, 5)
    assert report["loss_scale"]["scale"] == 32.0
    assert "scales from 2^-10 to 2^6 do. At larger ones steps were skipped." in report["sentence"]
    # The skips of a run in float16 say nothing about another format.
    assert get(api, job.id, format="bfloat16")["report"]["scales"][0]["finite_exponent"] is None
