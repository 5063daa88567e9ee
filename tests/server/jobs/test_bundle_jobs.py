"""Jobs with a bundle: who may submit them, and that they keep their file."""

import hashlib

import pytest
from sqlalchemy import select, update

from server.background import cleanup
from store.clock import from_now
from store.files import project_files
from store.files.project_files import FileKey
from store.tables import JobFileLink, ProjectFile

JOBS = "/api/v1/jobs"
CONTENT = b"PK-like"
SHA256 = hashlib.sha256(CONTENT).hexdigest()
REFERENCE = f"sha256:{SHA256}"
SPEC = {"model": {"kind": "bundle", "bundle": REFERENCE}, "data": {"kind": "digits"}}
PLAIN = {"model": {"kind": "mlp"}, "data": {"kind": "digits"}}


@pytest.fixture
def database_url(sqlite_url):
    """One kind of database is enough: tests/store/test_files.py has the queries."""
    return sqlite_url


@pytest.fixture
def bundle(api):
    """The row of a bundle in the default project, as after its upload."""
    key = FileKey("default", "bundle", SHA256)
    with api.database.write() as session:
        project_files.add(
            session, key, path=project_files.storage_path(key), size_bytes=7, created_by="ada"
        )
    return key


@pytest.fixture
def coder(client_with_role):
    return client_with_role(scopes=["jobs:run-code"])


def test_a_token_with_the_scope_submits_clones_and_extends(api, bundle, coder, make_job):
    job = coder.post(JOBS, json=SPEC)
    assert job.status_code == 201, job.text
    assert job.json()["spec"]["model"] == SPEC["model"] | {"build": "net:build", "options": {}}
    clone = coder.post(f"{JOBS}/{job.json()['id']}/clone", json={"set": {"train.epochs": 2}})
    assert clone.status_code == 201, clone.text
    with api.database.read() as session:
        for submitted in (job, clone):
            named = select(JobFileLink.sha256).where(JobFileLink.job_id == submitted.json()["id"])
            assert session.scalars(named).all() == [SHA256]


def test_an_admin_needs_no_scope(api, bundle):
    assert api.client.post(JOBS, json=SPEC).status_code == 201


@pytest.mark.parametrize("action", ["submit", "clone", "clone to a bundle"])
def test_a_member_without_the_scope_is_refused(api, bundle, coder, client_with_role, action):
    member = client_with_role()
    if action == "submit":
        answer = member.post(JOBS, json=SPEC)
    elif action == "clone":
        job = coder.post(JOBS, json=SPEC).json()
        answer = member.post(f"{JOBS}/{job['id']}/clone", json={})
    else:
        job = member.post(JOBS, json=PLAIN).json()
        changes = {"model": SPEC["model"]}
        answer = member.post(f"{JOBS}/{job['id']}/clone", json={"set": changes})
    assert (answer.status_code, answer.json()["code"]) == (403, "forbidden"), answer.text
    assert "the scope 'jobs:run-code'" in answer.json()["detail"]
    assert "ampctl token create NAME --scope jobs:run-code" in answer.json()["detail"]


def test_others_may_read_and_control_such_a_job(bundle, coder, client_with_role):
    job = coder.post(JOBS, json=SPEC).json()
    assert client_with_role("viewer").get(f"{JOBS}/{job['id']}").json()["spec"] == job["spec"]
    member = client_with_role()
    for action in ("pause", "resume", "cancel", "retry"):
        assert member.post(f"{JOBS}/{job['id']}/{action}").status_code == 200


def test_anyone_may_validate_a_spec_before_its_code_is_uploaded(client_with_role):
    answer = client_with_role("viewer").post(f"{JOBS}/validate", json=SPEC)
    assert answer.status_code == 200, answer.text


@pytest.mark.parametrize("project", ["default", "vision"])
def test_the_project_must_have_the_bundle(api, client_with_role, project):
    other = FileKey("vision" if project == "default" else "default", "bundle", SHA256)
    weights = FileKey(project, "weights", SHA256)
    client = client_with_role(project=project, scopes=["jobs:run-code"])
    client_with_role(project="vision")
    with api.database.write() as session:
        for key in (other, weights):
            path = project_files.storage_path(key)
            project_files.add(session, key, path=path, size_bytes=7, created_by="ada")
    answer = client.post(JOBS, json=SPEC)
    assert answer.status_code == 422
    [problem] = answer.json()["errors"]
    assert (problem["pointer"], problem["code"]) == ("/model/bundle", "no_such_file")


def test_a_bundle_is_kept_as_long_as_its_job(api, bundle, coder):
    job = coder.post(JOBS, json=SPEC).json()
    storage = api.app.state.services.storage

    def is_there_after_cleanup():
        with api.database.write() as session:
            session.execute(
                update(ProjectFile).values(last_used_at=from_now(-2 * project_files.UNUSED_S))
            )
        cleanup.delete_unused_files(api.database, storage)
        with api.database.read() as session:
            return project_files.find(session, bundle) is not None

    assert is_there_after_cleanup()
    coder.post(f"{JOBS}/{job['id']}/cancel")
    assert coder.delete(f"{JOBS}/{job['id']}").status_code == 204
    assert is_there_after_cleanup()  # the job is in the trash, and may be restored
    assert coder.delete(f"{JOBS}/{job['id']}?permanent=true").status_code == 204
    assert not is_there_after_cleanup()
