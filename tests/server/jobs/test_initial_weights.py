"""Submitting a job that starts from trained weights: their source is checked and kept."""

import pytest
from sqlalchemy import select

from ampspec.jobs import State
from ampspec.references.stored_files import FileKind
from store.files import artifacts, project_files
from store.files.artifacts import WEIGHTS, StoredArtifact
from store.files.project_files import FileKey
from store.jobs import attempts
from store.tables import JobFileLink

JOBS = "/api/v1/jobs"
SPEC = {"model": {"kind": "mlp"}, "data": {"kind": "digits"}}
DIGEST = "0f" * 32


@pytest.fixture
def database_url(sqlite_url):
    """One kind of database is enough: the queries are simple."""
    return sqlite_url


@pytest.fixture
def trained(api, make_job):
    """Creates a succeeded job with stored weights."""

    def make(*, with_weights=True, **parts):
        job = make_job(State.RUNNING, **parts)
        with api.database.write() as session:
            if with_weights:
                file = StoredArtifact("attempt-1/weights.safetensors", WEIGHTS, 100, 1, "0" * 64)
                artifacts.add(session, job.id, 1, file)
            attempts.mark_succeeded(session, job.id, 1, {})
        return job.id

    return make


def submit(api, init, path=JOBS):
    return api.client.post(path, json={**SPEC, "init": init})


def problem(answer):
    assert answer.status_code == 422, answer.text
    [found] = answer.json()["errors"]
    return found


def test_a_job_starts_from_a_succeeded_job(api, trained):
    init = {"job": trained(), "freeze": ["^dense"]}
    answer = submit(api, init)
    assert answer.status_code == 201, answer.text
    assert answer.json()["spec"]["init"] == {
        **init,
        "weights": None,
        "layers": None,
        "missing": "keep",
    }
    assert submit(api, init, f"{JOBS}/validate").status_code == 200


@pytest.mark.parametrize("path", [JOBS, f"{JOBS}/validate"])
def test_a_source_that_has_no_weights_is_refused_with_a_pointer(api, trained, make_job, path):
    sources = {
        "no_such_job": "0123456789ab",
        "job_not_succeeded": make_job(State.RUNNING).id,
        "no_weights": trained(with_weights=False),
    }
    for code, job in sources.items():
        found = problem(submit(api, {"job": job}, path))
        assert (found["pointer"], found["code"]) == ("/init/job", code)
        assert job in found["detail"]


def test_a_job_of_another_project_does_not_exist(api, trained):
    found = problem(submit(api, {"job": trained(project="other")}))
    assert found["code"] == "no_such_job"


def test_initial_weights_need_a_source(api):
    found = problem(submit(api, {"freeze": ["^dense"]}))
    assert (found["pointer"], found["code"]) == ("/init", "missing_source")


def test_a_clone_is_checked_again_and_an_extension_is_not(api, trained, make_job):
    first = trained()
    second = submit(api, {"job": first}).json()["id"]
    assert api.client.delete(f"{JOBS}/{first}").status_code == 204
    found = problem(api.client.post(f"{JOBS}/{second}/clone", json={}))
    assert found["code"] == "no_such_job"
    third = make_job(State.RUNNING, init={"job": first})
    with api.database.write() as session:
        name = "attempt-1/checkpoints/checkpoint-000001-step-100.safetensors"
        file = StoredArtifact(name, artifacts.CHECKPOINT, 100, 1, "0" * 64)
        artifacts.add(session, third.id, 1, file)
        attempts.mark_succeeded(session, third.id, 1, {})
    extended = api.client.post(f"{JOBS}/{third.id}/extend", json={"epochs": 1})
    assert extended.status_code == 201, extended.text


def test_an_uploaded_file_must_be_one_of_the_project_and_is_kept(api):
    init = {"weights": f"sha256:{DIGEST}"}
    found = problem(submit(api, init))
    assert (found["pointer"], found["code"]) == ("/init/weights", "no_such_file")
    key = FileKey("default", FileKind.WEIGHTS, DIGEST)
    with api.database.write() as session:
        project_files.add(
            session, key, path=project_files.storage_path(key), size_bytes=7, created_by=None
        )
    job = submit(api, init).json()["id"]
    with api.database.read() as session:
        named = select(JobFileLink.sha256).where(JobFileLink.job_id == job)
        assert session.scalars(named).all() == [DIGEST]
