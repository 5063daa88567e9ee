import math
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from sqlalchemy import func, select, text, update

from ampspec.jobs import State
from ampspec.telemetry import Event, EventType
from infra.storage import Storage, StorageFailed
from server.file_removal import remove_due_files
from store.access import projects
from store.clock import from_now
from store.files import artifacts
from store.files.artifacts import CHECKPOINT, StoredArtifact
from store.jobs import attempts, jobs, queue
from store.tables import AuditEntry, Base, EventRow, FileRemoval, IdempotencyKey, Job
from store.telemetry import ingest
from tests.tables import every_row
from tests.waiting import DEADLINE_S


@pytest.fixture
def database_url(sqlite_url):
    """SQLite alone: the store has its own tests on both databases."""
    return sqlite_url


SPEC = {"model": {"kind": "mlp"}, "data": {"kind": "digits"}}
JOB_FIELDS = {
    *("id", "source", "name", "project", "state", "reason", "message", "waiting", "priority"),
    "queue",
    *("uploading", "activity", "activity_since", "trace_id"),
    *("attempt", "max_attempts", "failures", "step", "total_steps", "progress"),
    *("policy", "resolved_policy", "model", "labels", "worker_id", "latest", "summary", "metrics"),
    *(
        "spec",
        "created_by",
        "cloned_from",
        "extends",
        "explains",
        "explain_step",
        "request_id",
        "loss_scale_mode",
        "examples_per_step",
        "ranks",
    ),
    *("created_at", "not_before", "started_at", "finished_at", "updated_at", "purge_at", "seq"),
}
TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")


def test_a_submitted_job_is_stored_returned_and_dispatched(api):
    answer = api.client.post("/api/v1/jobs", json={**SPEC, "name": "first", "labels": {"a": "b"}})
    job = answer.json()
    assert answer.status_code == 201
    assert answer.headers["Location"] == f"/api/v1/jobs/{job['id']}"
    assert set(job) == JOB_FIELDS
    assert (job["name"], job["state"], job["step"]) == ("first", "queued", 0)
    assert job["total_steps"] is job["progress"] is job["latest"] is None
    assert job["labels"] == {"a": "b"}
    assert job["spec"]["data"]["batch_size"] == 128
    assert TIMESTAMP.fullmatch(job["created_at"])
    assert (job["project"], job["created_by"], job["priority"]) == ("default", "test", 5)
    assert (api.dispatcher.sent, api.dispatcher.queues) == ([job["id"]], ["default"])
    shown = api.client.get(answer.headers["Location"]).json()
    assert shown.pop("waiting").startswith("No online worker")
    assert shown == {name: value for name, value in job.items() if name != "waiting"}


def test_a_job_is_committed_before_its_message_is_sent(api, monkeypatch):
    found = []

    def find(job_id, _queue):
        with api.database.read() as session:
            found.append(jobs.get(session, job_id))

    monkeypatch.setattr(api.dispatcher, "send", find)
    api.client.post("/api/v1/jobs", json=SPEC)
    assert len(found) == 1
    assert found[0] is not None


def test_a_job_submitted_without_redis_is_dispatched_later(api):
    api.dispatcher.gone = True
    answer = api.client.post("/api/v1/jobs", json=SPEC)
    assert (answer.status_code, answer.json()["state"]) == (201, "queued")
    with api.database.read() as session:
        assert queue.queues_to_dispatch(session, silent_for_s=3) == []
        assert queue.queues_to_dispatch(session, silent_for_s=-1) == ["default"]


@every_row(
    "statement",
    [
        *("INSERT ON jobs", "INSERT ON events", "INSERT ON audit", "INSERT ON idempotency_keys"),
        "UPDATE ON idempotency_keys",
    ],
)
def test_a_submission_that_fails_at_any_statement_leaves_nothing_in_the_database(api, statement):
    def row_counts():
        with api.database.read() as session:
            tables = Base.metadata.sorted_tables
            return {t.name: session.scalar(select(func.count()).select_from(t)) for t in tables}

    counts = row_counts()
    failure = f"BEFORE {statement} BEGIN SELECT RAISE(ABORT, 'the disk is full'); END"
    with api.database.write() as session:
        session.execute(text(f"CREATE TRIGGER full_disk {failure}"))
    headers = {"Idempotency-Key": "once"}
    assert api.client.post("/api/v1/jobs", json=SPEC, headers=headers).status_code == 500
    assert row_counts() == counts
    assert api.dispatcher.sent == []
    with api.database.write() as session:
        session.execute(text("DROP TRIGGER full_disk"))


def test_a_submission_writes_its_job_event_audit_entry_and_key(api):
    answer = api.client.post("/api/v1/jobs", json=SPEC, headers={"Idempotency-Key": "once"})
    assert answer.status_code == 201
    with api.database.read() as session:
        counts = [
            session.scalar(select(func.count()).select_from(table))
            for table in (Job, EventRow, AuditEntry, IdempotencyKey)
        ]
    assert counts == [1, 1, 1, 1]


def test_a_full_queue_refuses_submit_clone_retry_and_resume(api, make_job):
    with api.database.write() as session:
        projects.update(session, "default", {"max_queued": 1})
    paused, failed = make_job(State.PAUSED), make_job(State.FAILED)
    assert api.client.post("/api/v1/jobs", json=SPEC).status_code == 201
    for path in ("", f"/{failed.id}/clone", f"/{failed.id}/retry", f"/{paused.id}/resume"):
        answer = api.client.post(f"/api/v1/jobs{path}", json={} if path else SPEC)
        assert (answer.status_code, answer.json()["code"]) == (429, "quota_exceeded")
        assert int(answer.headers["Retry-After"]) > 0
    assert len(api.dispatcher.sent) == 1


@pytest.mark.parametrize("field", ["devices", "workers"])
def test_a_job_with_several_ranks_is_accepted(api, field):
    spec = SPEC | {"runtime": {field: 2}}
    assert api.client.post("/api/v1/jobs/validate", json=spec).status_code == 200
    answer = api.client.post("/api/v1/jobs", json=spec)
    assert (answer.status_code, answer.json()["ranks"]) == (201, 2)


def test_every_mistake_in_a_spec_is_reported_at_once(api):
    spec = {"modle": {}, "model": {"kind": "cnm"}, "data": {"kind": "digits", "batch_size": "9"}}
    for path in ("/api/v1/jobs", "/api/v1/jobs/validate"):
        answer = api.client.post(path, json=spec)
        assert answer.status_code == 422
        problem = answer.json()
        assert problem["code"] == "invalid_spec"
        errors = {error["pointer"]: error for error in problem["errors"]}
        assert errors["/modle"]["suggestion"] == "model"
        assert errors["/model/kind"]["suggestion"] == "cnn"
        assert errors["/data/batch_size"]["received"] == '"9"'
    assert api.client.get("/api/v1/jobs").json()["items"] == []
    assert api.dispatcher.sent == []


def test_a_running_job_shows_its_progress(api, make_job, make_block):
    job = make_job(State.RUNNING)
    with api.database.write() as session:
        ingest.append(session, job.id, 1, [make_block(0, 25, loss=float("inf"))], entries_written=0)
    shown = api.client.get(f"/api/v1/jobs/{job.id}").json()
    assert (
        shown["state"],
        shown["step"],
        shown["total_steps"],
        shown["progress"],
    ) == (
        "running",
        25,
        100,
        0.25,
    )
    assert shown["latest"]["loss"] == "Infinity"
    assert shown["latest"]["skipped"] == 0
    assert shown["worker_id"] == "some-worker"


def test_the_summary_is_shown_while_a_job_runs_and_afterwards(api, make_job, make_block):
    job, path = make_job(State.RUNNING), "/api/v1/jobs"
    assert api.client.get(f"{path}/{job.id}").json()["summary"] is None
    totals = {"steps": 25, "skipped": 5, "skipped_share": 0.2, "scale_health": "oscillating"}
    block = replace(make_block(0, 25, loss=math.inf), totals=totals)
    with api.database.write() as session:
        ingest.append(session, job.id, 1, [block], entries_written=0)
    [listed] = api.client.get(path).json()["items"]
    shown = {"last_loss": "Infinity", "loss_scale": 1024, "last_examples_per_s": 128}
    assert {k: v for k, v in listed["summary"].items() if v is not None} == totals | shown
    with api.database.write() as session:
        attempts.mark_succeeded(session, job.id, 1, {"final_loss": 0.5, "scale_health": "steady"})
    summary = api.client.get(f"{path}/{job.id}").json()["summary"]
    assert (summary["final_loss"], summary["skipped_share"]) == (0.5, 0.2)
    assert summary["scale_health"] == "steady"


def test_non_finite_numbers_in_a_summary_are_strings(api, make_job):
    job = make_job(State.RUNNING)
    with api.database.write() as session:
        attempts.mark_succeeded(session, job.id, 1, {"final_loss": float("nan"), "steps": 3})
    summary = api.client.get(f"/api/v1/jobs/{job.id}").json()["summary"]
    assert (summary["final_loss"], summary["steps"]) == ("NaN", 3)


def test_a_failed_job_shows_its_reason(api, make_job):
    job = api.client.get(f"/api/v1/jobs/{make_job(State.FAILED).id}").json()
    assert (job["reason"], job["message"]) == ("invalid_data", "The data is NaN.")


@every_row(
    ("action", "states"),
    {
        "cancel": "queued:cancelled paused:cancelled cancelled:cancelled "
        "starting:stopping running:stopping pausing:stopping stopping:stopping",
        "pause": "queued:paused paused:paused starting:pausing running:pausing pausing:pausing",
        "profile": "running:running",
        "resume": "paused:queued",
        "retry": "failed:queued cancelled:queued",
    }.items(),
)
@every_row("state", State)
def test_an_action_returns_the_new_state_or_a_conflict(api, make_job, state, action, states):
    job_id = make_job(state).id
    api.dispatcher.sent.clear()
    answer = api.client.post(f"/api/v1/jobs/{job_id}/{action}")
    then = dict(pair.split(":") for pair in states.split()).get(state)
    if then is None:
        assert (answer.status_code, answer.json()["code"]) == (409, "conflict")
        assert f"received {state}." in answer.json()["detail"]
    else:
        assert answer.status_code == (202 if then in ("stopping", "pausing") else 200)
        assert answer.json()["state"] == then
    assert api.client.get(f"/api/v1/jobs/{job_id}").json()["state"] == (then or state)
    assert api.dispatcher.sent == ([job_id] if then == "queued" else [])


def test_a_refused_action_names_the_expected_states_and_the_allowed_actions(api, make_job):
    detail = api.client.post(f"/api/v1/jobs/{make_job().id}/retry").json()["detail"]
    assert detail == (
        "Cannot retry the job: expected the state failed or cancelled, received queued. "
        "Possible actions in this state: cancel, pause, edit, clone, explain."
    )


def test_the_name_the_labels_and_the_priority_of_a_job_can_be_edited(api, make_job):
    job = make_job(labels={"old": "label"})
    changes = {"name": "new", "labels": {"a": "b"}, "priority": 9}
    answer = api.client.patch(f"/api/v1/jobs/{job.id}", json=changes)
    assert answer.status_code == 200
    shown = api.client.get(f"/api/v1/jobs/{job.id}").json()
    assert {name: shown[name] for name in changes} == changes
    [*_, event] = api.client.get(f"/api/v1/jobs/{job.id}/events").json()["items"]
    assert (event["type"], event["data"]) == ("edited", changes)
    assert api.dispatcher.sent == []


def test_fields_missing_in_an_edit_keep_their_values(api, make_job):
    job = make_job(labels={"a": "b"}, runtime={"priority": 7})
    shown = api.client.patch(f"/api/v1/jobs/{job.id}", json={"name": "new"}).json()
    assert (shown["name"], shown["labels"], shown["priority"]) == (
        "new",
        {"a": "b"},
        7,
    )
    unchanged = api.client.patch(f"/api/v1/jobs/{job.id}", json={}).json()
    assert unchanged == shown


@every_row(
    ("changes", "pointer"),
    [
        ({"nam": "x"}, "/nam"),
        ({"name": ""}, "/name"),
        ({"name": None}, "/name"),
        ({"name": "x" * 201}, "/name"),
        ({"priority": 10}, "/priority"),
        ({"priority": "5"}, "/priority"),
        ({"priority": True}, "/priority"),
        ({"labels": {"a": 1}}, "/labels/a"),
        ({"state": "failed"}, "/state"),
        ([], ""),
    ],
)
def test_an_invalid_edit_changes_nothing(api, make_job, changes, pointer):
    job = make_job()
    before = api.client.get(f"/api/v1/jobs/{job.id}").json()
    answer = api.client.patch(f"/api/v1/jobs/{job.id}", json=changes)
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")
    assert answer.json()["errors"][0]["pointer"] == pointer
    assert api.client.get(f"/api/v1/jobs/{job.id}").json() == before


@every_row("state", State)
def test_a_job_can_be_deleted_only_after_its_end_and_its_files_are_deleted_with_it(
    api, make_job, state
):
    job = make_job(state)
    folder = api.data_dir / "artifacts" / job.id
    folder.mkdir(parents=True)
    (folder / "model.keras").touch()
    answer = api.client.delete(f"/api/v1/jobs/{job.id}?permanent=true")
    gone = api.client.get(f"/api/v1/jobs/{job.id}").status_code == 404
    api.app.state.file_remover.remove()
    assert (answer.status_code, gone) == ((204, True) if state.is_terminal else (409, False))
    assert folder.exists() != gone
    if gone:
        assert answer.content == b""
        assert api.client.delete(f"/api/v1/jobs/{job.id}?permanent=true").status_code == 404


@pytest.fixture
def files(api, make_job):
    """A job that has ended, and the folder of its files."""
    job = make_job(State.SUCCEEDED)
    folder = api.data_dir / "artifacts" / job.id
    folder.mkdir(parents=True)
    (folder / "model.keras").touch()
    return job, folder


def make_removals_due(database):
    with database.write() as session:
        session.execute(update(FileRemoval).values(due_at=from_now(-1)))


def pending_removals(database):
    with database.read() as session:
        return session.scalars(select(FileRemoval.folder)).all()


def test_deleting_files_is_retried_later_after_a_failure(api, files, monkeypatch):
    job, folder = files

    def fail(*_):
        raise StorageFailed("the disk is gone")

    with monkeypatch.context() as patch:
        patch.setattr(Storage, "remove_folder", fail)
        assert api.client.delete(f"/api/v1/jobs/{job.id}?permanent=true").status_code == 204
        assert api.client.get(f"/api/v1/jobs/{job.id}").status_code == 404
        api.app.state.file_remover.remove()
        assert pending_removals(api.database) == [job.id]  # it is retried later, not at once
    assert folder.exists()
    remove_due_files(api.database, api.app.state.services.storage)
    assert folder.exists()
    make_removals_due(api.database)
    remove_due_files(api.database, api.app.state.services.storage)
    assert not folder.exists()
    assert pending_removals(api.database) == []


def test_files_of_a_deleted_job_are_deleted_after_a_crash_of_the_server(api, files, monkeypatch):
    job, folder = files

    def crash(*_):
        raise SystemError("killed while it deleted the files")

    assert api.client.delete(f"/api/v1/jobs/{job.id}?permanent=true").status_code == 204
    with monkeypatch.context() as patch:
        patch.setattr(Storage, "remove_folder", crash)
        with pytest.raises(SystemError):
            api.app.state.file_remover.remove()
    assert api.client.get(f"/api/v1/jobs/{job.id}").status_code == 404
    assert folder.exists()
    api.app.state.file_remover.remove()
    assert not folder.exists()
    assert pending_removals(api.database) == []


def test_deleting_files_blocks_no_writer(api, files, monkeypatch):
    """Fails if files are deleted inside the transaction: another writer would wait for it."""
    job, folder = files
    deleting, written = threading.Event(), threading.Event()
    remove_folder = Storage.remove_folder

    def wait(storage, job_id):
        deleting.set()
        assert written.wait(DEADLINE_S), "another writer was blocked"
        remove_folder(storage, job_id)

    monkeypatch.setattr(Storage, "remove_folder", wait)
    assert api.client.delete(f"/api/v1/jobs/{job.id}?permanent=true").status_code == 204
    with ThreadPoolExecutor(1) as pool:
        removal = pool.submit(api.app.state.file_remover.remove)
        assert deleting.wait(DEADLINE_S)
        with api.database.write() as session:
            projects.ensure(session, "another")
        written.set()
        removal.result()
    assert not folder.exists()


def test_a_clone_is_a_new_job_with_the_current_spec(api, make_job):
    job = make_job(State.FAILED, train={"epochs": 3})
    edited = {"name": "new", "labels": {"a": "b"}, "priority": 2}
    api.client.patch(f"/api/v1/jobs/{job.id}", json=edited)
    answer = api.client.post(f"/api/v1/jobs/{job.id}/clone")
    clone = answer.json()
    assert answer.status_code == 201
    assert answer.headers["Location"] == f"/api/v1/jobs/{clone['id']}"
    assert (clone["state"], clone["attempt"], clone["cloned_from"]) == ("queued", 0, job.id)
    assert {name: clone[name] for name in edited} == edited
    assert clone["spec"]["train"]["epochs"] == 3
    assert api.dispatcher.sent == [clone["id"]]


def test_fields_of_a_clone_can_be_set_and_dependent_defaults_change(api):
    half = {**SPEC, "precision": {"policy": "mixed_float16"}}
    job = api.client.post("/api/v1/jobs", json=half).json()
    values = {"precision.policy": "float32", "model.hidden": [16], "labels.x": "y"}
    answer = api.client.post(f"/api/v1/jobs/{job['id']}/clone", json={"set": values})
    spec = answer.json()["spec"]
    assert (spec["precision"]["policy"], spec["loss_scale"]) == ("float32", {"mode": "none"})
    assert (spec["name"], spec["model"]["hidden"]) == ("mlp-float32", [16])
    assert answer.json()["labels"] == {"x": "y"}


def cloned_spec(api, job, **values):
    paths = {name.replace("__", "."): value for name, value in values.items()}
    answer = api.client.post(f"/api/v1/jobs/{job.id}/clone", json={"set": paths})
    assert answer.status_code == 201, answer.text
    return answer.json()["spec"]


def test_a_field_of_a_section_with_a_default_kind_can_be_set_in_a_clone(api, make_job):
    job = make_job(precision={"policy": "mixed_float16"})
    assert cloned_spec(api, job, loss_scale__initial=8.0)["loss_scale"]["initial"] == 8.0
    spec = cloned_spec(api, job, optimizer__learning_rate=0.5)
    assert (spec["optimizer"]["kind"], spec["optimizer"]["learning_rate"]) == ("adam", 0.5)


def test_the_kind_of_a_section_can_be_changed_in_a_clone(api, make_job):
    job = make_job(optimizer={"learning_rate": 0.5})
    spec = cloned_spec(api, job, optimizer__kind="sgd", optimizer__schedule__kind="cosine")
    optimizer = spec["optimizer"]
    assert (optimizer["kind"], optimizer["learning_rate"]) == ("sgd", 0.5)
    assert "beta_1" not in optimizer
    assert optimizer["schedule"]["kind"] == "cosine"
    # The default rate of another kind is another one.
    assert cloned_spec(api, make_job(), optimizer__kind="sgd")["optimizer"]["learning_rate"] == 0.01


def test_a_value_that_the_new_kind_does_not_have_is_an_error(api, make_job):
    job = make_job(optimizer={"beta_1": 0.5})
    body = {"set": {"optimizer.kind": "sgd"}}
    answer = api.client.post(f"/api/v1/jobs/{job.id}/clone", json=body)
    assert [error["pointer"] for error in answer.json()["errors"]] == ["/optimizer/beta_1"]


@every_row(
    ("body", "code"),
    [
        ({"set": {"train.epochs": -1}}, "invalid_spec"),
        ({"set": {"train..epochs": 1}}, "invalid_spec"),
        ({"set": {"": 1}}, "invalid_spec"),
        ({"set": {"model.hidden.7": 1}}, "invalid_spec"),
        ({"set": {"name.x": 1}}, "invalid_spec"),
        ({"set": {"optimizer.kind": []}}, "invalid_spec"),
        ({"set": {"a..kind": "b"}}, "invalid_spec"),
        ({"set": {".".join("x" * 40) + ".kind": "b"}}, "invalid_spec"),
        ({"set": ["train.epochs=1"]}, "invalid_request"),
        ({"sett": {}}, "invalid_request"),
    ],
)
def test_an_invalid_clone_request_creates_no_job(api, make_job, body, code):
    job_id = make_job().id
    jobs_before = api.client.get("/api/v1/jobs").json()["items"]
    answer = api.client.post(f"/api/v1/jobs/{job_id}/clone", json=body)
    assert (answer.status_code, answer.json()["code"]) == (422, code)
    assert api.client.get("/api/v1/jobs").json()["items"] == jobs_before


@pytest.fixture
def finished(api, make_job):
    """Creates a succeeded job of 100 steps with a checkpoint after that many."""

    def make(*saved, started=None, summary=None, **spec):
        job = make_job(State.RUNNING, **spec)
        with api.database.write() as session:
            for number, step in enumerate(saved):
                name = f"attempt-1/checkpoints/checkpoint-{number:06}-step-{step}.safetensors"
                artifacts.add(
                    session, job.id, 1, StoredArtifact(name, CHECKPOINT, step, 1, "0" * 64)
                )
            if started is not None:
                event = Event(EventType.STARTED, None, started)
                ingest.append(session, job.id, 1, [event], entries_written=0)
            attempts.mark_succeeded(session, job.id, 1, summary or {})
        return job.id

    return make


def extend(api, job_id, **body):
    return api.client.post(f"/api/v1/jobs/{job_id}/extend", json=body)


def test_an_extension_is_a_new_job_with_more_epochs(api, finished):
    job_id = finished(50, 100, train={"epochs": 3}, labels={"team": "vision"})
    answer = extend(api, job_id, epochs=2)
    job = answer.json()
    assert answer.status_code == 201, answer.text
    assert answer.headers["Location"] == f"/api/v1/jobs/{job['id']}"
    assert (job["state"], job["extends"], job["cloned_from"]) == ("queued", job_id, None)
    assert (job["spec"]["train"]["epochs"], job["labels"]) == (5, {"team": "vision"})
    assert api.dispatcher.sent == [job["id"]]
    actions = [entry["action"] for entry in api.client.get("/api/v1/audit").json()["items"]]
    assert actions == ["job.extend"]


@pytest.fixture
def without_split_seed(api):
    """Stores the spec of a job as versions before 0.6 did."""

    def change(job_id):
        with api.database.write() as session:
            spec = dict(session.get(Job, job_id).spec)
            data = {name: value for name, value in spec["data"].items() if name != "split_seed"}
            session.execute(update(Job).where(Job.id == job_id).values(spec={**spec, "data": data}))
        return job_id

    return change


@pytest.mark.parametrize("action", ["clone", "extend"])
def test_jobs_of_versions_without_split_seed_keep_their_validation_rows(
    api, finished, without_split_seed, action
):
    """`train.seed` drew them; here the examples of synthetic data, too."""
    data = {"kind": "synthetic", "batch_size": 8, "examples": 1000}
    job_id = finished(100, data=data, train={"epochs": 3, "seed": 7})
    body = {"epochs": 1} if action == "extend" else {}
    new = api.client.post(f"/api/v1/jobs/{job_id}/{action}", json=body).json()
    assert new["spec"]["data"]["split_seed"] == 0
    old = api.client.post(f"/api/v1/jobs/{without_split_seed(job_id)}/{action}", json=body).json()
    assert old["spec"]["data"]["split_seed"] == 7


def test_a_job_with_a_number_of_steps_is_extended_by_the_steps_of_its_epochs(api, finished):
    job_id = finished(100, train={"steps": 100}, started={"steps_per_epoch": 30})
    assert extend(api, job_id, epochs=2).json()["spec"]["train"]["steps"] == 160


STOPPED = {"steps": 60, "stopped_early": {"epoch": 1, "metric": "val_loss", "best": 0.5}}


def test_a_job_that_stopped_early_is_complete(api, finished):
    job_id = finished(60, train={"epochs": 9, "early_stopping": {}}, summary=STOPPED)
    job = api.client.get(f"/api/v1/jobs/{job_id}").json()
    assert (job["total_steps"], job["summary"]["stopped_early"]["epoch"]) == (60, 1)


@pytest.mark.parametrize(
    ("length", "expected"), [({"epochs": 9}, {"epochs": 5}), ({"steps": 100}, {"steps": 150})]
)
def test_a_job_that_stopped_early_is_extended_from_its_last_epoch(api, finished, length, expected):
    train = {"early_stopping": {"patience": 4}, **length}
    job_id = finished(60, train=train, started={"steps_per_epoch": 30}, summary=STOPPED)
    extended = extend(api, job_id, epochs=3).json()["spec"]["train"]
    assert {name: extended[name] for name in expected} == expected
    assert extended["early_stopping"] == {"patience": 4, "min_delta": 0.0, "start_epoch": 2}


@every_row(
    ("saved", "train", "why"),
    [
        ([50], {}, "its last checkpoint is after 50 of 100 steps"),
        ([], {}, "none of its checkpoints is stored"),
        ([], {"checkpoint_every_s": None}, "checkpoint_every_s"),
        ([100], {"steps": 100}, "do not tell the steps of an epoch"),
    ],
)
def test_a_job_without_a_checkpoint_of_its_end_cannot_be_extended(api, finished, saved, train, why):
    answer = extend(api, finished(*saved, train=train), epochs=1)
    assert (answer.status_code, answer.json()["code"]) == (409, "conflict")
    assert why in answer.json()["detail"]


@pytest.mark.parametrize("state", [State.QUEUED, State.RUNNING, State.FAILED])
def test_only_a_succeeded_job_can_be_extended(api, make_job, state):
    answer = extend(api, make_job(state).id, epochs=1)
    assert answer.status_code == 409
    assert "expected the state succeeded" in answer.json()["detail"]


@every_row(
    "body", [{}, {"epochs": 0}, {"epochs": 1.5}, {"epochs": 10**9}, {"epochs": 1, "steps": 1}]
)
def test_an_invalid_extension_is_refused(api, finished, body):
    answer = extend(api, finished(100), **body)
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")


def test_a_job_of_another_project_cannot_be_extended(api, finished, client_with_role):
    client = client_with_role("member", "other")
    answer = client.post(f"/api/v1/jobs/{finished(100)}/extend", json={"epochs": 1})
    assert answer.status_code == 404
    viewer = client_with_role("viewer", "default")
    answer = viewer.post(f"/api/v1/jobs/{finished(100)}/extend", json={"epochs": 1})
    assert answer.status_code == 403


def test_a_repeated_extension_with_one_key_is_one_job(api, finished):
    path, headers = f"/api/v1/jobs/{finished(100)}/extend", {"Idempotency-Key": "once"}
    first, second = (
        api.client.post(path, json={"epochs": 1}, headers=headers).json() for _ in range(2)
    )
    assert first == second


def test_a_job_that_is_deleted_while_its_extension_is_submitted_is_not_found(
    api, finished, monkeypatch
):
    job_id = finished(100)
    monkeypatch.setattr(jobs, "lock_needed", lambda _session, _ids: set())
    answer = extend(api, job_id, epochs=1)
    assert answer.status_code == 404
    assert "was deleted while this request was processed" in answer.json()["detail"]


def test_a_job_is_not_deleted_while_an_unfinished_one_extends_it(api, finished):
    job_id = finished(100)
    extension = extend(api, job_id, epochs=1).json()["id"]
    answer = api.client.delete(f"/api/v1/jobs/{job_id}")
    assert answer.status_code == 409
    assert extension in answer.json()["detail"]
    api.client.post(f"/api/v1/jobs/{extension}/cancel")
    assert api.client.delete(f"/api/v1/jobs/{job_id}").status_code == 204


def test_every_change_is_audited(api, make_job):
    job = make_job(State.PAUSED).id
    headers = {"X-Request-ID": "a-request"}
    made = api.client.post("/api/v1/jobs", json=SPEC, headers=headers).json()
    assert made["request_id"] == "a-request"
    api.client.patch(f"/api/v1/jobs/{job}", json={"priority": 1})
    for action in ("resume", "pause", "cancel", "retry", "retry", "cancel"):
        api.client.post(f"/api/v1/jobs/{job}/{action}")
    clone = api.client.post(f"/api/v1/jobs/{job}/clone").json()["id"]
    api.client.delete(f"/api/v1/jobs/{job}")
    entries = reversed(api.client.get("/api/v1/audit").json()["items"])
    shown = [(entry["action"], entry["target"]) for entry in entries]
    done = ("edit", "resume", "pause", "cancel", "retry", "cancel")
    assert shown == [
        ("job.submit", made["id"]),
        *((f"job.{action}", job) for action in done),
        ("job.clone", clone),
        ("job.delete", job),
    ]


@every_row("job_id", ["0123456789ab", "x", "%00", "a" * 500, "0123456789AB"])
@every_row(
    "what",
    [
        *("GET ", "GET /steps", "GET /events", "GET /attempts", "PATCH ", "DELETE "),
        *("POST /cancel", "POST /pause", "POST /resume", "POST /retry", "POST /clone"),
    ],
)
def test_an_unknown_job_is_not_found(api, job_id, what):
    method, rest = what.split(" ")
    json = {} if method == "PATCH" else None
    answer = api.client.request(method, f"/api/v1/jobs/{job_id}{rest}", json=json)
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")


def test_a_profile_is_requested_for_a_number_of_steps(api, make_job, database):
    job = make_job(State.RUNNING).id
    for steps in ({}, {"steps": 200}):
        assert api.client.post(f"/api/v1/jobs/{job}/profile", json=steps).status_code == 200
        with database.read() as session:
            requested = jobs.get(session, job).requested
        assert jobs.profile_steps(requested) == steps.get("steps", 10)


@every_row("body", [{"steps": 0}, {"steps": 201}, {"steps": "10"}, {"step": 1}])
def test_a_wrong_number_of_steps_is_refused(api, make_job, body):
    answer = api.client.post(f"/api/v1/jobs/{make_job(State.RUNNING).id}/profile", json=body)
    assert answer.status_code == 422
