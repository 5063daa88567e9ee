"""Requests that delete files, while the storage hangs: none of them waits for it."""

import hashlib
import threading

import numpy as np
import pytest

from ampcore.checkpoint.tensors import encode_tensors
from ampspec.jobs import State
from infra.folder_store import FolderStore
from server.background.file_remover import FileRemover
from store import leaders
from store.files import file_removals
from tests.waiting import DEADLINE_S

WEIGHTS = encode_tensors({"x": np.arange(4, dtype=np.float32)}, {})
WEIGHTS_PATH = f"/api/v1/files/weights/{hashlib.sha256(WEIGHTS).hexdigest()}"
DATASET = "/api/v1/datasets/birds"

pytestmark = pytest.mark.usefixtures("_describe_in_this_process")


@pytest.fixture
def database_url(sqlite_url):
    """SQLite alone: this is about the storage."""
    return sqlite_url


class HangingStore(FolderStore):
    """A folder whose files are deleted only once `may_go_on` is set."""

    def __init__(self, folder):
        super().__init__(folder)
        self.may_go_on = threading.Event()

    def remove(self, parts):
        """Wait, then delete a file."""
        assert self.may_go_on.wait(DEADLINE_S), "a request waited for the storage"
        super().remove(parts)

    def remove_all(self, parts):
        """Wait, then delete a folder."""
        assert self.may_go_on.wait(DEADLINE_S), "a request waited for the storage"
        super().remove_all(parts)


@pytest.fixture
def hanging_store(api, monkeypatch):
    store = HangingStore(api.data_dir / "artifacts")
    monkeypatch.setattr(api.app.state.services.storage, "_opened", store)
    yield store
    store.may_go_on.set()


def files_below(folder):
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


def test_requests_that_delete_files_do_not_wait_for_a_storage_that_hangs(
    api, make_job, hanging_store
):
    """Fails if a request deletes the files itself: each would hold a thread of the server."""
    artifacts = api.data_dir / "artifacts"
    jobs = [make_job(State.SUCCEEDED), make_job(State.FAILED)]
    for job in jobs:
        (artifacts / job.id).mkdir(parents=True)
        (artifacts / job.id / "model.keras").touch()
    assert api.client.put(DATASET, content=b"abc").status_code == 201  # its upload is removed, too
    begun = api.client.post(f"{DATASET}/uploads", json={"file": "a.npz", "size_bytes": 3})
    assert api.client.put(WEIGHTS_PATH, content=WEIGHTS).status_code == 201
    for path in (
        f"/api/v1/jobs/{jobs[0].id}?permanent=true",
        begun.headers["Location"],
        DATASET,
        WEIGHTS_PATH,
    ):
        assert api.client.delete(path).status_code == 204, path
    deleted = api.client.post("/api/v1/jobs/delete", params={"state": "failed", "permanent": True})
    assert deleted.json()["ids"] == [jobs[1].id]
    assert files_below(artifacts)
    hanging_store.may_go_on.set()
    api.app.state.file_remover.remove()
    assert files_below(artifacts) == []


def test_what_a_request_schedules_is_deleted_in_the_next_round(api, hanging_store):
    """Fails if the rounds of the server that leads delete files only once a minute."""
    services = api.app.state.services
    remover = FileRemover(api.database, services.storage, "leads")
    assert leaders.lead(api.database, leaders.BACKGROUND, "leads")
    hanging_store.may_go_on.set()
    remover._round()
    folders = [f"folder-{number}" for number in range(file_removals.BATCH + 1)]
    for name in folders:
        (api.data_dir / "artifacts" / name).mkdir(parents=True)
    with api.database.write() as session:
        for name in folders:
            file_removals.schedule_in_background(session, name)
    assert remover._round()  # another round follows at once
    assert not remover._round()
    assert not any((api.data_dir / "artifacts" / name).exists() for name in folders)


def test_a_server_that_does_not_lead_deletes_no_files(api, hanging_store):
    remover = FileRemover(api.database, api.app.state.services.storage, "follows")
    assert leaders.lead(api.database, leaders.BACKGROUND, "leads")
    with api.database.write() as session:
        file_removals.schedule_in_background(session, "folder")
    assert not remover._round()
    with api.database.read() as session:
        assert [removal.folder for removal in file_removals.due(session)] == ["folder"]
