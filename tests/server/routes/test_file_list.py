"""The routes that list files by their SHA-256 and delete them."""

import hashlib
import threading

import numpy as np
import pytest
from sqlalchemy import select, update

from ampcore.checkpoint.tensors import encode_tensors
from ampspec.jobs import State
from ampspec.references.stored_files import FileKind
from server.files.listing import MAX_JOBS
from store.clock import now
from store.files import project_files
from store.files.project_files import FileKey
from store.tables import AuditEntry, ProjectFile
from tests.databases import ON_SQLITE
from tests.tables import every_row
from tests.waiting import join

FILES = "/api/v1/files"


@pytest.fixture
def upload(api):
    """Uploads weights; returns their SHA-256."""

    def put(number):
        content = encode_tensors({"x": np.full(number, number, np.float32)}, {})
        sha256 = hashlib.sha256(content).hexdigest()
        answer = api.client.put(f"{FILES}/weights/{sha256}", content=content)
        assert answer.status_code == 201, answer.text
        return sha256

    return put


@pytest.fixture
def job_with(api, make_job):
    """A job that names weights."""

    def make(sha256, state=State.QUEUED, **parts):
        job = make_job(state, **parts)
        with api.database.write() as session:
            project_files.add_job_files(
                session, [(job.id, FileKey("default", FileKind.WEIGHTS, sha256))]
            )
        return job.id

    return make


def read(client, **parameters):
    answer = client.get(FILES, params=parameters)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_files_are_listed_newest_first_with_the_jobs_that_name_them(api, upload, job_with):
    assert read(api.client) == {"items": [], "next_cursor": None}
    first, second = upload(1), upload(2)
    job = job_with(first, name="mine")
    items = read(api.client)["items"]
    assert [item["sha256"] for item in items] == [second, first]
    assert (items[0]["job_count"], items[0]["jobs"]) == (0, [])
    assert items[1]["jobs"] == [{"id": job, "name": "mine", "state": "queued"}]
    assert (items[1]["kind"], items[1]["created_by"]) == ("weights", "test")
    assert items[1]["size_bytes"] > 0
    assert "contents" not in items[1]


def test_the_newest_jobs_are_listed_and_all_are_counted(api, upload, job_with):
    sha256 = upload(1)
    jobs = [job_with(sha256) for _ in range(MAX_JOBS + 2)]
    [item] = read(api.client)["items"]
    assert item["job_count"] == len(jobs)
    assert [job["id"] for job in item["jobs"]] == jobs[:1:-1]


@pytest.mark.parametrize("same_time", [False, True])
def test_pages_have_every_file_once(api, upload, same_time):
    every = {upload(number) for number in range(1, 6)}
    if same_time:
        with api.database.write() as session:
            session.execute(update(ProjectFile).values(created_at=now()))
    listed, cursor = [], None
    while cursor is not None or not listed:
        page = read(api.client, limit=2, **({"cursor": cursor} if cursor else {}))
        listed += [item["sha256"] for item in page["items"]]
        cursor = page["next_cursor"]
    assert (len(listed), set(listed)) == (5, every)


def test_a_list_has_the_files_of_one_kind_and_project(api, upload, client_with_role):
    upload(1)
    assert read(api.client, kind="bundle")["items"] == []
    assert len(read(api.client, kind="weights")["items"]) == 1
    assert read(client_with_role(project="elsewhere"))["items"] == []


@ON_SQLITE
@every_row("cursor", ["", "x", "AAAA", "MjAyNiB3ZWlnaHRzIGFi", "ü"])
def test_a_malformed_cursor_is_refused(api, cursor):
    answer = api.client.get(FILES, params={"cursor": cursor})
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, "/query/cursor")


@ON_SQLITE
def test_a_file_is_deleted_with_its_content(api, upload):
    path = f"{FILES}/weights/{upload(1)}"
    folder = api.data_dir / "artifacts" / project_files.STORAGE_FOLDER
    assert any(one.is_file() for one in folder.rglob("*"))
    key = {"Idempotency-Key": "a"}
    answers = [api.client.delete(path, headers=key) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [204, 204]
    assert api.client.delete(path).status_code == 404
    api.app.state.file_remover.remove()
    assert not any(one.is_file() for one in folder.rglob("*"))
    with api.database.read() as session:
        entry = session.scalars(select(AuditEntry).where(AuditEntry.action == "file.delete")).one()
        assert (entry.target, entry.data) == (path.rpartition("/")[2], {"kind": "weights"})


def test_a_file_that_a_job_names_is_not_deleted(api, upload, job_with):
    sha256 = upload(1)
    job = job_with(sha256, State.CANCELLED, name="mine")
    answer = api.client.delete(f"{FILES}/weights/{sha256}")
    assert (answer.status_code, answer.json()["code"]) == (409, "conflict")
    assert f"1 job names it: 'mine' ({job}, cancelled)" in answer.json()["detail"]
    assert api.client.delete(f"/api/v1/jobs/{job}").status_code == 204
    answer = api.client.delete(f"{FILES}/weights/{sha256}")
    assert f"1 job names it: 'mine' ({job}, in the trash)" in answer.json()["detail"]
    assert api.client.delete(f"/api/v1/jobs/{job}?permanent=true").status_code == 204
    assert api.client.delete(f"{FILES}/weights/{sha256}").status_code == 204


@ON_SQLITE
def test_only_members_of_the_project_delete_its_files(api, upload, client_with_role):
    path = f"{FILES}/weights/{upload(1)}"
    assert client_with_role(project="elsewhere").delete(path).status_code == 404
    assert client_with_role(role="viewer").delete(path).status_code == 403
    assert api.client.head(path).status_code == 200


def test_a_job_is_submitted_with_a_file_or_the_file_is_deleted(api, upload):
    spec = {"model": {"kind": "mlp"}, "data": {"kind": "digits"}}
    for number in range(1, 6):
        sha256 = upload(number)
        start, statuses = threading.Barrier(2), {}

        def submit(sha256=sha256, start=start, statuses=statuses):
            start.wait()
            body = spec | {"init": {"weights": f"sha256:{sha256}"}}
            statuses["submit"] = api.client.post("/api/v1/jobs", json=body).status_code

        def delete(sha256=sha256, start=start, statuses=statuses):
            start.wait()
            statuses["delete"] = api.client.delete(f"{FILES}/weights/{sha256}").status_code

        threads = [threading.Thread(target=work) for work in (submit, delete)]
        for thread in threads:
            thread.start()
        for thread in threads:
            join(thread)
        assert statuses in ({"submit": 201, "delete": 409}, {"submit": 422, "delete": 204})
