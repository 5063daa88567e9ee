"""Damaged rows, and rows of a newer version: readable fields are shown, other rows not affected."""

import asyncio
import json

import pytest
from sqlalchemy import text

from ampspec.jobs import State
from server.jobs.job_reader import JobReader
from store import workers

NEW_CODES = {"state": "archived", "reason": "preempted"}


@pytest.fixture
def write(api):
    """Change a row as another program would."""

    def execute(statement, **parameters):
        with api.database.write() as session:
            session.execute(text(statement), parameters)

    return execute


@pytest.fixture
def newer_job(make_job, write):
    """A job with a state and a reason that this version does not know."""
    job_id = make_job(State.FAILED, name="of a newer version").id
    write("UPDATE jobs SET state = :state, reason = :reason WHERE id = :id", id=job_id, **NEW_CODES)
    return job_id


@pytest.fixture
def damaged_job(api, make_job, write):
    """A job whose labels are no JSON (SQLite), or no object (PostgreSQL), with an invalid time."""
    job_id = make_job(State.RUNNING, name="damaged").id
    if api.database.engine.dialect.name == "sqlite":
        columns = """labels = '{"a', started_at = 'yesterday'"""
    else:
        columns = """labels = '["a"]', started_at = 'infinity'"""
    write(f"UPDATE jobs SET {columns} WHERE id = :id", id=job_id)  # noqa: S608
    return job_id


def get(api, path, **query):
    answer = api.client.get(f"/api/v1{path}", params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_unknown_codes_are_shown_as_they_are(api, newer_job):
    job = get(api, f"/jobs/{newer_job}")
    assert {name: job[name] for name in NEW_CODES} == NEW_CODES
    assert "unreadable" not in job
    [listed] = get(api, "/jobs")["items"]
    assert listed["reason"] == "preempted"


def test_every_record_shows_unknown_codes(api, make_job, write):
    job_id = make_job(State.FAILED).id
    write("UPDATE attempts SET reason = 'preempted', outcome = 'moved'")
    write("UPDATE events SET type = 'migrated'")
    write(
        "INSERT INTO log_chunks (job_id, seq, attempt, stream, text, created_at) "
        "SELECT job_id, 90, attempt, 'trace', 'text', created_at FROM events LIMIT 1"
    )
    write(
        "INSERT INTO artifacts (job_id, path, attempt, kind, size_bytes, sha256, seq, created_at) "
        "SELECT job_id, 'a', attempt, 'profile', 1, '', 91, created_at FROM events LIMIT 1"
    )
    write("UPDATE jobs SET seq = 91")
    [attempt] = get(api, f"/jobs/{job_id}/attempts")["items"]
    assert (attempt["reason"], attempt["outcome"]) == ("preempted", "moved")
    assert {event["type"] for event in get(api, f"/jobs/{job_id}/events")["items"]} == {"migrated"}
    assert get(api, f"/jobs/{job_id}/logs")["items"][0]["stream"] == "trace"
    assert get(api, f"/jobs/{job_id}/artifacts")["items"][0]["kind"] == "profile"
    stream = api.client.get(f"/api/v1/jobs/{job_id}/stream").text
    assert '"migrated"' in stream
    assert '"trace"' in stream


def test_a_token_with_an_unknown_role_is_listed_and_refused(api, client_with_role, write):
    newer = client_with_role("viewer")
    write("UPDATE tokens SET role = 'auditor' WHERE role = 'viewer'")
    answer = newer.get("/api/v1/jobs")
    assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
    assert "'auditor'" in answer.json()["detail"]
    assert "auditor" in {token["role"] for token in get(api, "/tokens")["items"]}


def test_jobs_with_unknown_codes_can_be_compared(api, newer_job, make_job):
    other = make_job(State.SUCCEEDED).id
    compared = get(api, "/compare", jobs=f"{newer_job},{other}")
    assert [each["job"]["state"] for each in compared["jobs"]] == ["archived", "succeeded"]


def test_an_action_on_a_job_in_an_unknown_state_names_the_state(api, newer_job):
    answer = api.client.post(f"/api/v1/jobs/{newer_job}/resume")
    assert (answer.status_code, answer.json()["code"]) == (409, "conflict")
    assert "'archived'" in answer.json()["detail"]


def test_a_damaged_row_is_shown_with_what_can_be_read(api, damaged_job, make_job, caplog):
    """Fails without `read_partially`: the list, and each read in the same batch, gets 500."""
    others = {make_job().id, make_job().id}
    job = get(api, f"/jobs/{damaged_job}")
    assert job["unreadable"] == ["labels", "started_at"]
    assert (job["name"], job["state"], job["labels"]) == ("damaged", "running", {})
    assert job["started_at"] is None
    listed = {each["id"]: each for each in get(api, "/jobs")["items"]}
    assert listed.keys() == {damaged_job, *others}
    assert listed[damaged_job] == {name: job[name] for name in job.keys() - {"spec"}}
    assert not any("unreadable" in listed[other] for other in others)
    records = [r.getMessage() for r in caplog.records if damaged_job in r.getMessage()]
    assert len(records) == 2  # once for the job, once for the list
    assert all("labels, started_at" in record for record in records)


def test_a_list_shows_jobs_with_a_damaged_spec(api, make_job, write):
    """Lists read fields of the spec, which fails in SQLite if the spec is not JSON."""
    damaged, other = make_job(), make_job()
    bad = (
        '{"da' if api.database.engine.dialect.name == "sqlite" else '{"data": {"batch_size": "x"}}'
    )
    write("UPDATE jobs SET spec = :spec WHERE id = :id", spec=bad, id=damaged.id)
    listed = {each["id"]: each for each in get(api, "/jobs")["items"]}
    assert listed[damaged.id]["name"] == damaged.name
    assert listed[other.id]["examples_per_step"] == other.spec["data"]["batch_size"]


def test_a_damaged_worker_breaks_neither_lists_nor_checks_nor_metrics(api, make_job, write):
    with api.database.write() as session:
        known = {"hostname": "h", "pid": 1, "version": "1", "queues": ["default"]}
        for name in ("good", "bad"):
            workers.register(session, name, slots=1, **known)
    bad = "{" if api.database.engine.dialect.name == "sqlite" else '"text"'
    columns = f"queues = '{bad}', hardware = '{bad}', usage = '{bad}'"
    write(f"UPDATE workers SET {columns} WHERE id = 'bad'")  # noqa: S608
    listed = {worker["id"]: worker for worker in get(api, "/workers")["items"]}
    assert listed["bad"]["unreadable"] == ["hardware", "queues", "usage"]
    assert listed["good"]["queues"] == ["default"]
    spec = {"model": {"kind": "mlp"}, "data": {"kind": "digits"}}
    assert api.client.post("/api/v1/jobs/validate", json=spec).status_code == 200
    assert "ampcore_workers" in api.client.get("/metrics").text
    assert "number 1" in get(api, f"/jobs/{make_job().id}")["waiting"]


def test_pages_continue_after_a_damaged_row(api, damaged_job, make_job):
    made = {damaged_job, make_job().id, make_job().id}
    seen, cursor = [], {}
    while cursor is not None:
        found = get(api, "/jobs", limit=1, **cursor)
        seen += [job["id"] for job in found["items"]]
        cursor = {"cursor": found["next_cursor"]} if found["next_cursor"] else None
    assert sorted(seen) == sorted(made)


def test_concurrent_reads_of_other_jobs_succeed(database, api, damaged_job, make_job):
    """Fails if one error fails all reads of a batch."""
    job_reader = JobReader(database)
    good = make_job().id

    async def ask():
        wanted = [damaged_job, good] * 5
        return await asyncio.gather(*(job_reader.read(job_id) for job_id in wanted))

    assert {json.loads(one.response.body)["id"] for one in asyncio.run(ask())} == {
        damaged_job,
        good,
    }


def test_an_error_in_reading_one_job_fails_only_its_own_request(database, make_job, monkeypatch):
    """A bug that one row triggers must not fail requests for other rows."""
    from server.jobs import job_reader as module

    bad, good = make_job(name="bad").id, make_job().id
    job_of = module.job_from_row

    def fails_for_one(row, waiting=None):
        if row.id == bad:
            raise RuntimeError("a bug")
        return job_of(row, waiting)

    monkeypatch.setattr(module, "job_from_row", fails_for_one)
    job_reader = JobReader(database)

    async def ask():
        asked = (job_reader.read(job_id) for job_id in (bad, good))
        return await asyncio.gather(*asked, return_exceptions=True)

    error, found = asyncio.run(ask())
    assert isinstance(error, RuntimeError)
    assert json.loads(found.response.body)["id"] == good


def test_a_damaged_job_has_its_place_in_a_list_sorted_by_a_metric(
    api, damaged_job, make_job, write
):
    others = [make_job(State.RUNNING).id for _ in range(2)]
    values = {others[0]: 0.25, damaged_job: 0.5, others[1]: 0.75}
    for job_id, value in values.items():
        write(
            "INSERT INTO job_metrics (job_id, name, value, updated_at) "
            "VALUES (:id, 'val_loss', :value, '2020-01-01')",
            id=job_id,
            value=value,
        )
    seen, cursor = [], {}
    while cursor is not None:
        page = get(api, "/jobs", sort="val_loss", limit=1, **cursor)
        seen += [job["id"] for job in page["items"]]
        cursor = {"cursor": page["next_cursor"]} if page["next_cursor"] else None
    assert seen == [*values]


def test_damaged_metrics_of_a_job_are_unreadable(api, make_job, write):
    job_id = make_job(State.RUNNING).id
    damaged = "'[1'" if api.database.engine.dialect.name == "sqlite" else "'[1]'"
    write(f"UPDATE jobs SET metrics = {damaged} WHERE id = :id", id=job_id)  # noqa: S608
    job = get(api, f"/jobs/{job_id}")
    assert (job["metrics"], job["unreadable"]) == (None, ["metrics"])
    [listed] = get(api, "/jobs")["items"]
    assert listed["unreadable"] == ["metrics"]
