import re

import pytest

from ampcore.spec import State
from store import jobs

SPEC = {"model": {"kind": "mlp"}, "data": {"kind": "digits"}}
JOB_FIELDS = {
    *("id", "name", "state", "reason", "message", "attempt", "step", "total_steps", "progress"),
    *("policy", "model", "labels", "worker_id", "latest", "summary", "spec"),
    *("created_at", "started_at", "finished_at", "updated_at"),
}
MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")


def test_a_posted_job_is_stored_told_and_sent_to_the_workers(api):
    answer = api.client.post("/api/v1/jobs", json={**SPEC, "name": "first", "labels": {"a": "b"}})
    job = answer.json()
    assert answer.status_code == 201
    assert answer.headers["Location"] == f"/api/v1/jobs/{job['id']}"
    assert set(job) == JOB_FIELDS
    assert (job["name"], job["state"], job["step"]) == ("first", "queued", 0)
    assert job["total_steps"] is job["progress"] is job["latest"] is None
    assert job["labels"] == {"a": "b"}
    assert job["spec"]["data"]["batch_size"] == 128
    assert MOMENT.fullmatch(job["created_at"])
    assert api.wake.sent == [job["id"]]
    assert api.client.get(answer.headers["Location"]).json() == job


def test_a_job_is_committed_before_it_is_answered_or_sent(api, monkeypatch):
    found = []

    def look(job_id):
        with api.database.read() as session:
            found.append(jobs.get(session, job_id))

    monkeypatch.setattr(api.wake, "send", look)
    api.client.post("/api/v1/jobs", json=SPEC)
    assert len(found) == 1
    assert found[0] is not None


def test_a_job_posted_while_redis_is_gone_stays_queued(api):
    api.wake.gone = True
    answer = api.client.post("/api/v1/jobs", json=SPEC)
    assert answer.status_code == 201
    with api.database.read() as session:
        assert jobs.to_wake(session, quiet_s=3, limit=10) == [answer.json()["id"]]


def test_a_job_that_was_sent_is_noted(api):
    api.client.post("/api/v1/jobs", json=SPEC)
    with api.database.read() as session:
        assert jobs.to_wake(session, quiet_s=3, limit=10) == []


def test_every_mistake_in_a_spec_is_told_at_once(api):
    spec = {"modle": {}, "model": {"kind": "cnm"}, "data": {"kind": "digits", "batch_size": "9"}}
    for path in ("/api/v1/jobs", "/api/v1/jobs/validate"):
        answer = api.client.post(path, json=spec)
        assert answer.status_code == 422
        problem = answer.json()
        assert problem["code"] == "invalid_spec"
        errors = {error["pointer"]: error for error in problem["errors"]}
        assert errors["/modle"]["suggestion"] == "model"
        assert errors["/model/kind"]["suggestion"] == "cnn"
        assert errors["/data/batch_size"]["received"] == '"9"'
    assert api.client.get("/api/v1/jobs").json()["items"] == []
    assert api.wake.sent == []


def test_a_running_job_tells_how_far_it_is(api, make_job, make_block):
    from store import steps

    job = make_job(State.RUNNING)
    with api.database.write() as session:
        steps.append(session, job.id, 1, make_block(0, 25, loss=float("inf")))
    told = api.client.get(f"/api/v1/jobs/{job.id}").json()
    assert (told["state"], told["step"], told["total_steps"], told["progress"]) == (
        "running",
        25,
        100,
        0.25,
    )
    assert told["latest"]["loss"] == "Infinity"
    assert told["latest"]["skipped"] == 0
    assert told["worker_id"] == "some-worker"


def test_numbers_in_a_summary_that_json_cannot_write_are_strings(api, make_job):
    job = make_job(State.RUNNING)
    with api.database.write() as session:
        jobs.mark_succeeded(session, job.id, 1, {"final_loss": float("nan"), "steps": 3})
    summary = api.client.get(f"/api/v1/jobs/{job.id}").json()["summary"]
    assert (summary["final_loss"], summary["steps"]) == ("NaN", 3)


def test_a_failed_job_tells_why(api, make_job):
    job = api.client.get(f"/api/v1/jobs/{make_job(State.FAILED).id}").json()
    assert (job["reason"], job["message"]) == ("invalid_data", "The data is NaN.")


def test_pages_lead_to_every_job_once_the_newest_first(api, make_job):
    made = [make_job().id for _ in range(5)]
    seen, cursor = [], None
    while True:
        page = api.client.get(
            "/api/v1/jobs", params={"limit": 2} | ({"cursor": cursor} if cursor else {})
        ).json()
        seen += [job["id"] for job in page["items"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert sorted(seen) == sorted(made)


def test_a_list_can_be_of_some_states_only(api, make_job):
    queued, failed, _ = make_job(), make_job(State.FAILED), make_job(State.RUNNING)
    page = api.client.get("/api/v1/jobs?state=queued&state=failed").json()
    assert {job["id"] for job in page["items"]} == {queued.id, failed.id}


@pytest.mark.parametrize(
    "query",
    [
        "limit=0",
        "limit=101",
        "limit=ten",
        "state=asleep",
        "stat=queued",
        "cursor=x",
        "cursor=%00",
        "cursor=" + "A" * 40,
        "cursor=MDAwMS0wMS0wMVQwMDowMDowMCsxNDowMCBhYWFhYWFhYWFhYWE",  # in UTC before the year 1
    ],
)
def test_a_list_asked_for_wrongly_is_refused(api, query):
    answer = api.client.get(f"/api/v1/jobs?{query}")
    assert answer.status_code == 422
    problem = answer.json()
    assert problem["code"] == "invalid_request"
    assert problem["errors"][0]["pointer"].startswith(f"/query/{query.partition('=')[0]}")


@pytest.mark.parametrize(
    ("state", "status", "then"),
    [
        (State.QUEUED, 200, "cancelled"),
        (State.CANCELLED, 200, "cancelled"),
        (State.STARTING, 202, "stopping"),
        (State.RUNNING, 202, "stopping"),
        (State.STOPPING, 202, "stopping"),
        (State.SUCCEEDED, 409, "succeeded"),
        (State.FAILED, 409, "failed"),
    ],
    ids=str,
)
def test_cancel_answers_with_what_became_of_the_job(api, make_job, state, status, then):
    job_id = make_job(state).id
    answer = api.client.post(f"/api/v1/jobs/{job_id}/cancel")
    assert answer.status_code == status
    if status == 409:
        assert answer.json()["code"] == "conflict"
        assert then in answer.json()["detail"]
    else:
        assert answer.json()["state"] == then
    assert api.client.get(f"/api/v1/jobs/{job_id}").json()["state"] == then


@pytest.mark.parametrize("job_id", ["0123456789ab", "x", "%00", "a" * 500, "0123456789AB"])
@pytest.mark.parametrize("rest", ["", "/steps", "/events", "/cancel"])
def test_a_job_that_is_not_there_is_not_found(api, job_id, rest):
    method = "POST" if rest == "/cancel" else "GET"
    answer = api.client.request(method, f"/api/v1/jobs/{job_id}{rest}")
    assert answer.status_code == 404
    assert answer.json()["code"] == "not_found"
