"""A step of a job is explained by a job of its own; its cost and answer are read here."""

import pytest

from ampspec.jobs import State
from ampspec.telemetry import Event, EventType
from store.files import artifacts
from store.files.artifacts import CHECKPOINT, StoredArtifact
from store.jobs import attempts, jobs
from store.tables import Job
from store.telemetry import ingest
from tests.databases import ON_SQLITE
from tests.tables import every_row

ANSWER = {"attribution": "data", "sentence": "The inputs are not finite.", "layers": []}


@pytest.fixture
def trained(api, make_job):
    """A succeeded job of 100 steps with a checkpoint after 60."""
    job = make_job(State.RUNNING, train={"steps": 100}, labels={"team": "vision"})
    with api.database.write() as session:
        name = "attempt-1/checkpoints/checkpoint-000001-step-60.safetensors"
        artifacts.add(session, job.id, 1, StoredArtifact(name, CHECKPOINT, 60, 1, "0" * 64))
        session.get(Job, job.id).step = 100
        attempts.mark_succeeded(session, job.id, 1, {"examples_per_s": 640.0})
    return job.id


def explain(api, job_id, **body):
    return api.client.post(f"/api/v1/jobs/{job_id}/explanations", json=body)


def get(api, job_id, rest="", **params):
    return api.client.get(f"/api/v1/jobs/{job_id}/explanations{rest}", params=params)


@ON_SQLITE
def test_an_explanation_is_a_queued_job_of_its_own(api, trained):
    answer = explain(api, trained, step=70)
    job = answer.json()
    assert answer.status_code == 201, answer.text
    assert answer.headers["Location"] == f"/api/v1/jobs/{job['id']}"
    assert (job["state"], job["explains"], job["explain_step"]) == ("queued", trained, 70)
    assert job["name"].startswith("step 70 of ")
    assert job["spec"]["train"]["steps"] == 100
    assert api.dispatcher.sent == [job["id"]]
    [entry] = api.client.get("/api/v1/audit").json()["items"]
    assert entry["action"] == "job.explain"


@ON_SQLITE
@pytest.mark.parametrize(("step", "first", "steps"), [(59, 0, 59), (60, 60, 0), (99, 60, 39)])
def test_the_cost_is_that_of_the_steps_after_the_nearest_earlier_checkpoint(
    api, trained, step, first, steps
):
    found = get(api, trained, "/cost", step=step).json()
    batch = api.client.get(f"/api/v1/jobs/{trained}").json()["spec"]["data"]["batch_size"]
    assert (found["first_step"], found["steps"]) == (first, steps)
    assert found["seconds"] == (steps * batch / 640 or None)


@ON_SQLITE
def test_an_explanation_is_read_with_its_answer_once_it_has_one(api, trained):
    job_id = explain(api, trained, step=70).json()["id"]
    found = get(api, trained, f"/{job_id}").json()
    assert (found["job"], found["step"], found["answer"]) == (job_id, 70, None)
    with api.database.write() as session:
        job = session.get(Job, job_id)
        job.state, job.attempt = State.RUNNING, 1
    with api.database.write() as session:
        ingest.append(
            session, job_id, 1, [Event(EventType.EXPLANATION, 70, ANSWER)], entries_written=0
        )
    assert get(api, trained, f"/{job_id}").json()["answer"] == ANSWER
    [listed] = get(api, trained).json()["items"]
    assert (listed["attribution"], listed["sentence"]) == ("data", ANSWER["sentence"])
    assert "answer" not in listed


def test_explanations_are_listed_by_step_the_newest_first(api, trained):
    made = [explain(api, trained, step=step).json()["id"] for step in (3, 4, 3)]
    assert [one["job"] for one in get(api, trained).json()["items"]] == made[::-1]
    assert [one["job"] for one in get(api, trained, step=3).json()["items"]] == [made[2], made[0]]


@ON_SQLITE
def test_a_step_that_is_not_stored_or_an_explanation_itself_is_refused(api, trained):
    late = explain(api, trained, step=100)
    assert late.status_code == 409
    assert "it has completed 100" in late.json()["detail"]
    own = explain(api, trained, step=1).json()["id"]
    assert "explains step 1 of job" in explain(api, own, step=0).json()["detail"]
    assert get(api, trained, "/cost", step=100).status_code == 409


@ON_SQLITE
@every_row("body", [{}, {"step": -1}, {"step": "3"}, {"step": 3, "more": 1}])
def test_an_invalid_step_is_refused(api, trained, body):
    assert explain(api, trained, **body).status_code == 422


@ON_SQLITE
def test_an_explanation_of_another_job_is_not_found(api, trained, make_job):
    other = make_job(State.QUEUED).id
    job_id = explain(api, trained, step=1).json()["id"]
    assert get(api, other, f"/{job_id}").status_code == 404
    assert get(api, trained, f"/{other}").status_code == 404


@ON_SQLITE
def test_other_projects_see_and_explain_nothing(api, trained, client_with_role):
    stranger = client_with_role("member", project="other")
    path = f"/api/v1/jobs/{trained}/explanations"
    assert stranger.post(path, json={"step": 1}).status_code == 404
    for rest in ("", "/cost?step=1"):
        assert stranger.get(path + rest).status_code == 404


@ON_SQLITE
def test_a_job_is_not_deleted_while_an_unfinished_one_explains_it(api, trained):
    job_id = explain(api, trained, step=70).json()["id"]
    refused = api.client.delete(f"/api/v1/jobs/{trained}")
    assert refused.status_code == 409
    assert job_id in refused.json()["detail"]
    with api.database.write() as session:
        assert jobs.request_cancel(session, job_id).state == State.CANCELLED
    assert api.client.delete(f"/api/v1/jobs/{trained}").status_code == 204


def test_explanations_are_listed_among_the_jobs_only_on_request(api, trained):
    made = {explain(api, trained, step=step).json()["id"] for step in (3, 4)}

    def listed(**query):
        found = api.client.get("/api/v1/jobs", params=query).json()["items"]
        return {job["id"] for job in found}

    assert listed() == listed(explanations=False) == {trained}
    assert listed(explanations=True) == {trained, *made}
    assert listed(explanations=True, state="queued") == made
    assert listed(sort="name", q="step 3") == set()


def test_pages_without_explanations_have_all_their_jobs(api, trained, make_job):
    explain(api, trained, step=3)
    other = make_job(State.QUEUED).id
    explain(api, trained, step=4)
    first = api.client.get("/api/v1/jobs", params={"limit": 1}).json()
    rest = {"limit": 1, "cursor": first["next_cursor"]}
    second = api.client.get("/api/v1/jobs", params=rest).json()
    assert [job["id"] for job in first["items"] + second["items"]] == [other, trained]
    refused = api.client.get("/api/v1/jobs", params={**rest, "explanations": True})
    assert refused.status_code == 422


@ON_SQLITE
def test_explanations_count_in_the_quota_of_queued_jobs(api, trained):
    api.client.put("/api/v1/projects/default", json={"max_queued": 1})
    assert explain(api, trained, step=3).status_code == 201
    refused = explain(api, trained, step=4)
    assert (refused.status_code, refused.json()["code"]) == (429, "quota_exceeded")
