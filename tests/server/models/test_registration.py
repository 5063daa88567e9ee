"""Versions of models: what they are made from, their numbers, files, deletion and restoration."""

import threading

import pytest
from sqlalchemy import func, select

from ampspec.api.models import FORMATS
from ampspec.jobs import State
from store.tables import AuditEntry, ModelVersion
from tests.databases import ON_SQLITE
from tests.server.models.conftest import MODELS
from tests.tables import every_row
from tests.trained_jobs import MODEL_BYTES, SIGNATURE
from tests.waiting import join

VERSIONS = f"{MODELS}/digits/versions"


@pytest.mark.quick
def test_a_version_has_the_files_lineage_and_metrics_of_its_job(api, register):
    version = register(
        metrics={"val_accuracy": 0.9, "val_loss": float("nan")},
        summary={"policy": "mixed_float16", "weights_digest": "d1", "final_loss": 0.25},
    )
    assert (version["model"], version["number"], version["aliases"]) == ("digits", 1, [])
    assert version["metrics"] == {"val_loss": "NaN", "val_accuracy": 0.9}
    assert version["signature"] == SIGNATURE
    assert [file["format"] for file in version["files"]] == list(FORMATS)
    states = {file["format"]: file["state"] for file in version["files"]}
    assert states == {
        **{"keras": "available", "safetensors": "available"},
        **{"saved_model": "not requested", "onnx": "not requested"},
    }
    assert all(file["reason"] for file in version["files"] if file["state"] != "available")
    lineage = version["lineage"]
    assert lineage["precision"]["policy"] == "mixed_float16"
    assert lineage["environment"]["tensorflow"] == "2.21.0"
    assert lineage["results"]["final_loss"] == 0.25
    assert api.client.get(f"{VERSIONS}/1").json() == version
    assert api.client.get(f"{VERSIONS}/latest").json() == version
    with api.database.read() as session:
        entry = session.scalars(select(AuditEntry).order_by(AuditEntry.id.desc())).first()
    assert (entry.action, entry.target) == ("model.register", "digits:1")


def test_lists_are_read_page_by_page(api, register):
    for name in ("c", "a", "b", "b", "b"):
        register(name)
    first = api.client.get(MODELS, params={"limit": 2}).json()
    assert [item["name"] for item in first["items"]] == ["a", "b"]
    assert first["items"][1]["newest"]["number"] == first["items"][1]["version_count"] == 3
    following = api.client.get(MODELS, params={"limit": 2, "cursor": first["next_cursor"]}).json()
    assert [item["name"] for item in following["items"]] == ["c"]
    assert following["next_cursor"] is None
    page = api.client.get(f"{MODELS}/b/versions", params={"limit": 2}).json()
    assert [item["number"] for item in page["items"]] == [3, 2]
    page = api.client.get(f"{MODELS}/b/versions", params={"cursor": page["next_cursor"]}).json()
    assert [item["number"] for item in page["items"]] == [1]


@ON_SQLITE
@every_row("state", [State.QUEUED, State.RUNNING, State.FAILED, State.CANCELLED])
def test_a_job_that_has_not_succeeded_is_refused(api, make_job, state):
    answer = api.client.post(VERSIONS, json={"job_id": make_job(state).id})
    assert answer.status_code == 409
    assert f"expected the state succeeded, received {state}" in answer.json()["detail"]
    assert api.client.get(f"{MODELS}/digits").status_code == 404


@ON_SQLITE
def test_a_job_without_a_stored_model_is_refused(api, trained_job):
    without = trained_job(files={})
    detail = api.client.post(VERSIONS, json={"job_id": without}).json()["detail"]
    assert "expected a model file among the model files of the job; it has none" in detail
    removed = trained_job()
    api.app.state.services.storage.remove(removed, ["attempt-1/model.keras"])
    answer = api.client.post(VERSIONS, json={"job_id": removed})
    assert answer.status_code == 409, answer.text
    assert "model.keras" in answer.json()["detail"]
    body = {"job_id": trained_job(), "file": "generator.keras"}
    answer = api.client.post(VERSIONS, json=body)
    assert answer.json()["detail"].endswith("it has model.keras.")


@ON_SQLITE
def test_a_job_of_another_project_is_answered_like_a_missing_one(trained_job, client_with_role):
    stranger = client_with_role(project="elsewhere")
    answer = stranger.post(VERSIONS, json={"job_id": trained_job()})
    assert answer.status_code == 404
    assert "There is no job" in answer.json()["detail"]


@ON_SQLITE
def test_the_second_model_file_has_the_metrics_of_the_best_evaluation(api, trained_job):
    job_id = trained_job(
        metrics={"val_accuracy": 0.8},
        files={"model.keras": b"last", "model-best.keras": b"best"},
        summary={
            "best_model_file": "model-best.keras",
            "best": {"metric": "val_accuracy", "metrics": {"val_accuracy": 0.9}},
        },
    )
    body = {"job_id": job_id, "file": "model-best.keras"}
    version = api.client.post(VERSIONS, json=body).json()
    assert version["metrics"] == {"val_accuracy": 0.9}
    files = {file["format"]: file for file in version["files"]}
    assert files["keras"]["file_name"] == "model-best.keras"
    assert (files["safetensors"]["state"], files["keras"]["size_bytes"]) == ("missing", 4)


@ON_SQLITE
def test_a_failed_conversion_keeps_its_reason(api, trained_job):
    reports = [
        {"format": "onnx", "state": "failed", "reason": "The operation Erfc is not supported."},
        {
            **{"format": "saved_model", "state": "available", "checked": "32 rows"},
            **{"max_difference": 1e-7, "tolerance": 1e-5},
        },
    ]
    job_id = trained_job(
        files={"model.keras": b"model", "model.saved_model.zip": b"zip"},
        exports={"model": "model.keras", "exports": reports},
    )
    version = api.client.post(VERSIONS, json={"job_id": job_id}).json()
    files = {file["format"]: file for file in version["files"]}
    assert files["onnx"]["reason"] == "The operation Erfc is not supported."
    assert (files["saved_model"]["checked"], files["saved_model"]["tolerance"]) == ("32 rows", 1e-5)
    answer = api.client.get(f"{VERSIONS}/1/files/onnx")
    assert answer.status_code == 404
    assert "The operation Erfc is not supported." in answer.json()["detail"]
    assert api.client.get(f"{VERSIONS}/1/files/saved_model").content == b"zip"


@pytest.mark.quick
def test_a_repeated_request_registers_one_version(api, trained_job):
    headers, body = {"Idempotency-Key": "once"}, {"job_id": trained_job()}
    first, second = (api.client.post(VERSIONS, json=body, headers=headers) for _ in range(2))
    assert first.json() == second.json()
    assert second.headers["Idempotency-Replayed"] == "true"
    third = api.client.post(VERSIONS, json=body)
    assert third.json()["number"] == 2


@pytest.mark.quick
def test_concurrent_registrations_get_different_numbers(api, trained_job):
    body, numbers = {"job_id": trained_job()}, []

    def register():
        numbers.append(api.client.post(VERSIONS, json=body).json()["number"])

    threads = [threading.Thread(target=register) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        join(thread)
    assert sorted(numbers) == [1, 2, 3, 4, 5, 6]


@pytest.mark.quick
def test_a_job_is_kept_while_a_version_is_made_from_it(api, register):
    version = register()
    job = f"/api/v1/jobs/{version['job_id']}"
    answer = api.client.delete(job)
    assert answer.status_code == 409
    assert "digits:1 was made from it" in answer.json()["detail"]
    answer = api.client.post("/api/v1/jobs/delete", params={"state": "succeeded"})
    assert answer.json() == {"ids": [], "more": False}
    assert api.client.delete(f"{VERSIONS}/1").status_code == 204
    assert api.client.delete(job).status_code == 204
    assert "ampctl job restore" in api.client.post(f"{VERSIONS}/1/undelete").json()["detail"]
    assert api.client.delete(f"{job}?permanent=true").status_code == 204
    restored = api.client.post(f"{VERSIONS}/1/undelete")
    assert restored.status_code == 409
    assert "was deleted, with its files" in restored.json()["detail"]
    deleted = api.client.get(f"{VERSIONS}/1").json()
    assert (deleted["job_id"], deleted["deleted_by"]) == (None, "test")


def test_jobs_of_deleted_versions_are_deleted_by_filter(api, register):
    version = register()
    api.client.delete(f"{VERSIONS}/1")
    answer = api.client.post("/api/v1/jobs/delete", params={"state": "succeeded"})
    assert answer.json()["ids"] == [version["job_id"]]


def test_a_number_is_never_used_again_and_a_deleted_version_can_be_restored(api, register):
    first = register()
    assert api.client.delete(f"{VERSIONS}/1").status_code == 204
    assert api.client.get(f"{MODELS}/digits").status_code == 404
    assert api.client.get(MODELS).json()["items"] == []
    assert api.client.delete(f"{VERSIONS}/1").status_code == 404
    listed = api.client.get(VERSIONS, params={"deleted": True}).json()["items"]
    assert [item["number"] for item in listed] == [1]
    assert register()["number"] == 2
    restored = api.client.post(f"{VERSIONS}/1/undelete")
    assert restored.json() == first
    assert api.client.post(f"{VERSIONS}/1/undelete").status_code == 409


def test_a_version_with_an_alias_is_not_deleted(api, register):
    register()
    register()
    api.client.put(f"{MODELS}/digits/aliases/champion", json={"version": 2})
    assert api.client.delete(f"{VERSIONS}/2").status_code == 409
    answer = api.client.delete(f"{MODELS}/digits")
    assert "it has the alias champion (digits:2)" in answer.json()["detail"]
    api.client.delete(f"{MODELS}/digits/aliases/champion")
    assert api.client.delete(f"{MODELS}/digits").status_code == 204
    with api.database.read() as session:
        statement = select(func.count()).where(ModelVersion.deleted_at.is_(None))
        assert session.scalar(statement) == 0


@pytest.mark.quick
@ON_SQLITE
def test_a_file_is_downloaded_by_number_and_alias_and_in_parts(api, register):
    version = register()
    api.client.put(f"{MODELS}/digits/aliases/champion", json={"version": 1})
    content = MODEL_BYTES + version["job_id"].encode()
    for reference in ("1", "champion", "latest"):
        answer = api.client.get(f"{VERSIONS}/{reference}/files/keras")
        assert answer.content == content
    assert answer.headers["ETag"] == f'"{version["files"][0]["sha256"]}"'
    part = api.client.get(f"{VERSIONS}/1/files/keras", headers={"Range": "bytes=100-199"})
    assert (part.status_code, part.content) == (206, content[100:200])
    assert api.client.get(f"{VERSIONS}/1/files/zip").status_code == 422


@ON_SQLITE
def test_notes_and_tags_change_and_files_do_not(api, register):
    version = register()
    body = {"note": "for the demo", "tags": {"team": "vision", "old": "x"}}
    assert api.client.patch(f"{VERSIONS}/1", json=body).json()["note"] == "for the demo"
    changed = api.client.patch(f"{VERSIONS}/1", json={"tags": {"old": None}}).json()
    assert (changed["note"], changed["tags"]) == ("for the demo", {"team": "vision"})
    assert changed["files"] == version["files"]
    answer = api.client.patch(f"{VERSIONS}/1", json={"files": []})
    assert answer.status_code == 422
    many = {f"tag {number}": "" for number in range(64)}
    assert api.client.patch(f"{VERSIONS}/1", json={"tags": many}).status_code == 409


@ON_SQLITE
@every_row(
    "reference", ["0", "777", "champion", "Champion", "-1", "99999999999999999999", "%00", "a/b"]
)
def test_a_version_that_does_not_exist_is_an_error(api, register, reference):
    register()
    assert api.client.get(f"{VERSIONS}/{reference}").status_code in (404, 422)
