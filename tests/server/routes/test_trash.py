import pytest
from sqlalchemy import update

from ampspec.jobs import State
from store.access import audit
from store.clock import from_now
from store.tables import Job
from tests.tables import every_row

JOBS = "/api/v1/jobs"


@pytest.fixture
def database_url(sqlite_url):
    """SQLite alone: the store has its own tests on both databases."""
    return sqlite_url


@pytest.fixture
def job(api, make_job):
    """A job that has ended, with a file."""
    job = make_job(State.SUCCEEDED, name="birds")
    folder = api.data_dir / "artifacts" / job.id
    folder.mkdir(parents=True)
    (folder / "model.keras").touch()
    return job


def has_files(api, job):
    api.app.state.file_remover.remove()
    return (api.data_dir / "artifacts" / job.id).exists()


def listed(api, query=""):
    return [job["id"] for job in api.client.get(f"{JOBS}{query}").json()["items"]]


def test_a_deleted_job_can_be_restored_with_all_that_it_has(api, job, database):
    shown = api.client.get(f"{JOBS}/{job.id}").json()
    assert api.client.delete(f"{JOBS}/{job.id}").status_code == 204
    answer = api.client.get(f"{JOBS}/{job.id}")
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
    assert f"ampctl job restore {job.id}" in answer.json()["detail"]
    assert api.client.delete(f"{JOBS}/{job.id}").status_code == 404
    for query in ("", f"?id={job.id}", "?q=birds", "?state=succeeded"):
        assert listed(api, query) == []
    [trashed] = api.client.get(f"{JOBS}?trash=true").json()["items"]
    assert trashed["id"] == job.id
    assert trashed["purge_at"] is not None
    api.app.state.retention_runner.empty_trash()
    assert has_files(api, job)
    for _ in range(2):
        restored = api.client.post(f"{JOBS}/{job.id}/restore")
        assert restored.status_code == 200
    moments = {"updated_at": restored.json()["updated_at"]}
    assert restored.json() == {**shown, **moments} == api.client.get(f"{JOBS}/{job.id}").json()
    assert (listed(api), listed(api, "?trash=true")) == ([job.id], [])
    with database.read() as session:
        actions = [(entry.action, entry.target) for entry in audit.page(session, limit=10)]
    assert actions == [("job.restore", job.id), ("job.delete", job.id)]


def test_after_its_time_in_the_trash_a_job_is_deleted_with_its_files(api, job, database):
    assert api.client.post(f"{JOBS}/delete?state=succeeded").json()["ids"] == [job.id]
    with database.write() as session:
        session.execute(update(Job).values(purge_at=from_now(-1)))
    api.app.state.retention_runner.empty_trash()
    assert not has_files(api, job)
    assert api.client.post(f"{JOBS}/{job.id}/restore").status_code == 404


@every_row(
    ("trash_s", "query", "by_filter"),
    [
        (0.0, "", False),
        (0.0, "", True),
        (60.0, "permanent=true", False),
        (60.0, "permanent=true", True),
    ],
)
def test_a_job_is_deleted_at_once_if_asked_for(api, make_job, trash_s, query, by_filter):
    job = make_job(State.SUCCEEDED)
    object.__setattr__(api.app.state.services, "trash_s", trash_s)
    if by_filter:
        api.client.post(f"{JOBS}/delete?q={job.id}&{query}")
    else:
        api.client.delete(f"{JOBS}/{job.id}?{query}")
    assert listed(api, "?trash=true") == []
    assert api.client.post(f"{JOBS}/{job.id}/restore").status_code == 404


def test_a_job_in_the_trash_is_deleted_for_good_or_kept_from_others(api, job, client_with_role):
    api.client.delete(f"{JOBS}/{job.id}")
    stranger = client_with_role(project="elsewhere")
    assert stranger.post(f"{JOBS}/{job.id}/restore").json()["detail"].startswith("There is no job")
    assert stranger.delete(f"{JOBS}/{job.id}?permanent=true").status_code == 404
    assert client_with_role(role="viewer").post(f"{JOBS}/{job.id}/restore").status_code == 403
    assert api.client.delete(f"{JOBS}/{job.id}?permanent=true").status_code == 204
    assert not has_files(api, job)
