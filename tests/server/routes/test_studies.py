"""The routes of studies; their jobs and answers are tested in tests/server/studies."""

import base64

import pytest
from sqlalchemy import update

from ampspec.jobs import JobSpec
from store import studies, tables
from store.access import audit
from store.clock import now
from store.files import project_files
from store.files.project_files import FileKey
from store.tables import StudyJob
from tests.databases import ON_SQLITE
from tests.server.studies.conftest import StudyDriver
from tests.tables import every_row

STUDIES = "/api/v1/studies"
SPEC = {"model": {"kind": "mlp", "hidden": [8]}, "data": {"kind": "digits", "batch_size": 64}}
STUDY = {"kind": "precision", "spec": SPEC}


def pointers(response):
    return {one["pointer"]: one for one in response.json()["errors"]}


def test_a_study_is_created_once_for_one_idempotency_key(api):
    headers = {"Idempotency-Key": "one"}
    first = api.client.post(STUDIES, json=STUDY, headers=headers)
    again = api.client.post(STUDIES, json=STUDY, headers=headers)
    assert first.status_code == again.status_code == 201
    assert again.json() == first.json()
    assert again.headers["Idempotency-Replayed"] == "true"
    assert first.headers["Location"] == f"{STUDIES}/{first.json()['id']}"
    assert len(api.client.get(STUDIES).json()["items"]) == 1
    with api.database.read() as session:
        (entry,) = audit.page(session, limit=10)
    assert (entry.action, entry.target) == ("study.create", first.json()["id"])


@ON_SQLITE
@every_row(
    ("body", "pointer", "code"),
    [
        ([], "", "wrong_type"),
        ({"spec": SPEC}, "/kind", "unknown_kind"),
        ({**STUDY, "kind": "precison"}, "/kind", "unknown_kind"),
        ({**STUDY, "options": {"seeds": 1}}, "/options/seeds", "invalid_value"),
        ({**STUDY, "options": {"seed": 3}}, "/options/seed", "unknown_field"),
        ({**STUDY, "options": {"policies": ["float12"]}}, "/options/policies/0", "unknown_value"),
        ({**STUDY, "more": 1}, "/more", "unknown_field"),
        ({"kind": "precision"}, "/spec", "missing"),
        ({**STUDY, "spec": {**SPEC, "model": {"kind": "mpl"}}}, "/spec/model/kind", "unknown_kind"),
        ({**STUDY, "spec": {**SPEC, "labels": {str(n): "" for n in range(63)}}}, "/spec/labels",
         "invalid_value"),
        ({**STUDY, "spec": {**SPEC, "data": {"kind": "npz", "dataset": "none"}}},
         "/spec/data/dataset", "no_such_dataset"),
        ({**STUDY, "kind": "capacity", "options": {"max_batch": 12}}, "/options/max_batch",
         "invalid_value"),
    ],
)  # fmt: skip
@every_row("path", [STUDIES, f"{STUDIES}/estimate"])
def test_a_mistake_is_named_with_its_field(api, path, body, pointer, code):
    response = api.client.post(path, json=body)
    assert response.status_code == 422, response.text
    assert pointers(response)[pointer]["code"] == code
    assert api.client.get(STUDIES).json()["items"] == []


@ON_SQLITE
def test_an_estimate_names_the_jobs_and_queues_none(api):
    body = {**STUDY, "options": {"seeds": 4, "steps": 10}}
    found = api.client.post(f"{STUDIES}/estimate", json=body).json()
    assert found["policies"] == ["mixed_bfloat16", "mixed_float16"]
    assert (found["jobs"], found["steps"], found["train_s"]) == (12, 120, None)
    assert (found["more_jobs_possible"], found["jobs_at_most"]) == (False, 12)
    assert [job["key"] for job in found["planned"]][-1] == "mixed_float16/seed-3"
    assert api.client.get(STUDIES).json()["items"] == []
    assert api.client.get("/api/v1/jobs").json()["items"] == []


def test_an_estimate_uses_the_throughput_of_earlier_jobs_with_the_same_model_data_and_ranks(
    api, make_job
):
    from sqlalchemy import update

    from ampspec.jobs import State
    from store.tables import Job

    job = make_job(State.SUCCEEDED, **SPEC)
    make_job(State.SUCCEEDED, model={"kind": "mlp", "hidden": [9]})
    gang = make_job(State.SUCCEEDED, **{**SPEC, "runtime": {"devices": 2}})
    with api.database.write() as session:
        for one, speed in ((job, 640.0), (gang, 1280.0)):
            summary = {"median_examples_per_s": speed}
            session.execute(update(Job).where(Job.id == one.id).values(summary=summary))
    body = {**STUDY, "options": {"seeds": 2, "steps": 10, "policies": ["mixed_bfloat16"]}}
    found = api.client.post(f"{STUDIES}/estimate", json=body).json()
    assert found["train_s"] == 4 * 10 * 64 / 640.0


def test_a_list_has_pages_and_only_the_studies_of_the_project(api, client_with_role):
    ids = [api.client.post(STUDIES, json=STUDY).json()["id"] for _ in range(3)]
    other = client_with_role(project="other")
    theirs = other.post(STUDIES, json=STUDY).json()["id"]
    assert [one["id"] for one in other.get(STUDIES).json()["items"]] == [theirs]
    assert other.get(f"{STUDIES}/{ids[0]}").status_code == 404
    assert other.post(f"{STUDIES}/{ids[0]}/cancel").status_code == 404
    first = api.client.get(STUDIES, params={"limit": 3}).json()
    rest = api.client.get(STUDIES, params={"limit": 3, "cursor": first["next_cursor"]}).json()
    listed = [one["id"] for one in (*first["items"], *rest["items"])]
    assert listed == [theirs, *reversed(ids)]
    assert rest["next_cursor"] is None
    assert first["items"][1]["jobs_planned"] == 9
    wrong = api.client.get(STUDIES, params={"cursor": "x"})
    assert (wrong.status_code, list(pointers(wrong))) == (422, ["/query/cursor"])


@ON_SQLITE
def test_a_viewer_reads_studies_and_creates_and_cancels_none(api, client_with_role):
    study = api.client.post(STUDIES, json=STUDY).json()["id"]
    viewer = client_with_role("viewer")
    assert viewer.get(f"{STUDIES}/{study}").status_code == 200
    assert viewer.post(STUDIES, json=STUDY).status_code == 403
    assert viewer.post(f"{STUDIES}/{study}/cancel").status_code == 403
    assert viewer.delete(f"{STUDIES}/{study}").status_code == 403


@ON_SQLITE
def test_a_study_of_custom_code_needs_the_right(api, client_with_role):
    bundle = {"kind": "bundle", "bundle": f"sha256:{'0' * 64}", "build": "net:build"}
    body = {**STUDY, "spec": {**SPEC, "model": bundle}}
    response = client_with_role().post(STUDIES, json=body)
    assert (response.status_code, response.json()["code"]) == (403, "forbidden")


@ON_SQLITE
@pytest.mark.parametrize("loses", ["revoked", "expired", "scope"])
def test_a_study_of_custom_code_ends_when_its_token_has_lost_the_scope(
    api, client_with_role, loses
):
    """Before, a study queued jobs with custom code long after its token was revoked."""
    key = FileKey("default", "bundle", "0" * 64)
    with api.database.write() as session:
        project_files.add(
            session, key, path=project_files.storage_path(key), size_bytes=7, created_by="ada"
        )
    driver, coder = StudyDriver(api), client_with_role(scopes=["jobs:run-code"])
    bundle = {"kind": "bundle", "bundle": f"sha256:{'0' * 64}", "build": "net:build"}
    body = {**STUDY, "spec": {**SPEC, "model": bundle}}
    api.client.put("/api/v1/projects/default", json={"max_queued": 1})
    study = coder.post(STUDIES, json=body).json()["id"]
    driver.progress.advance(study)
    [job] = filter(None, driver.jobs(study).values())
    changes = {
        "revoked": {"revoked_at": now()},
        "expired": {"expires_at": now()},
        "scope": {"scopes": []},
    }
    with api.database.write() as session:
        token_id = session.get_one(tables.Study, study).token_id
        session.execute(
            update(tables.Token).where(tables.Token.id == token_id).values(changes[loses])
        )
    driver.succeed(job, val_accuracy=0.9)
    driver.progress.advance(study)
    driver.progress.advance(study)
    ended = driver.get(study)
    assert ended["state"] == "failed"
    assert "scope" in ended["message"]
    assert [key for key, job in driver.jobs(study).items() if job] == [
        key for key, found in driver.jobs(study).items() if found == job
    ]


@pytest.mark.parametrize(
    "position",
    [
        "0001-01-01T00:00:00+23:59 0123456789ab",
        "9999-12-31T23:59:59-23:59 0123456789ab",
        "2026-01-01T00:00:00 0123456789ab",
        "2026-01-01T00:00:00+00:00 \0",
    ],
)
def test_a_cursor_that_no_response_had_is_invalid(api, position):
    """The first two were a 500."""
    cursor = base64.urlsafe_b64encode(position.encode()).decode()
    wrong = api.client.get(STUDIES, params={"cursor": cursor})
    assert (wrong.status_code, list(pointers(wrong))) == (422, ["/query/cursor"])
    time = position.rpartition(" ")[0]
    of_files = base64.urlsafe_b64encode(f"{time} bundle \0".encode()).decode()
    wrong = api.client.get("/api/v1/files", params={"cursor": of_files})
    assert (wrong.status_code, list(pointers(wrong))) == (422, ["/query/cursor"])
    of_files = base64.urlsafe_b64encode(f"{time} bundle {'0' * 64}".encode()).decode()
    expected = 200 if time.startswith("2026") and "+" in time else 422
    assert api.client.get("/api/v1/files", params={"cursor": of_files}).status_code == expected


@ON_SQLITE
def test_unknown_studies_are_not_found(api):
    for path in ("none", "none/report", "0" * 12):
        assert api.client.get(f"{STUDIES}/{path}").status_code == 404
    assert api.client.post(f"{STUDIES}/none/cancel").status_code == 404


def test_a_study_is_deleted_once_it_has_ended_and_its_jobs_stay(api):
    driver = StudyDriver(api)
    api.client.put("/api/v1/projects/default", json={"max_queued": 1})
    study = api.client.post(STUDIES, json=STUDY).json()["id"]
    driver.progress.advance(study)
    [job] = filter(None, driver.jobs(study).values())
    refused = api.client.delete(f"{STUDIES}/{study}")
    assert (refused.status_code, refused.json()["code"]) == (409, "conflict")
    assert "received running. Cancel it first." in refused.json()["detail"]
    api.client.post(f"{STUDIES}/{study}/cancel")
    driver.progress.advance(study)
    headers = {"Idempotency-Key": "one"}
    for _ in range(2):
        assert api.client.delete(f"{STUDIES}/{study}", headers=headers).status_code == 204
    assert api.client.get(f"{STUDIES}/{study}").status_code == 404
    assert api.client.delete(f"{STUDIES}/{study}").status_code == 404
    assert api.client.get(STUDIES).json()["items"] == []
    kept = api.client.get(f"/api/v1/jobs/{job}").json()
    assert kept["labels"]["study"] == study
    assert [one["id"] for one in api.client.get("/api/v1/jobs").json()["items"]] == [job]
    with api.database.read() as session:
        entry, *_ = audit.page(session, limit=10)
        assert session.query(StudyJob).count() == 0
    assert (entry.action, entry.target) == ("study.delete", study)


def test_a_project_has_a_limited_number_of_unfinished_studies(api, monkeypatch):
    monkeypatch.setattr("store.studies.MAX_UNFINISHED", 2)
    body = {"kind": "precision", "spec": SPEC, "options": {"policies": ["mixed_bfloat16"]}}
    first = api.client.post(STUDIES, json=body).json()["id"]
    assert api.client.post(STUDIES, json=body).status_code == 201
    refused = api.client.post(STUDIES, json=body)
    assert (refused.status_code, refused.json()["code"]) == (429, "quota_exceeded")
    assert "2 studies that have not ended" in refused.json()["detail"]
    with api.database.write() as session:
        study = studies.lock(session, first, wait=True)
        studies.set_state(session, study, studies.CANCELLED)
    assert api.client.post(STUDIES, json=body).status_code == 201


def test_the_largest_search_is_planned_with_few_draws(api, monkeypatch):
    """Fails if each run is planned from all runs before it."""
    from optuna import Study

    draws, ask = [], Study.ask
    monkeypatch.setattr(Study, "ask", lambda *given: draws.append(1) or ask(*given))
    parses, parse = [], JobSpec.parse
    monkeypatch.setattr(JobSpec, "parse", lambda document: parses.append(1) or parse(document))
    rates = {"log_uniform": [1e-5, 0.1]}
    options = {"space": {"optimizer.learning_rate": rates}, "method": "random", "runs": 1000}
    body = {"kind": "search", "spec": SPEC, "options": options}
    estimate = api.client.post(f"{STUDIES}/estimate", json=body)
    assert (estimate.status_code, estimate.json()["jobs"]) == (200, 1000)
    assert len(draws) <= 2 * 1000 + 100
    assert len(parses) <= 6 * 1000 + 100
