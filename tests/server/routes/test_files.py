"""The routes of files: upload once, look up, download, and the deletion of unused ones."""

import hashlib
import threading

import numpy as np
import pytest
from sqlalchemy import func, select, update

from ampcore.checkpoint.tensors import encode_tensors
from server.background import cleanup
from server.files.file_store import MAX_BYTES
from store.access import projects
from store.clock import from_now
from store.files import project_files
from store.tables import AuditEntry, FileRemoval, ProjectFile
from tests.databases import ON_SQLITE
from tests.tables import every_row
from tests.waiting import join

CONTENT = encode_tensors({"x": np.arange(640_000, dtype=np.float32)}, {})
SHA256 = hashlib.sha256(CONTENT).hexdigest()
WEIGHTS = f"/api/v1/files/weights/{SHA256}"


@pytest.fixture
def stored_contents(api):
    """The contents of all files in the storage folder."""

    def read():
        folder = api.data_dir / "artifacts" / project_files.STORAGE_FOLDER
        return [path.read_bytes() for path in folder.rglob("*") if path.is_file()]

    return read


@ON_SQLITE
def test_a_file_is_stored_once(api, stored_contents):
    assert api.client.get(WEIGHTS).status_code == 404
    first, again = (api.client.put(WEIGHTS, content=CONTENT) for _ in range(2))
    assert (first.status_code, again.status_code) == (201, 200), first.text
    assert first.json() == again.json() == api.client.get(WEIGHTS).json()
    assert (first.json()["kind"], first.json()["sha256"]) == ("weights", SHA256)
    assert (first.json()["size_bytes"], first.json()["created_by"]) == (len(CONTENT), "test")
    assert stored_contents() == [CONTENT]
    assert list((api.data_dir / "uploads").iterdir()) == []
    with api.database.read() as session:
        entry = session.scalars(select(AuditEntry).where(AuditEntry.action == "file.upload")).one()
        assert (entry.target, entry.data["kind"]) == (SHA256, "weights")


@ON_SQLITE
def test_head_tells_whether_the_project_has_a_file(api, client_with_role):
    assert api.client.head(WEIGHTS).status_code == 404
    api.client.put(WEIGHTS, content=CONTENT)
    assert api.client.head(WEIGHTS).status_code == 200
    assert client_with_role(project="elsewhere").head(WEIGHTS).status_code == 404
    assert api.client.head(f"/api/v1/files/bundle/{SHA256}").status_code == 404


@ON_SQLITE
def test_a_bundle_needs_the_right_to_run_code(api, client_with_role):
    path = f"/api/v1/files/bundle/{SHA256}"
    answer = client_with_role().put(path, content=CONTENT)
    assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
    assert "--scope jobs:run-code" in answer.json()["detail"]


@ON_SQLITE
def test_a_file_is_downloaded_in_whole_and_in_part(api):
    api.client.put(WEIGHTS, content=CONTENT)
    whole = api.client.get(f"{WEIGHTS}/content")
    assert (whole.content, whole.headers["ETag"]) == (CONTENT, f'"{SHA256}"')
    assert f"{SHA256[:12]}.safetensors" in whole.headers["Content-Disposition"]
    part = api.client.get(f"{WEIGHTS}/content", headers={"Range": "bytes=5-9"})
    assert (part.status_code, part.content) == (206, CONTENT[5:10])


@ON_SQLITE
def test_other_bytes_than_announced_are_refused(api, stored_contents):
    answer = api.client.put(WEIGHTS, content=b"x")
    assert answer.status_code == 422
    [problem] = answer.json()["errors"]
    assert (problem["pointer"], problem["code"]) == ("/sha256", "digest_mismatch")
    assert stored_contents() == list((api.data_dir / "uploads").iterdir()) == []


@ON_SQLITE
@every_row(
    "path", ["weights/xyz", f"weights/{SHA256.upper()}", f"model/{SHA256}", f"weights/{SHA256}0"]
)
def test_invalid_names_are_refused(api, path):
    assert api.client.put(f"/api/v1/files/{path}", content=b"x").status_code == 422


@ON_SQLITE
def test_a_body_of_unknown_length_is_refused(api):
    answer = api.client.put(WEIGHTS, content=iter([b"a", b"b"]))
    assert (answer.status_code, answer.json()["code"]) == (411, "length_required")


@ON_SQLITE
@pytest.mark.parametrize("kind", MAX_BYTES)
def test_each_kind_has_a_maximum_size(api, kind, monkeypatch):
    monkeypatch.setitem(MAX_BYTES, kind, len(CONTENT) - 1)
    answer = api.client.put(f"/api/v1/files/{kind}/{SHA256}", content=CONTENT)
    assert (answer.status_code, answer.json()["code"]) == (413, "payload_too_large")
    assert str(len(CONTENT) - 1) in answer.json()["detail"]


@ON_SQLITE
def test_the_quota_is_enforced_before_and_after_the_bytes_arrive(api, stored_contents):
    with api.database.write() as session:
        projects.update(session, "default", {"max_dataset_bytes": len(CONTENT) - 1})
    answer = api.client.put(WEIGHTS, content=CONTENT)
    assert (answer.status_code, answer.json()["code"]) == (413, "dataset_quota_exceeded")
    uploads = api.app.state.services.file_store
    uploads.check_size = lambda key, size_bytes: None  # another upload used the bytes meanwhile
    answer = api.client.put(WEIGHTS, content=CONTENT)
    assert (answer.status_code, answer.json()["code"]) == (413, "dataset_quota_exceeded")
    assert stored_contents() == []


def test_concurrent_uploads_of_the_same_bytes_make_one_file(api, stored_contents):
    statuses = []
    start = threading.Barrier(3)

    def upload():
        start.wait()
        statuses.append(api.client.put(WEIGHTS, content=CONTENT).status_code)

    threads = [threading.Thread(target=upload) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        join(thread)
    assert sorted(statuses)[-1] == 201
    assert set(statuses) <= {200, 201}
    assert stored_contents() == [CONTENT]


@ON_SQLITE
def test_an_unused_file_and_its_content_are_deleted(api, stored_contents):
    api.client.put(WEIGHTS, content=CONTENT)
    storage = api.app.state.services.storage
    cleanup.delete_unused_files(api.database, storage)
    assert stored_contents() == [CONTENT]
    with api.database.write() as session:
        session.execute(
            update(ProjectFile).values(last_used_at=from_now(-project_files.UNUSED_S - 60))
        )
    cleanup.delete_unused_files(api.database, storage)
    assert stored_contents() == []
    assert api.client.head(WEIGHTS).status_code == 404
    with api.database.read() as session:  # only the removal for the case that the server dies
        assert session.scalar(select(func.count()).select_from(FileRemoval)) == 1


@ON_SQLITE
def test_weights_in_another_format_are_refused(api, stored_contents):
    for content in (b"a pickle", CONTENT[:-1]):
        path = f"/api/v1/files/weights/{hashlib.sha256(content).hexdigest()}"
        answer = api.client.put(path, content=content)
        assert answer.status_code == 422, answer.text
        assert answer.json()["errors"][0]["code"] == "not_safetensors"
    assert stored_contents() == []
