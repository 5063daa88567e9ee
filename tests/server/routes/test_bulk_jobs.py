"""Cancel, delete and label all jobs that match a filter, and submit several jobs at once."""

import pytest
from sqlalchemy import func, select, text

from ampspec.jobs import State
from server.request_bodies import MAX_SPECS as MAX_SUBMITTED
from store.access import idempotency, projects
from store.jobs import jobs
from store.listing import bulk_changes
from store.listing.search_filters import Search
from store.tables import Attempt, AuditEntry, EventRow, FileRemoval, Job
from tests.databases import ON_POSTGRESQL
from tests.tables import every_row

SPEC = {"model": {"kind": "mlp"}, "data": {"kind": "digits"}}


@pytest.fixture
def post(api):
    """POST to a route of jobs; returns the JSON document."""

    def post(action, query="", *, client=None, status=200, key=None, **body):
        headers = {"Idempotency-Key": key} if key else {}
        response = (client or api.client).post(
            f"/api/v1/jobs/{action}{query}", headers=headers, **body
        )
        assert response.status_code == status, response.text
        return response.json()

    return post


def states(database, *ids):
    with database.read() as session:
        return [jobs.get(session, job_id).state for job_id in ids]


def count(database, table, **values):
    with database.read() as session:
        return session.scalar(select(func.count()).select_from(table).filter_by(**values))


def test_waiting_jobs_are_cancelled_and_running_ones_are_asked_to_stop(
    api, database, make_job, post
):
    labels = {"labels": {"team": "vision"}}
    waiting = [make_job(**labels).id, make_job(State.PAUSED, **labels).id]
    running = [make_job(state, **labels).id for state in (State.RUNNING, State.PAUSING)]
    ended = make_job(State.SUCCEEDED, **labels).id
    other = make_job().id
    changed = post("cancel", "?label=team%3Dvision")
    assert sorted(changed["ids"]) == sorted(waiting + running)
    assert changed["more"] is False
    assert states(database, *waiting) == ["cancelled"] * 2
    assert states(database, *running) == ["stopping"] * 2
    assert states(database, ended, other) == ["succeeded", "queued"]
    assert post("cancel", "?label=team%3Dvision") == {"ids": [], "more": False}


def test_a_cancelled_job_is_as_one_that_was_cancelled_alone(database, make_job, post):
    alone, together = make_job(), make_job(labels={"team": "vision"})
    post(f"{alone.id}/cancel")
    post("cancel", "?label=team")
    with database.read() as session:
        rows = [jobs.get(session, job.id) for job in (alone, together)]
        logs = [
            [
                (event.seq, event.type, event.data)
                for event in session.scalars(
                    select(EventRow).filter_by(job_id=row.id).order_by(EventRow.seq)
                )
            ]
            for row in rows
        ]
    different = {"id", "name", "labels", "spec", "created_at", "queued_at", "dispatched_at"}
    different |= {"updated_at", "changed_at", "finished_at", "turn_at"}
    names = {column.name for column in Job.__table__.columns} - different
    assert {n: getattr(rows[0], n) for n in names} == {n: getattr(rows[1], n) for n in names}
    assert None not in (rows[1].finished_at, rows[1].updated_at, rows[1].changed_at)
    assert logs[0] == logs[1]


def test_ended_jobs_are_deleted_with_all_that_belongs_to_them(database, make_job, post):
    gone = [make_job(state).id for state in (State.SUCCEEDED, State.FAILED, State.CANCELLED)]
    running = make_job(State.RUNNING).id
    assert sorted(post("delete", "?policy=float32&permanent=true")["ids"]) == sorted(gone)
    assert states(database, running) == ["running"]
    for table in (EventRow, Attempt):
        with database.read() as session:
            assert set(session.scalars(select(table.job_id))) == {running}
    with database.read() as session:
        assert set(session.scalars(select(FileRemoval.folder))) == set(gone)


def test_a_job_that_an_unfinished_one_extends_stays(database, make_job, make_spec, post):
    needed, free = make_job(State.SUCCEEDED).id, make_job(State.SUCCEEDED).id
    with database.write() as session:
        jobs.create(session, make_spec(), jobs.Origin("default", extends=needed))
    assert post("delete", "?state=succeeded")["ids"] == [free]
    assert states(database, needed) == ["succeeded"]


def test_a_request_changes_a_number_of_jobs_and_says_whether_there_are_more(make_job, post):
    ids = sorted(make_job().id for _ in range(5))
    seen = []
    for expected in (2, 2, 1):
        changed = post("cancel", "?state=queued&limit=2")
        assert len(changed["ids"]) == expected
        assert changed["more"] is (len(seen) + expected < 5)
        seen += changed["ids"]
    assert seen == ids


def test_a_deletion_that_takes_long_is_left_to_further_requests(
    database, make_job, post, monkeypatch
):
    """Fails if all jobs are deleted by one statement, which may never end within its limit."""
    ids = sorted(make_job(State.SUCCEEDED).id for _ in range(3))
    monkeypatch.setattr("store.listing.bulk_changes.MAX_DELETION_S", 0.0)
    for number, job_id in enumerate(ids):
        changed = post("delete", "?state=succeeded&permanent=true")
        assert changed == {"ids": [job_id], "more": number < 2}
    assert count(database, FileRemoval) == 3


@pytest.fixture
def slow_deletion(database):
    """Let the deletion of each job take a second; later tests use the same database."""
    slow = (
        "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN PERFORM pg_sleep(1.1); RETURN OLD; END $$",
        "CREATE TRIGGER slow BEFORE DELETE ON jobs FOR EACH ROW EXECUTE FUNCTION slow()",
    )
    with database.write() as session:
        for statement in slow:
            session.execute(text(statement))
    yield
    with database.write() as session:
        session.execute(text("DROP FUNCTION slow() CASCADE"))


@ON_POSTGRESQL
def test_a_deletion_has_the_limit_of_a_statement_for_each_job(database, make_job, slow_deletion):
    """Three jobs, each of which takes longer to delete than a third of the limit."""
    ids = {make_job(State.SUCCEEDED).id for _ in range(3)}
    with database.write() as session:
        session.execute(text("SET LOCAL statement_timeout = '3s'"))
        search = Search(states=(State.SUCCEEDED,))
        change = bulk_changes.delete_matching(session, search, limit=10)
    assert {job.id for job in change.jobs} == ids


@pytest.mark.parametrize("action", ["cancel", "delete"])
def test_a_request_without_a_filter_changes_nothing(database, make_job, post, action):
    ids = [make_job(State.CANCELLED).id, make_job().id]
    for query in ("", "?limit=10", "?explanations=true"):
        problem = post(action, query, status=422)
        assert problem["errors"][0]["pointer"] == "/query"
    assert states(database, *ids) == ["cancelled", "queued"]


@pytest.mark.parametrize("action", ["cancel", "delete"])
def test_the_project_of_a_member_is_no_filter(database, make_job, post, client_with_role, action):
    ids = [make_job(State.CANCELLED).id, make_job().id]
    member = client_with_role()
    for query in ("", "?limit=10", "?explanations=true"):
        assert post(action, query, client=member, status=422)["errors"][0]["pointer"] == "/query"
    assert states(database, *ids) == ["cancelled", "queued"]
    assert len(post(action, "?project=default", client=member)["ids"]) == 1


@pytest.mark.parametrize("action", ["cancel", "delete"])
def test_an_empty_filter_changes_nothing(database, make_job, post, client_with_role, action):
    """As from an unset variable of a shell; it would match all jobs, or those of the others."""
    ids = [make_job(State.CANCELLED).id, make_job().id]
    for client in (None, client_with_role()):
        for name in ("q", "study"):
            for more in ("", "&state=queued&state=cancelled"):
                problem = post(action, f"?{name}={more}", client=client, status=422)
                assert problem["errors"][0]["pointer"] == f"/query/{name}"
    assert states(database, *ids) == ["cancelled", "queued"]


def test_a_member_changes_only_jobs_of_its_project(database, make_job, post, client_with_role):
    here, there = make_job().id, make_job(project="elsewhere").id
    member = client_with_role()
    assert post("cancel", "?state=queued", client=member)["ids"] == [here]
    assert states(database, there) == ["queued"]
    post("cancel", "?project=elsewhere", client=member, status=403)
    assert post("cancel", "?project=elsewhere")["ids"] == [there]


def test_each_job_has_an_entry_in_the_audit_log(database, make_job, post):
    ids = {make_job().id, make_job(project="elsewhere").id}
    post("cancel", "?state=queued")
    post("delete", "?state=cancelled")
    with database.read() as session:
        for action in ("job.cancel", "job.delete"):
            entries = session.scalars(select(AuditEntry).filter_by(action=action)).all()
            assert {entry.target for entry in entries} == ids
            assert {entry.project for entry in entries} == {"default", "elsewhere"}
            assert {entry.token_name for entry in entries} == {"test"}
            assert all(entry.data == {"by_filter": True} for entry in entries)


def test_a_repeated_request_has_the_same_response(make_job, post):
    ids = [make_job(labels={"run": "1"}).id]
    first = post("cancel", "?label=run%3D1", key="mine")
    make_job(labels={"run": "1"})
    assert post("cancel", "?label=run%3D1", key="mine") == first == {"ids": ids, "more": False}
    post("cancel", "?state=queued", key="mine", status=422)  # another request


def test_labels_of_several_jobs_are_set_and_removed(database, make_job, post):
    both = make_job(labels={"team": "speech", "draft": "1", "run": "7"}).id
    running = make_job(State.RUNNING).id
    other = make_job(labels={"team": "speech"}).id
    changes = {"labels": {"team": "vision", "draft": None}}
    changed = post("label", f"?id={both},{running}", json=changes)
    assert (sorted(changed["ids"]), changed["more"]) == (sorted([both, running]), False)
    with database.read() as session:
        labels = [jobs.get(session, job_id).labels for job_id in (both, running, other)]
    assert labels == [{"team": "vision", "run": "7"}, {"team": "vision"}, {"team": "speech"}]
    assert post("label", f"?id={both},{running}", json=changes) == {"ids": [], "more": False}
    assert count(database, AuditEntry, action="job.edit") == 2
    assert count(database, EventRow, job_id=both, type="edited") == 1


def test_jobs_that_have_the_labels_already_do_not_count_towards_the_limit(make_job, post):
    ids = sorted(make_job().id for _ in range(3))
    changes = {"labels": {"team": "vision"}}
    seen = []
    for expected in (2, 1):
        changed = post("label", "?state=queued&limit=2", json=changes)
        assert (len(changed["ids"]), changed["more"]) == (expected, expected == 2)
        seen += changed["ids"]
    assert seen == ids


def test_no_job_is_labelled_if_one_would_have_too_many_labels(database, make_job, post):
    free = make_job().id
    full = make_job(labels={f"key {n}": "" for n in range(64)}).id
    problem = post("label", "?state=queued", status=409, json={"labels": {"team": "vision"}})
    assert "at most 64 labels" in problem["detail"]
    assert full in problem["detail"]
    with database.read() as session:
        assert jobs.get(session, free).labels == {}
    exchange = {"labels": {"team": "vision", "key 0": None}}
    assert full in post("label", "?state=queued", json=exchange)["ids"]


@every_row(
    "document",
    [
        {},
        {"labels": {}},
        {"labels": []},
        {"labels": {"": "x"}},
        {"labels": {"a": 1}},
        {"label": {}},
    ],
)
def test_a_body_without_valid_labels_is_refused(post, document):
    assert (
        "/label"
        in post("label", "?state=queued", status=422, json=document)["errors"][0]["pointer"]
    )


def test_several_jobs_are_submitted_together(api, database, dispatcher, post):
    specs = [{**SPEC, "name": f"job {n}"} for n in range(3)]
    items = post("batch", status=201, json={"specs": specs})["items"]
    assert [job["name"] for job in items] == [f"job {n}" for n in range(3)]
    assert [job["state"] for job in items] == ["queued"] * 3
    assert dispatcher.sent == [job["id"] for job in items]
    assert count(database, AuditEntry, action="job.submit") == 3
    read = api.client.get(f"/api/v1/jobs/{items[0]['id']}").json()
    assert read["spec"] == items[0]["spec"]


def test_of_several_jobs_none_is_queued_if_one_is_invalid(database, dispatcher, post):
    broken = {**SPEC, "modle": 1}
    problem = post("batch", status=422, json={"specs": [SPEC, broken, {"model": {"kind": "x"}}]})
    pointers = {one["pointer"] for one in problem["errors"]}
    assert "/specs/1/modle" in pointers
    assert any(pointer.startswith("/specs/2/") for pointer in pointers)
    assert not any(pointer.startswith("/specs/0") for pointer in pointers)
    assert count(database, Job) == 0
    assert dispatcher.sent == []


def test_of_several_jobs_none_is_queued_over_the_quota(database, post):
    with database.write() as session:
        projects.update(session, "default", {"max_queued": 2})
    problem = post("batch", status=429, json={"specs": [SPEC] * 3})
    assert problem["code"] == "quota_exceeded"
    assert count(database, Job) == 0
    assert len(post("batch", status=201, json={"specs": [SPEC] * 2})["items"]) == 2


@every_row("document", [[], {}, {"specs": []}, {"specs": {}}, {"specs": [SPEC], "more": 1}, 3])
def test_a_body_without_specs_is_refused(post, document):
    assert post("batch", status=422, json=document)["errors"][0]["pointer"] == ""


def test_more_specs_than_fit_are_refused(post):
    post("batch", status=422, json={"specs": [{}] * (MAX_SUBMITTED + 1)})


def test_a_repeated_submission_returns_the_same_jobs(database, dispatcher, post, monkeypatch):
    first = post("batch", status=201, key="mine", json={"specs": [SPEC] * 2})
    assert post("batch", status=201, key="mine", json={"specs": [SPEC] * 2}) == first
    # As two that arrive at once: the second one finds the response in its transaction only.
    monkeypatch.setattr(idempotency, "find", lambda *_: None)
    assert post("batch", status=201, key="mine", json={"specs": [SPEC] * 2}) == first
    assert count(database, Job) == 2
    assert len(dispatcher.sent) == 2


def test_code_of_several_jobs_needs_its_right(client_with_role, post):
    bundle = {**SPEC, "model": {"kind": "bundle", "bundle": "sha256:" + "0" * 64}}
    post("batch", status=403, client=client_with_role(), json={"specs": [SPEC, bundle]})
