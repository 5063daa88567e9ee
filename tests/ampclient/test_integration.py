"""The client against the real API instead of the fake one."""

import threading
from datetime import UTC, datetime, timedelta
from functools import partial

import httpx
import pytest

from ampclient import Client, Forbidden, InvalidRequest, NotFound, QuotaExceeded, State
from server.jobs import bulk
from store import workers
from store.files import artifacts
from store.jobs import attempts, jobs
from store.tables import Allocation
from store.telemetry import ingest
from tests.waiting import DEADLINE_S, join


@pytest.fixture
def database_url(sqlite_url):
    """SQLite alone: the store has its own tests on both databases."""
    return sqlite_url


SPEC = {"model": {"kind": "mlp", "hidden": [8]}, "data": {"kind": "digits"}, "name": "one"}


@pytest.fixture
def statuses():
    """The status of each response."""
    return []


@pytest.fixture
def client(api, statuses):
    hooks = {"response": [lambda response: statuses.append(response.status_code)]}
    with (
        httpx.Client(event_hooks=hooks, timeout=DEADLINE_S) as http_client,
        Client(api.url, api.token, http_client=http_client) as client,
    ):
        yield client


@pytest.fixture
def running(api, client, make_job):
    return client.jobs.get(make_job(State.RUNNING).id)


def append_log(api, job_id, entries_written, *texts):
    with api.database.write() as session:
        chunks = [ingest.LogChunk("stdout", text) for text in texts]
        assert ingest.append(session, job_id, 1, chunks, entries_written=entries_written)


def test_a_job_is_paused_edited_cloned_cancelled_retried_and_deleted(client):
    job = client.jobs.submit(SPEC)
    assert (job.project, job.priority, job.queue, job.failures) == ("default", 5, "default", 0)
    assert job.refresh().waiting
    assert job.pause().state is State.PAUSED
    assert job.resume().state is State.QUEUED
    edited = job.edit(name="two", labels={"team": "vision"}, priority=9)
    assert (edited.name, edited.labels, edited.priority) == ("two", {"team": "vision"}, 9)
    copy = edited.clone(set={"precision.policy": "float32"})
    assert (copy.cloned_from, copy.name, copy.policy) == (job.id, "two", "float32")
    assert job.cancel().state is State.CANCELLED
    assert job.retry().state is State.QUEUED
    job.cancel()
    job.delete()
    with pytest.raises(NotFound, match="ampctl job restore"):
        job.refresh()
    [trashed] = client.jobs.list(trash=True)
    assert (trashed.id, client.jobs.restore(trashed).purge_at) == (job.id, None)
    assert job.refresh().state is State.CANCELLED
    job.delete()
    job.delete(permanent=True)
    with pytest.raises(NotFound):
        client.jobs.restore(job.id)


def test_many_jobs_are_submitted_cancelled_and_deleted(client, monkeypatch):
    monkeypatch.setattr("ampclient.bulk_jobs.SPECS_PER_REQUEST", 2)
    specs = [{**SPEC, "name": f"job {n}", "labels": {"run": "many"}} for n in range(5)]
    jobs = client.jobs.submit_many(specs, idempotency_key="mine")
    assert [job.name for job in jobs] == [f"job {n}" for n in range(5)]
    assert client.jobs.submit_many(specs, idempotency_key="mine") == jobs
    other = client.jobs.submit(SPEC)
    for action in ("cancel_jobs", "delete_jobs"):
        change = getattr(bulk, action)
        few = partial(
            lambda change, actions, search, _, **options: change(actions, search, 2, **options),
            change,
        )
        monkeypatch.setattr(f"server.jobs.bulk_routes.{action}", few)
    assert sorted(client.jobs.cancel_many(label={"run": "many"})) == sorted(j.id for j in jobs)
    assert {job.refresh().state for job in jobs} == {State.CANCELLED}
    assert sorted(client.jobs.delete_many(state="cancelled")) == sorted(job.id for job in jobs)
    assert len(list(client.jobs.list(trash=True))) == 5
    assert [job.id for job in client.jobs.list()] == [other.id]
    with pytest.raises(InvalidRequest, match="filter"):
        client.jobs.delete_many()
    for empty in ({"label": {}}, {"state": iter(())}, {"q": ""}, {"metric": ""}):
        with pytest.raises(ValueError, match=f"filter {next(iter(empty))}"):
            client.jobs.delete_many(**{"policy": "float32"} | empty)
        with pytest.raises(ValueError, match=f"filter {next(iter(empty))}"):
            client.jobs.cancel_many(**{"policy": "float32"} | empty)
    assert [job.id for job in client.jobs.list()] == [other.id]


def test_one_idempotency_key_queues_one_job(client):
    first, second = (client.jobs.submit(SPEC, idempotency_key="mine") for _ in range(2))
    assert first.id == second.id
    with pytest.raises(InvalidRequest) as caught:
        client.jobs.submit({**SPEC, "name": "other"}, idempotency_key="mine")
    assert caught.value.code == "idempotency_key_reused"


def test_jobs_are_found_by_every_filter(client):
    client.jobs.submit({**SPEC, "name": "second", "labels": {"team": "vision"}})
    client.jobs.submit({**SPEC, "name": "first", "precision": {"policy": "mixed_float16"}})

    def names(**filters):
        return [job.name for job in client.jobs.list(**filters)]

    assert names(sort="name") == ["first", "second"]
    assert names(label={"team": "vision"}) == names(label="team") == ["second"]
    assert names(policy="mixed_float16") == names(q="FIRST") == ["first"]
    assert names(model="cnn") == names(project="elsewhere") == names(state="running") == []
    assert names(created_after=datetime.now(UTC) + timedelta(hours=1)) == []


def test_an_unchanged_job_gets_a_304_response(client, running, statuses):
    del statuses[:]
    running.refresh()
    running.refresh()
    assert statuses == [304, 304]
    assert running.pause().state is State.PAUSING
    assert running.refresh().state is State.PAUSING


def test_attempts_are_read(api, client, running):
    [attempt] = running.attempts()
    assert (attempt.attempt, attempt.first_step, attempt.outcome) == (1, 0, None)
    with api.database.write() as session:
        attempts.requeue(session, running.id, 1)
    assert running.attempts()[0].outcome == "requeued"


def test_allocations_are_read(api, client, running):
    assert running.allocations() == []
    with api.database.write() as session:
        fields = {"job_id": running.id, "attempt": 1, "number": 1, "queue": "batch"}
        row = Allocation(name="ampcore-1", **fields, engine="slurm", state="RUNNING", nodes="n1")
        session.add(row)
    [allocation] = running.allocations()
    assert (allocation.name, allocation.state, allocation.nodes) == ("ampcore-1", "RUNNING", "n1")


def test_logs_are_followed_live_to_the_end(api, running, wait_until):
    append_log(api, running.id, 0, "one\n", "two\u2028\n")
    listed = []
    reader = threading.Thread(
        target=lambda: listed.extend(entry.text for entry in running.logs(follow=True))
    )
    reader.start()
    wait_until(lambda: api.app.state.services.streams._open)
    append_log(api, running.id, 2, "three\n")
    with api.database.write() as session:
        attempts.mark_succeeded(session, running.id, 1, {"steps": 100})
    join(reader)
    assert listed == ["one\n", "two\u2028\n", "three\n"]
    assert [entry.text for entry in running.logs(attempt=1)] == listed
    assert list(running.logs(attempt=2)) == []


def test_a_download_resumes_from_a_partial_file(api, running, statuses, tmp_path):
    content = bytes(range(256)) * 1000
    source = tmp_path / "source"
    source.write_bytes(content)
    storage = api.app.state.services.storage
    path = "attempt-1/a model?.keras"
    size, sha256 = storage.put(running.id, path, source)
    with api.database.write() as session:
        stored = artifacts.StoredArtifact(path, artifacts.MODEL, None, size, sha256)
        assert artifacts.add(session, running.id, 1, stored)
    folder = tmp_path / "here"
    (folder / "attempt-1").mkdir(parents=True)
    part = folder / "attempt-1" / f".a model?.keras.{sha256[:16]}.part"
    part.write_bytes(content[:1000])
    [path_on_disk] = running.download(to=folder)
    assert path_on_disk.read_bytes() == content
    assert statuses[-1] == 206
    assert not part.exists()


def test_workers_are_read_and_drained(api, client):
    with api.database.write() as session:
        workers.register(
            session, "ab12", hostname="box", pid=7, slots=2, version="0.2.0", queues=["gpu"]
        )
    [worker] = client.workers.list()
    assert (worker.queues, worker.draining, worker.state) == (["gpu"], False, "online")
    assert client.workers.drain("ab12").draining
    assert client.workers.get("ab12").draining


def test_tokens_projects_session_and_audit_are_read(api, client):
    expires_at = datetime.now(UTC) + timedelta(days=1)
    token = client.tokens.create("look", role="viewer", project="vision", expires_at=expires_at)
    assert (token.role, token.expires_at) == ("viewer", expires_at)
    viewer = Client(api.url, token.secret)
    session = viewer.session()
    assert (session.token_id, session.role, session.project) == (token.id, "viewer", "vision")
    with pytest.raises(Forbidden):
        viewer.jobs.submit(SPEC)
    viewer.close()
    project = client.projects.update("vision", max_queued=3, max_running=None)
    assert (project.max_queued, project.max_running) == (3, None)
    assert {"default", "vision"} <= {listed.name for listed in client.projects.list()}
    client.tokens.revoke(token.id)
    assert any(listed.revoked_at for listed in client.tokens.list())
    actions = [entry.action for entry in client.audit()]
    assert actions == ["token.revoke", "project.update", "token.create"]
    assert [entry.target for entry in client.audit(action="token.create")] == [token.id]


def test_an_exceeded_quota_raises_quota_exceeded(client):
    client.projects.update("default", max_queued=0, max_running=None)
    with pytest.raises(QuotaExceeded) as caught:
        client.jobs.submit(SPEC)
    assert caught.value.retry_after_s
    assert caught.value.request_id


def test_a_job_of_another_project_is_not_found(api, client, client_with_role, make_job):
    job = make_job(project="vision")
    secret = client_with_role("member", "default").headers["authorization"].removeprefix("Bearer ")
    with Client(api.url, secret) as other, pytest.raises(NotFound):
        other.jobs.get(job.id)
    with api.database.read() as session:
        assert jobs.get(session, job.id) is not None


def test_waiting_for_several_jobs_is_one_held_request(api, client, make_job, statuses, wait_until):
    first, second = (client.jobs.get(make_job(State.RUNNING).id) for _ in range(2))
    del statuses[:]
    ended = []
    waiter = threading.Thread(target=lambda: ended.extend(client.jobs.wait([first, second])))
    waiter.start()
    streams = api.app.state.services.streams
    for job in (first, second):
        wait_until(lambda: streams.waiting.count == 1)
        with api.database.write() as session:
            assert attempts.mark_succeeded(session, job.id, 1, {"steps": 100})
    join(waiter)
    assert [(job.id, job.state) for job in ended] == [
        (job.id, "succeeded") for job in (first, second)
    ]
    assert ended[0].spec == first.spec
    assert statuses == [200]
