import pytest
from sqlalchemy import select, update

from ampspec.jobs import State
from store import workers
from store.clock import from_now
from store.files import artifacts
from store.files.artifacts import StoredArtifact
from store.tables import AuditEntry, Job, Worker
from tests.tables import every_row


@pytest.fixture
def database_url(sqlite_url):
    """SQLite alone: the store has its own tests on both databases."""
    return sqlite_url


@pytest.fixture
def add_worker(api):
    """Register a worker."""

    def add(worker_id):
        with api.database.write() as session:
            facts = {"hostname": "h", "pid": 7, "slots": 2, "version": "1"}
            workers.register(session, worker_id, **facts, queues=["default", "gpu"])

    return add


def test_a_worker_has_hardware_queues_and_jobs(api, make_job, add_worker):
    job = make_job(State.RUNNING)
    add_worker("some-worker")
    with api.database.write() as session:
        hardware, usage = {"devices": ["CPU"]}, {"lag_s": float("nan")}
        workers.heartbeat(session, "some-worker", hardware=hardware, usage=usage)
    worker = api.client.get("/api/v1/workers/some-worker").json()
    assert api.client.get("/api/v1/workers").json() == {"items": [worker], "next_cursor": None}
    assert worker.pop("started_at").endswith("Z")
    assert worker.pop("last_seen_at").endswith("Z")
    assert worker == {
        "id": "some-worker",
        "hostname": "h",
        "pid": 7,
        "slots": 2,
        "state": "online",
        "draining": False,
        "drain_timeout_s": None,
        "unsaved": [],
        "version": "1",
        "queues": ["default", "gpu"],
        "job_id": None,
        "hardware": {"devices": ["CPU"]},
        "usage": {"lag_s": "NaN"},
        "jobs": [job.id],
    }


def test_jobs_of_other_projects_are_hidden_on_a_worker(api, make_job, add_worker, client_with_role):
    make_job(State.RUNNING)
    add_worker("some-worker")
    viewer = client_with_role("viewer", "elsewhere")
    for path in ("/api/v1/workers", "/api/v1/workers/some-worker"):
        answer = viewer.get(path).json()
        assert answer.get("items", [answer])[0]["jobs"] == []


def test_the_job_of_a_worker_for_one_job_is_shown_to_those_who_see_the_job(
    api, make_job, client_with_role
):
    job = make_job()
    with api.database.write() as session:
        fields = {"hostname": "h", "pid": 7, "slots": 2, "version": "1", "queues": ["default"]}
        workers.register(session, "some-worker", job_id=job.id, **fields)
    stranger = client_with_role("viewer", "elsewhere")
    for path in ("/api/v1/workers", "/api/v1/workers/some-worker"):
        for client, job_id in ((api.client, job.id), (stranger, None)):
            answer = client.get(path).json()
            assert answer.get("items", [answer])[0]["job_id"] == job_id


def test_without_workers_the_list_is_empty(api):
    answer = api.client.get("/api/v1/workers").json()
    assert answer == {"items": [], "next_cursor": None}


@every_row("limit", [1, 2, 3, 100])
def test_pages_list_every_worker_once_newest_first(api, add_worker, limit):
    """Fails if workers that started at the same moment are left out between two pages."""
    ids = [f"w-{limit}-{n}" for n in range(5)]
    for worker_id in ids:
        add_worker(worker_id)
    with api.database.write() as session:
        session.execute(update(Worker).values(started_at=from_now(-60)))
        session.execute(update(Worker).where(Worker.id == ids[3]).values(started_at=from_now(0)))
    everything = [one["id"] for one in api.client.get("/api/v1/workers").json()["items"]]
    assert everything[0] == ids[3]
    seen, cursor = [], {}
    while cursor is not None:
        query = {"limit": limit, **cursor}
        page = api.client.get("/api/v1/workers", params=query).json()
        seen += [one["id"] for one in page["items"]]
        cursor = page["next_cursor"] and {"cursor": page["next_cursor"]}
    assert seen == everything


@every_row("cursor", ["x", "1", "-w", "99999999999999999-w", "1-"])
def test_a_wrong_cursor_is_refused(api, cursor):
    assert api.client.get("/api/v1/workers", params={"cursor": cursor}).status_code == 422


def test_a_list_leaves_out_what_packages_offer(api, add_worker):
    add_worker("w")
    with api.database.write() as session:
        hardware = {"devices": ["CPU"], "packages": [{"package": "p"}]}
        workers.heartbeat(session, "w", hardware=hardware)
    [listed] = api.client.get("/api/v1/workers").json()["items"]
    assert listed["hardware"] == {"devices": ["CPU"]}
    assert api.client.get("/api/v1/workers/w").json()["hardware"] == hardware


def test_draining_a_worker_is_requested_at_its_heartbeat(api, add_worker):
    add_worker("w")
    for _ in range(2):
        answer = api.client.post("/api/v1/workers/w/drain")
        assert answer.status_code == 202
        assert answer.json()["draining"]
    with api.database.write() as session:
        assert workers.heartbeat(session, "w")
        audited = session.execute(select(AuditEntry.action, AuditEntry.target)).all()
    assert audited == [("worker.drain", "w")] * 2


def test_a_drain_has_a_deadline_and_says_what_is_not_saved(api, add_worker, make_job):
    add_worker("w")
    ids = [make_job(State.RUNNING).id for _ in range(3)]
    with api.database.write() as session:
        session.execute(update(Job).values(worker_id="w", step=30))
        session.execute(update(Job).where(Job.id == ids[2]).values(step=0))
        artifacts.add(
            session, ids[1], 1, StoredArtifact("c", artifacts.CHECKPOINT, 20, 5, "0" * 64)
        )
    answer = api.client.post("/api/v1/workers/w/drain", json={"timeout_s": 90})
    assert answer.json()["drain_timeout_s"] == 90
    unsaved = [
        {"job": ids[0], "step": 30, "checkpoint_step": None},
        {"job": ids[1], "step": 30, "checkpoint_step": 20},
    ]
    assert sorted(answer.json()["unsaved"], key=lambda job: ids.index(job["job"])) == unsaved
    refused = api.client.post("/api/v1/workers/w/drain", json={"timeout_s": -1})
    assert refused.status_code == 422
    assert refused.json()["errors"][0]["pointer"] == "/body/timeout_s"
    with api.database.write() as session:
        assert workers.heartbeat(session, "w") == (90.0,)


def test_a_worker_that_has_stopped_cannot_be_drained(api, add_worker):
    add_worker("w")
    with api.database.write() as session:
        workers.stopped(session, "w")
    answer = api.client.post("/api/v1/workers/w/drain")
    assert (answer.status_code, answer.json()["code"]) == (409, "conflict")


@every_row("worker_id", ["w", "%00", "..%2f..%2fetc", "x" * 500])
def test_an_unknown_worker_is_not_found(api, worker_id):
    for answer in (
        api.client.get(f"/api/v1/workers/{worker_id}"),
        api.client.post(f"/api/v1/workers/{worker_id}/drain"),
    ):
        assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
