"""The routes of datasets: lists, versions, download, deletion."""

import hashlib
import io

import numpy as np
import pytest
from sqlalchemy import select

from ampspec.api.datasets import MAX_FILE_NAME_BYTES
from ampspec.jobs import State
from ampspec.references.dataset_reference import VersionReference
from server.datasets import references
from server.datasets.deletion import delete_versions
from store.access.audit import Actor
from store.tables import AuditEntry
from tests.databases import ON_SQLITE
from tests.tables import every_row

DATASETS = "/api/v1/datasets"
CONTENT = bytes(range(256)) * 100
CONTENT_FIELDS = {"columns", "preview", "options", "splits", "left_out"}


pytestmark = pytest.mark.usefixtures("_describe_in_this_process")


@pytest.fixture
def upload(api):
    def upload(name="birds", content=CONTENT, client=None, **parameters):
        answer = (client or api.client).put(
            f"{DATASETS}/{name}", content=content, params=parameters
        )
        assert answer.status_code == 201, answer.text
        return answer.json()

    return upload


def test_a_dataset_is_listed_with_its_newest_version(api, upload):
    upload(file="first.npz")
    newest = upload(content=b"second", file="second.npz")
    listed = {key: newest[key] for key in newest.keys() - CONTENT_FIELDS}
    assert len(listed) == len(newest) - len(CONTENT_FIELDS)
    [item] = api.client.get(DATASETS).json()["items"]
    assert item.pop("created_at").endswith("Z")
    assert item == {
        "name": "birds",
        "project": "default",
        "created_by": "test",
        "version_count": 2,
        "size_bytes": len(CONTENT) + 6,
        "newest": listed,
    }
    assert api.client.get(f"{DATASETS}/birds").json()["newest"] == listed
    assert (newest["number"], newest["file_name"], newest["state"]) == (
        2,
        "second.npz",
        "described",  # it is text
    )


def test_lists_are_read_page_by_page(api, upload):
    for name in ("c", "a", "b"):
        upload(name)
    upload("b", content=b"2")
    upload("b", content=b"3")
    first = api.client.get(DATASETS, params={"limit": 2}).json()
    assert [item["name"] for item in first["items"]] == ["a", "b"]
    after = {"limit": 2, "cursor": first["next_cursor"]}
    rest = api.client.get(DATASETS, params=after).json()
    assert ([item["name"] for item in rest["items"]], rest["next_cursor"]) == (["c"], None)
    page = api.client.get(f"{DATASETS}/b/versions", params={"limit": 2}).json()
    assert [item["number"] for item in page["items"]] == [3, 2]
    after = {"cursor": page["next_cursor"]}
    page = api.client.get(f"{DATASETS}/b/versions", params=after).json()
    assert ([item["number"] for item in page["items"]], page["next_cursor"]) == ([1], None)


@ON_SQLITE
def test_a_version_is_downloaded_whole_or_in_part(api, upload):
    upload(file="bïrds.npz")
    address = f"{DATASETS}/birds/versions/1/content"
    answer = api.client.get(address)
    assert answer.content == CONTENT
    assert answer.headers["etag"] == f'"{hashlib.sha256(CONTENT).hexdigest()}"'
    assert "b%C3%AFrds.npz" in answer.headers["content-disposition"]
    part = api.client.get(address, headers={"Range": "bytes=10-19"})
    assert (part.status_code, part.content) == (206, CONTENT[10:20])


@ON_SQLITE
def test_unknown_datasets_and_versions_are_not_found(api, upload):
    upload()
    for path in ("none", "none/versions", "birds/versions/2", "birds@1"):
        assert api.client.get(f"{DATASETS}/{path}").status_code in (404, 422), path
    assert api.client.get(f"{DATASETS}/birds/versions/2/content").status_code == 404
    assert api.client.delete(f"{DATASETS}/birds/versions/2").status_code == 404
    assert api.client.delete(f"{DATASETS}/none").status_code == 404


@ON_SQLITE
@every_row("name", ["Birds", "-x", ".", "..", "a" * 64, "%2e%2e%2fetc", "a%00b", "a b", "ü", "a@1"])
def test_hostile_names_are_refused(api, name):
    answer = api.client.put(f"{DATASETS}/{name}", content=b"x")
    assert answer.status_code in (404, 405, 422), answer.text
    assert not (api.data_dir / "artifacts" / "datasets").exists()


NAMES = ["../x", "a/b", "a\\b", ".hidden", "", "a\nb", "x" * 201, "鳥" * 67]


@ON_SQLITE
@every_row("file", NAMES)
def test_hostile_file_names_are_refused(api, file):
    answer = api.client.put(f"{DATASETS}/birds", content=b"x", params={"file": file})
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == "/query/file"


@ON_SQLITE
def test_a_file_name_of_the_most_bytes_is_accepted(api, upload):
    name = "鳥" * 65 + ".csv1"
    assert len(name.encode()) == MAX_FILE_NAME_BYTES
    assert upload(file=name)["file_name"] == name


@ON_SQLITE
def test_datasets_of_another_project_are_like_missing_ones(api, upload, client_with_role):
    stranger = client_with_role(project="elsewhere")
    upload()
    for path in ("", "/versions", "/versions/1", "/versions/1/content"):
        theirs = stranger.get(f"{DATASETS}/birds{path}")
        assert theirs.status_code == 404
        missing = stranger.get(f"{DATASETS}/other{path}").json()["detail"]
        assert theirs.json()["detail"] == missing.replace("other", "birds")
    assert stranger.get(DATASETS).json()["items"] == []
    assert stranger.delete(f"{DATASETS}/birds").status_code == 404
    assert stranger.get(DATASETS, params={"project": "default"}).status_code == 404
    upload(content=b"mine", client=stranger)
    assert stranger.get(f"{DATASETS}/birds/versions/1/content").content == b"mine"


@ON_SQLITE
def test_an_admin_names_another_project(api, upload, client_with_role):
    upload(client=client_with_role(project="vision"))
    assert api.client.get(f"{DATASETS}/birds").status_code == 404
    there = {"project": "vision"}
    assert api.client.get(f"{DATASETS}/birds", params=there).json()["project"] == "vision"
    assert api.client.delete(f"{DATASETS}/birds", params=there).status_code == 204


@ON_SQLITE
def test_a_deleted_version_disappears_with_its_file(api, upload):
    upload()
    upload(content=b"second")
    assert api.client.delete(f"{DATASETS}/birds/versions/1").status_code == 204
    assert api.client.get(f"{DATASETS}/birds/versions/1/content").status_code == 404
    api.app.state.file_remover.remove()
    stored = list((api.data_dir / "artifacts" / "datasets" / "default").iterdir())
    assert [file.read_bytes() for file in stored] == [b"second"]
    assert api.client.delete(f"{DATASETS}/birds").status_code == 204
    assert api.client.get(DATASETS).json()["items"] == []
    assert upload()["number"] == 3
    with api.database.read() as session:
        entries = session.scalars(select(AuditEntry).order_by(AuditEntry.id)).all()
        actions = [(entry.action, entry.target, entry.token_name) for entry in entries]
    assert actions == [
        ("dataset.upload", "birds@1", "test"),
        ("dataset.upload", "birds@2", "test"),
        ("dataset.delete", "birds@1", "test"),
        ("dataset.delete", "birds", "test"),
        ("dataset.upload", "birds@3", "test"),
    ]


def test_a_version_in_use_is_not_deleted(api, upload, make_job):
    upload()
    upload(content=b"second")
    job = make_job(State.RUNNING, name="my job", data={"kind": "npz", "dataset": "birds@1"})
    for path in ("birds", "birds/versions/1"):
        answer = api.client.delete(f"{DATASETS}/{path}")
        assert answer.status_code == 409
        assert f"Cannot delete birds@1: the job 'my job' ({job.id})" in answer.json()["detail"]
    assert api.client.delete(f"{DATASETS}/birds/versions/2").status_code == 204


@ON_SQLITE
def test_a_repeated_deletion_with_its_key_gets_the_same_response(api, upload):
    upload()
    for _ in range(2):
        answer = api.client.delete(f"{DATASETS}/birds", headers={"Idempotency-Key": "k"})
        assert answer.status_code == 204


SPEC = {"model": {"kind": "mlp"}, "data": {"kind": "npz", "dataset": "birds"}}


def spec_with(dataset):
    return {**SPEC, "data": {**SPEC["data"], "dataset": dataset}}


def archive(rows):
    file = io.BytesIO()
    np.savez(file, x=np.eye(rows), y=np.arange(rows) % 2)
    return file.getvalue()


@ON_SQLITE
def test_a_submitted_job_keeps_the_newest_version(api, upload):
    contents = [archive(rows) for rows in (200, 201, 202)]
    upload(content=contents[0])
    upload(content=contents[1])
    job = api.client.post("/api/v1/jobs", json=SPEC).json()
    assert job["spec"]["data"]["dataset"] == "birds@2"
    older = api.client.post("/api/v1/jobs", json=spec_with("birds@1")).json()
    assert older["spec"]["data"]["dataset"] == "birds@1"
    upload(content=contents[2])
    clone = api.client.post(f"/api/v1/jobs/{job['id']}/clone").json()
    assert clone["spec"]["data"]["dataset"] == "birds@2"
    changes = {"set": {"data.dataset": "birds"}}
    newer = api.client.post(f"/api/v1/jobs/{job['id']}/clone", json=changes).json()
    assert newer["spec"]["data"]["dataset"] == "birds@3"
    validated = api.client.post("/api/v1/jobs/validate", json=SPEC).json()
    assert validated["spec"]["data"]["dataset"] == "birds@3"


@ON_SQLITE
@pytest.mark.parametrize(
    ("dataset", "suggestion", "expected"),
    [
        ("brids", "birds", "a dataset of the project default (it has birds)"),
        ("birds@7", "birds@1", "a version of birds (the newest is birds@1)"),
        ("mnist", None, "a dataset of the project default (it has birds)"),
    ],
)
def test_an_unknown_dataset_is_a_problem_of_the_spec(*, api, upload, dataset, suggestion, expected):
    upload()
    for path in ("", "/validate"):
        answer = api.client.post(f"/api/v1/jobs{path}", json=spec_with(dataset))
        assert answer.status_code == 422
        [problem] = answer.json()["errors"]
        assert (problem["pointer"], problem["code"]) == ("/data/dataset", "no_such_dataset")
        assert (problem.get("suggestion"), problem["expected"]) == (suggestion, expected)


@ON_SQLITE
def test_a_dataset_of_another_project_is_unknown(api, upload, client_with_role):
    upload()
    answer = client_with_role(project="elsewhere").post("/api/v1/jobs", json=SPEC)
    assert answer.status_code == 422
    assert "it has none yet" in answer.text


def test_a_job_whose_version_is_deleted_during_its_submission_is_refused(api, upload, monkeypatch):
    upload()
    real_pin = references.pin_dataset

    def pin_then_delete(*arguments):
        pinned = real_pin(*arguments)
        with api.database.write() as session:
            actor = Actor("default", None, None, None, None)
            delete_versions(session, "default", VersionReference("birds"), actor)
        return pinned

    monkeypatch.setattr("server.submissions.submission.pin_dataset", pin_then_delete)
    answer = api.client.post("/api/v1/jobs", json=SPEC)
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == "/data/dataset"
    assert api.client.get("/api/v1/jobs").json()["items"] == []
