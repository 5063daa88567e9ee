"""The routes of tracked runs, and what reads the steps of such a run."""

import base64
import io

import numpy as np
import pyarrow as pa
import pytest
from sqlalchemy import select

from ampspec.jobs import State
from ampspec.telemetry.steps import array_codec
from server.background.compactor import Compactor
from store.clock import from_now
from store.jobs import tracked_runs
from store.tables import AuditEntry, Job, LogRow
from store.telemetry import steps
from tests.tables import every_row


@pytest.fixture
def database_url(sqlite_url):
    """SQLite alone: the store has its own tests on both databases."""
    return sqlite_url


RUNS = "/api/v1/runs"
JOBS = "/api/v1/jobs"


@pytest.fixture
def run_id(api):
    body = {"name": "baseline", "precision": {"policy": "mixed_float16"}}
    return api.client.post(RUNS, json=body).json()["id"]


@pytest.fixture
def upload(api, run_id):
    def send(*entries, first_entry=0, **more):
        body = {"first_entry": first_entry, "entries": entries, **more}
        return api.client.post(f"{RUNS}/{run_id}/steps", json=body)

    return send


@pytest.fixture
def finish(api, run_id):
    def end(state="succeeded", entries=0, **more):
        body = {"state": state, "entries": entries, **more}
        return api.client.post(f"{RUNS}/{run_id}/finish", json=body)

    return end


def columns(first, count, **more):
    """Columns of steps whose loss is their number."""
    return {
        "type": "steps",
        "first_step": first,
        "columns": {"loss": [float(step) for step in range(first, first + count)], **more},
    }


def packed(first_step, **arrays):
    payload = array_codec.encode({name: np.asarray(one) for name, one in arrays.items()})
    return {
        "type": "steps",
        "first_step": first_step,
        "packed": base64.b64encode(payload).decode(),
    }


def stored(api, run_id):
    with api.database.read() as session:
        return steps.read(session, run_id, start=0, end=None, limit=100_000).block


def test_a_created_run_is_a_running_job(api):
    body = {
        "name": "baseline",
        "labels": {"team": "vision"},
        "precision": {"policy": "amp-fp16"},
        "model": {"kind": "resnet50"},
        "config": {"lr": 0.1},
    }
    answer = api.client.post(RUNS, json=body)
    job = answer.json()
    assert (answer.status_code, answer.headers["Location"]) == (201, f"{JOBS}/{job['id']}")
    assert {name: job[name] for name in ("source", "state", "policy", "model", "worker_id")} == {
        "source": "tracked",
        "state": "running",
        "policy": "amp-fp16",
        "model": "resnet50",
        "worker_id": None,
    }
    assert job["spec"] == {**body, "source": "tracked"}
    assert api.client.get(answer.headers["Location"]).json() == job
    assert api.dispatcher.sent == []


def test_a_job_of_a_worker_is_submitted(api, make_job):
    assert api.client.get(f"{JOBS}/{make_job().id}").json()["source"] == "submitted"


def test_a_repeated_creation_with_the_same_key_creates_one_run(api):
    key = {"Idempotency-Key": "k"}
    first, again = (api.client.post(RUNS, json={}, headers=key) for _ in range(2))
    assert (first.json(), again.headers["Idempotency-Replayed"]) == (again.json(), "true")
    assert len(api.client.get(JOBS).json()["items"]) == 1


@every_row(
    ("body", "pointer"),
    [
        ({"name": ""}, "/body/name"),
        ({"nam": "x"}, "/body/nam"),
        ({"precision": {"policy": "a b"}}, "/body/precision/policy"),
        ({"labels": {"k": 1}}, "/body/labels/k"),
        ({"source": "submitted"}, "/body/source"),
    ],
)
def test_an_invalid_description_is_refused(api, body, pointer):
    answer = api.client.post(RUNS, json=body)
    assert answer.status_code == 422
    assert [error["pointer"] for error in answer.json()["errors"]] == [pointer]


def test_uploaded_steps_are_read_like_those_of_a_job(api, run_id, upload):
    answer = upload(
        columns(0, 3, loss_scale=[1024, 1024, 512], skipped=[False, True, False], extra=[1, 2, 3]),
        total_steps=30,
    )
    status = {"entries": 1, "step": 3, "state": "running", "requested": None}
    assert answer.json() == {**status, "first_step": None}
    body = api.client.get(f"{JOBS}/{run_id}/steps").json()
    assert body["data"]["loss"] == [0.0, 1.0, 2.0]
    assert body["data"]["skipped"] == [False, True, False]
    assert body["data"]["extra"] == [1.0, 2.0, 3.0]
    assert not {"grad_norm", "learning_rate"} & set(body["data"])
    job = api.client.get(f"{JOBS}/{run_id}").json()
    assert (job["step"], job["progress"], job["summary"]["skipped"]) == (3, 0.1, 1)
    assert (job["latest"]["loss"], job["latest"]["loss_scale"]) == (2.0, 512.0)


def test_packed_steps_are_stored_bit_for_bit(api, run_id, upload):
    arrays = {
        "loss": np.asarray([0.1, np.nan, np.inf], np.float32),
        "skipped": np.asarray([False, True, False]),
        "examples": np.asarray([32, 32, 7], np.int32),
        "step_time_s": np.asarray([0.5, 0.25, 0.125], np.float32),
    }
    assert upload(packed(5, **arrays)).status_code == 200
    block = stored(api, run_id)
    assert block.first_step == 5
    assert block.names == ("loss", "loss_scale", "skipped", "step_time_s", "examples")
    for name, values in arrays.items():
        np.testing.assert_array_equal(block[name], values)


def test_non_finite_values_are_accepted_by_name(api, run_id, upload):
    upload({"type": "steps", "first_step": 0, "columns": {"loss": ["NaN", "-Infinity"]}})
    assert api.client.get(f"{JOBS}/{run_id}/steps").json()["data"]["loss"] == ["NaN", "-Infinity"]


def test_the_health_of_the_loss_scale_is_kept(api, run_id, upload):
    upload({**columns(0, 2), "scale_health": "steady"})
    upload(columns(2, 2), first_entry=1)
    summary = api.client.get(f"{JOBS}/{run_id}").json()["summary"]
    assert summary["scale_health"] == "steady"


def test_events_and_log_text_are_listed(api, run_id, upload):
    event = {"type": "event", "event": "epoch", "step": 9, "data": {"epoch": 0, "loss": "NaN"}}
    assert upload(event, {"type": "log", "text": "hello\n"}).json()["entries"] == 2
    found = api.client.get(f"{JOBS}/{run_id}/events").json()["items"]
    assert [(one["type"], one["step"]) for one in found] == [("state", 0), ("epoch", 9)]
    assert found[1]["data"] == event["data"]
    with api.database.read() as session:
        assert session.scalars(select(LogRow.text)).all() == ["hello\n"]


def test_a_repeated_upload_is_stored_once_and_answered_alike(api, run_id, upload):
    first, again = upload(columns(0, 4)), upload(columns(0, 4))
    assert first.json() == again.json()
    assert len(stored(api, run_id)) == 4


def test_an_upload_with_a_gap_is_a_conflict(upload):
    answer = upload(columns(0, 4), first_entry=3)
    assert (answer.status_code, answer.json()["code"]) == (409, "conflict")


def test_steps_that_are_stored_already_are_refused(upload):
    upload(columns(0, 4))
    answer = upload(columns(3, 1), first_entry=1)
    assert answer.status_code == 422
    [error] = answer.json()["errors"]
    assert error["pointer"] == "/body/entries/0/first_step"


def test_a_program_that_goes_on_from_an_earlier_step_begins_an_attempt(api, run_id, upload):
    upload(columns(0, 6))
    again = columns(4, 1)
    again["columns"]["loss"] = [40.0]
    answer = upload({"type": "attempt", "first_step": 4}, again, first_entry=1)
    assert (answer.json()["entries"], answer.json()["step"]) == (3, 5)
    page = f"{JOBS}/{run_id}/steps"
    assert api.client.get(page).json()["data"]["loss"] == [0.0, 1.0, 2.0, 3.0, 40.0]
    earlier = api.client.get(page, params={"attempt": 1}).json()["data"]["loss"]
    assert earlier == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    items = api.client.get(f"{JOBS}/{run_id}/attempts").json()["items"]
    assert [(item["first_step"], item["outcome"]) for item in items] == [(0, "replaced"), (4, None)]
    [event] = api.client.get(f"{JOBS}/{run_id}/events", params={"type": "resumed"}).json()["items"]
    assert "the steps from there to 5 are trained again" in event["data"]["sentence"]


def test_a_cancelled_run_is_told_to_stop_and_ends_as_cancelled(api, run_id, upload, finish):
    answer = api.client.post(f"{JOBS}/{run_id}/cancel")
    assert (answer.status_code, answer.json()["state"]) == (202, "stopping")
    assert upload().json()["requested"] == "cancel"
    assert finish("succeeded").json()["state"] == "cancelled"


def test_a_finished_run_has_its_results(api, run_id, upload, finish):
    upload(columns(0, 2))
    answer = finish(entries=1, summary={"val_loss": 0.5, "val_accuracy": 0.9})
    job = answer.json()
    assert (answer.status_code, job["state"], job["reason"]) == (200, "succeeded", None)
    assert (job["summary"]["val_loss"], job["summary"]["val_accuracy"]) == (0.5, 0.9)
    assert finish(entries=1).json() == api.client.get(f"{JOBS}/{run_id}").json()


def test_the_end_of_a_run_keeps_the_metrics_that_its_program_does_not_repeat(
    api, run_id, upload, finish
):
    metrics = {"val_loss": 0.9, "val_auc": 0.75}
    upload(columns(0, 2), {"type": "event", "event": "evaluation", "step": 1, "data": metrics})
    job = finish(entries=2, summary={"val_loss": 0.5}).json()
    assert job["metrics"] == {"val_loss": 0.5, "val_auc": 0.75}
    [listed] = api.client.get(f"{JOBS}?sort=-val_auc&metric=val_auc>0.7").json()["items"]
    assert listed["id"] == run_id


def test_a_failed_run_has_the_message_of_its_program(finish):
    job = finish("failed", message="ValueError: no data").json()
    assert (job["state"], job["reason"]) == ("failed", "run_failed")
    assert job["message"] == "ValueError: no data"


def test_a_run_that_has_ended_accepts_nothing(api, run_id, upload, finish):
    finish()
    for answer in (upload(columns(0, 1)), upload(), finish("failed")):
        assert (answer.status_code, answer.json()["code"]) == (409, "conflict")


def test_a_job_of_a_worker_accepts_no_uploads(api, make_job):
    job = make_job(State.RUNNING)
    for path, body in (("steps", {}), ("finish", {"state": "failed", "entries": 0})):
        answer = api.client.post(f"{RUNS}/{job.id}/{path}", json=body)
        assert answer.status_code == 409
        assert "a worker runs the job" in answer.json()["detail"]


@every_row(
    ("action", "body", "state"),
    [
        ("pause", None, "failed"),
        ("resume", None, "failed"),
        ("retry", None, "failed"),
        ("clone", None, "failed"),
        ("extend", {"epochs": 1}, "succeeded"),
    ],
)
def test_actions_that_need_a_worker_are_refused_with_a_sentence(
    *, api, run_id, finish, action, body, state
):
    finish(state)
    answer = api.client.post(f"{JOBS}/{run_id}/{action}", json=body)
    assert answer.status_code == 409
    assert "Tracked runs have no worker" in answer.json()["detail"]
    assert api.dispatcher.sent == []


def test_the_possible_actions_of_a_tracked_run_leave_out_those_of_workers(api, run_id):
    detail = api.client.delete(f"{JOBS}/{run_id}").json()["detail"]
    assert detail.endswith("Possible actions in this state: cancel, edit.")


def test_a_tracked_run_can_be_edited_listed_and_deleted(api, run_id, finish):
    assert api.client.patch(f"{JOBS}/{run_id}", json={"name": "new"}).json()["name"] == "new"
    [listed] = api.client.get(f"{JOBS}?fields=spec").json()["items"]
    assert (listed["id"], listed["source"], listed["loss_scale_mode"]) == (run_id, "tracked", None)
    finish()
    assert api.client.delete(f"{JOBS}/{run_id}").status_code == 204


def test_the_runs_of_other_projects_do_not_exist(api, run_id, client_with_role):
    stranger = client_with_role("member", "elsewhere")
    for path, body in (("steps", {}), ("finish", {"state": "failed", "entries": 0})):
        assert stranger.post(f"{RUNS}/{run_id}/{path}", json=body).status_code == 404
    assert stranger.post(RUNS, json={}).json()["project"] == "elsewhere"


def test_the_audit_log_names_who_created_and_finished_a_run(api, run_id, upload, finish):
    upload(columns(0, 1))
    finish(entries=1)
    with api.database.read() as session:
        rows = session.execute(select(AuditEntry.action, AuditEntry.target)).all()
    assert rows == [("run.create", run_id), ("run.finish", run_id)]


@pytest.mark.parametrize("state", ["failed", "cancelled"])
def test_an_ended_run_is_resumed_with_what_is_stored_of_it(api, run_id, upload, finish, state):
    upload(columns(0, 3))
    finish(state, entries=1)
    response = api.client.post(f"{RUNS}/{run_id}/resume")
    status = {"entries": 1, "step": 3, "state": "running", "requested": None}
    assert response.json() == {**status, "first_step": 0}
    job = api.client.get(f"{JOBS}/{run_id}").json()
    assert (job["reason"], job["message"], job["finished_at"]) == (None, None, None)
    assert upload(columns(3, 2), first_entry=1).json()["step"] == 5
    assert api.client.post(f"{RUNS}/{run_id}/resume").json()["entries"] == 2
    assert finish(entries=2).json()["state"] == "succeeded"
    with api.database.read() as session:
        actions = session.scalars(select(AuditEntry.action)).all()
    assert actions.count("run.resume") == 1  # the second request has changed nothing


def test_a_run_that_has_succeeded_is_not_resumed(api, run_id, finish):
    finish()
    response = api.client.post(f"{RUNS}/{run_id}/resume")
    assert (response.status_code, response.json()["code"]) == (409, "conflict")
    assert "has succeeded" in response.json()["detail"]


def test_a_run_is_resumed_within_the_quota(api, run_id, finish, monkeypatch):
    finish("failed")
    monkeypatch.setattr(tracked_runs, "MAX_RUNNING", 0)
    assert api.client.post(f"{RUNS}/{run_id}/resume").status_code == 429


def test_a_lost_run_continues(api, run_id, upload):
    upload(columns(0, 2))
    with api.database.write() as session:
        session.get_one(Job, run_id).lease_expires_at = from_now(-1)
    api.app.state.reconciler.expire()
    job = api.client.get(f"{JOBS}/{run_id}").json()
    assert (job["state"], job["reason"]) == ("failed", "run_lost")
    assert upload(columns(2, 2), first_entry=1).json()["state"] == "running"
    assert stored(api, run_id)["loss"].tolist() == [0.0, 1.0, 2.0, 3.0]


# ---- What reads steps


@pytest.fixture
def long_run(api, run_id, upload):
    """A run of 4000 steps in 40 blocks, half of them merged; step 1500 was skipped."""
    for entry, first in enumerate(range(0, 4000, 100)):
        if first == 2000:
            Compactor(api.database).compact()
        scale = np.where(np.arange(first, first + 100) <= 1500, 2048.0, 1024.0)
        answer = upload(
            packed(
                first,
                loss=np.arange(first, first + 100, dtype=np.float32),
                loss_scale=scale.astype(np.float32),
                skipped=np.arange(first, first + 100) == 1500,
                step_time_s=np.full(100, 0.01, np.float32),
                examples=np.full(100, 32, np.int32),
            ),
            first_entry=entry,
        )
        assert answer.status_code == 200
    return run_id


def test_downsampling_and_key_steps_work_on_a_tracked_run(api, long_run):
    path = f"{JOBS}/{long_run}/steps?max_points=100&columns=loss,loss_scale"
    body = api.client.get(path).json()
    assert body["skipped_steps"]["steps"] == [1500]
    assert sum(body["data"]["count"]) == 4000
    assert max(body["data"]["loss.max"]) == 3999.0


def test_arrow_and_tensorboard_exports_work_on_a_tracked_run(api, long_run):
    answer = api.client.get(f"{JOBS}/{long_run}/steps?format=arrow")
    table = pa.ipc.open_stream(io.BytesIO(answer.content)).read_all()
    assert table["loss"].to_pylist() == [float(step) for step in range(4000)]
    answer = api.client.get(f"{JOBS}/{long_run}/steps?format=tensorboard")
    assert answer.status_code == 200
    assert len(answer.content) > 4000


def test_the_event_stream_works_on_a_tracked_run(api, long_run, finish):
    finish(entries=40)
    text = api.client.get(f"{JOBS}/{long_run}/stream").text
    assert text.count("event: steps") >= 20
    assert '"state":"succeeded"' in text.replace(" ", "")


def test_a_tracked_run_is_compared_with_a_job(api, long_run, make_job, database):
    job = make_job(State.RUNNING)
    body = api.client.get(f"/api/v1/compare?jobs={job.id},{long_run}").json()
    differing = {one["pointer"]: one["values"] for one in body["spec"]}
    assert differing["/precision/policy"] == ["float32", "mixed_float16"]
    assert differing["/source"] == [None, "tracked"]
    assert max(body["jobs"][1]["data"]["loss.max"]) == 3999.0


def many_columns(first, entries, each):
    """Entries of one step, each with other columns, in the fewest bytes."""
    return [
        {
            "type": "steps",
            "first_step": number,
            "columns": {f"{number:x}z{column:x}": [0] for column in range(each)},
        }
        for number in range(first, first + entries)
    ]


def test_a_run_has_a_limited_number_of_different_columns(api, run_id, upload):
    refused = upload(*many_columns(0, 200, 60))
    assert refused.status_code == 422
    [problem] = refused.json()["errors"]
    assert problem["pointer"] == "/body/entries/4"
    assert problem["expected"] == "at most 256 different columns in a run"
    assert api.client.get(f"{JOBS}/{run_id}/steps").json()["data"]["step"] == []


def test_columns_of_earlier_uploads_count(api, run_id, upload):
    for number in range(4):
        sent = upload(*many_columns(number, 1, 60), first_entry=number)
        assert sent.status_code == 200
    assert upload(*many_columns(4, 1, 60), first_entry=4).status_code == 422
    known = {"0z0": [1.0], "3z3b": [2.0]}
    again = {"type": "steps", "first_step": 4, "columns": known}
    assert upload(again, first_entry=4).status_code == 200
    # 4 times 60, and those of every run.
    assert len(api.client.get(f"{JOBS}/{run_id}/steps").json()["data"]) == 4 * 60 + 6


def test_a_run_that_an_older_version_has_stored_with_any_number_of_columns_can_be_read(
    api, run_id, upload, monkeypatch
):
    monkeypatch.setattr("store.jobs.tracked_runs.MAX_COLUMNS", 100_000)
    assert upload(*many_columns(0, 200, 60)).status_code == 200
    for query in ("", "?max_points=10"):
        data = api.client.get(f"{JOBS}/{run_id}/steps{query}").json()["data"]
        assert len(data["step"]) == (10 if query else 200)
        names = {name.partition(".")[0] for name in data}
        assert steps.MAX_COLUMNS <= len(names) <= steps.MAX_COLUMNS + 8
