import pytest

from ampspec.jobs import State
from store.access import audit
from store.files import artifacts
from store.files.artifacts import StoredArtifact
from tests.tables import every_row


@pytest.fixture
def database_url(sqlite_url):
    """SQLite alone: the store has its own tests on both databases."""
    return sqlite_url


PROJECTS = "/api/v1/projects"
SPEC = {"model": {"kind": "mlp"}, "data": {"kind": "digits"}}


def test_a_project_is_created_by_setting_its_quotas(api):
    answer = api.client.put(f"{PROJECTS}/vision", json={"max_queued": 10, "max_running": 2})
    assert answer.status_code == 200
    made = answer.json()
    assert (made["name"], made["max_queued"], made["max_running"]) == ("vision", 10, 2)
    assert (made["queued"], made["running"]) == (0, 0)
    names = [project["name"] for project in api.client.get(PROJECTS).json()["items"]]
    assert names == ["default", "vision"]


def test_put_replaces_both_quotas(api):
    api.client.put(f"{PROJECTS}/default", json={"max_queued": 10, "max_running": 2})
    project = api.client.put(f"{PROJECTS}/default", json={"max_queued": 3}).json()
    assert (project["max_queued"], project["max_running"]) == (3, None)


def test_a_project_shows_the_use_of_its_quotas(api, make_job):
    for state in (State.QUEUED, State.RUNNING, State.SUCCEEDED):
        make_job(state)
    (project,) = api.client.get(PROJECTS).json()["items"]
    assert (project["queued"], project["running"]) == (1, 1)


@every_row("name", ["UPPER", "-dash", "x" * 65, "a%20b", "%00", "a%0a"])
def test_an_invalid_name_is_refused(api, name):
    answer = api.client.put(f"{PROJECTS}/{name}", json={})
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")
    assert len(api.client.get(PROJECTS).json()["items"]) == 1


@every_row("quotas", [{"max_queued": -1}, {"max_running": "x"}, {"more": 1}, []])
def test_invalid_quotas_are_refused(api, quotas):
    assert api.client.put(f"{PROJECTS}/default", json=quotas).status_code == 422


def test_setting_quotas_is_audited(api, database):
    api.client.put(f"{PROJECTS}/vision", json={"max_queued": 1})
    with database.read() as session:
        (entry,) = audit.page(session, limit=10)
    assert (entry.action, entry.target, entry.project) == ("project.update", "vision", "vision")
    assert entry.data == {"max_queued": 1, "max_running": None, "max_dataset_bytes": None}


def test_a_full_queue_gets_429_with_retry_after(api):
    api.client.put(f"{PROJECTS}/default", json={"max_queued": 1})
    assert api.client.post("/api/v1/jobs", json=SPEC).status_code == 201
    answer = api.client.post("/api/v1/jobs", json=SPEC)
    assert (answer.status_code, answer.json()["code"]) == (429, "quota_exceeded")
    assert int(answer.headers["Retry-After"]) > 0
    assert len(api.client.get("/api/v1/jobs").json()["items"]) == 1


def test_a_project_whose_artifacts_take_its_quota_gets_no_new_job(api, make_job, database):
    job = make_job(State.RUNNING)
    with database.write() as session:
        artifacts.add(session, job.id, 1, StoredArtifact("model", "model", None, 5, "a" * 64))
    project = api.client.patch(f"{PROJECTS}/default", json={"max_artifact_bytes": 5}).json()
    assert (project["artifact_bytes"], project["max_artifact_bytes"]) == (5, 5)
    answer = api.client.post("/api/v1/jobs", json=SPEC)
    assert (answer.status_code, answer.json()["code"]) == (409, "artifact_quota_exceeded")
    assert "quota of 5 bytes" in answer.json()["detail"]
    api.client.patch(f"{PROJECTS}/default", json={"max_artifact_bytes": 6})
    assert api.client.post("/api/v1/jobs", json=SPEC).status_code == 201


ACTIONS = {"retry": State.CANCELLED, "resume": State.PAUSED, "clone": State.SUCCEEDED}


@pytest.mark.parametrize(("action", "state"), ACTIONS.items())
def test_a_full_queue_refuses_retry_resume_and_clone(api, make_job, action, state):
    job = make_job(state)
    make_job(State.QUEUED)
    api.client.put(f"{PROJECTS}/default", json={"max_queued": 1})
    answer = api.client.post(f"/api/v1/jobs/{job.id}/{action}")
    assert (answer.status_code, answer.json()["code"]) == (429, "quota_exceeded")
    assert api.client.get(f"/api/v1/jobs/{job.id}").json()["state"] == state


def test_a_patch_keeps_what_it_does_not_name(api):
    given = {"max_queued": 10, "max_devices": 64, "max_device_hours": 100.5}
    api.client.patch(f"{PROJECTS}/vision", json={**given, "max_dataset_bytes": 5, "weight": 2.0})
    changed = api.client.patch(f"{PROJECTS}/vision", json={"max_queued": None, "weight": 0.5})
    assert changed.status_code == 200
    project = changed.json()
    assert {name: project[name] for name in given} == {**given, "max_queued": None}
    assert (project["max_dataset_bytes"], project["weight"]) == (5, 0.5)


def test_a_put_of_an_older_client_keeps_what_it_does_not_know(api):
    known = {"max_devices": 64, "max_device_hours": 100.5, "weight": 2.0}
    api.client.patch(f"{PROJECTS}/default", json=known)
    project = api.client.put(f"{PROJECTS}/default", json={"max_queued": 3}).json()
    assert {name: project[name] for name in known} == known
    assert (project["max_queued"], project["max_running"]) == (3, None)


@every_row(
    "changes",
    [
        {"weight": 0},
        {"weight": None},
        {"weight": 1e9},
        {"max_devices": 1.5},
        {"max_device_hours": -1},
    ],
)
def test_an_invalid_weight_or_quota_of_devices_is_refused(api, changes):
    assert api.client.patch(f"{PROJECTS}/default", json=changes).status_code == 422


def test_a_project_shows_its_devices_and_its_share(api, make_job):
    make_job(State.RUNNING)
    project = api.client.patch(f"{PROJECTS}/default", json={"weight": 4.0}).json()
    assert project["devices"] == 1
    assert project["share"] == pytest.approx(0.25, abs=0.01)
    assert project["device_hours"] == pytest.approx(0, abs=0.01)
