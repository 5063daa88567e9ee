import pytest
from sqlalchemy import update

from ampspec.jobs import State
from store.access import audit
from store.clock import from_now
from store.tables import Job, ProjectRetention
from tests.tables import every_row

RETENTION = "/api/v1/projects/default/retention"
RULE = {"delete": "jobs", "after_days": 30.0}
FILLED = {**RULE, "states": [], "labels": {}, "except_labels": {}, "keep": 1}


@pytest.fixture
def database_url(sqlite_url):
    """SQLite alone: the store has its own tests on both databases."""
    return sqlite_url


def test_rules_are_previewed_set_applied_and_removed(api, make_job, database):
    job_id = make_job(State.SUCCEEDED).id
    with database.write() as session:
        session.execute(update(Job).values(finished_at=from_now(-31 * 86_400)))
    assert api.client.get(RETENTION).json()["rules"] == []
    preview = api.client.post(f"{RETENTION}/preview", json={"rules": [RULE]}).json()
    match = {"rule": FILLED, "count": 1, "size_bytes": 0, "ids": [job_id]}
    assert preview == {"project": "default", "items": [match]}
    assert api.client.post(f"{RETENTION}/preview").json()["items"] == []
    answer = api.client.put(RETENTION, json={"rules": [RULE]})
    assert (answer.status_code, answer.json()["rules"]) == (200, [FILLED])
    assert answer.json() == api.client.get(RETENTION).json()
    assert answer.json()["changed_by"] == "test"
    assert api.client.post(f"{RETENTION}/preview").json() == preview
    api.app.state.retention_runner.apply_rules()
    assert api.client.get(f"/api/v1/jobs/{job_id}").status_code == 200  # an hour later
    with database.write() as session:
        session.execute(update(ProjectRetention).values(next_run_at=from_now(-1)))
    api.app.state.retention_runner.apply_rules()
    assert "is in the trash until" in api.client.get(f"/api/v1/jobs/{job_id}").json()["detail"]
    for _ in range(2):
        assert api.client.delete(RETENTION).status_code == 204
    assert api.client.get(RETENTION).json()["rules"] == []
    with database.read() as session:
        actions = [entry.action for entry in audit.page(session, limit=10)]
    assert actions == ["retention.remove", "retention.jobs", "retention.update"]


def test_rules_of_a_project_that_does_not_exist_cannot_be_previewed(api):
    for body in (None, {"rules": [RULE]}):
        answer = api.client.post("/api/v1/projects/visio/retention/preview", json=body)
        assert (answer.status_code, "There is no project 'visio'" in answer.text) == (404, True)


@every_row(
    ("pointer", "rule"),
    [
        ("/rules/0/delete", {**RULE, "delete": "models"}),
        ("/rules/0/after_days", {**RULE, "after_days": 0}),
        ("/rules/0/states/0", {**RULE, "states": ["running"]}),
        ("/rules/0/keep", {**RULE, "keep": 2}),
        ("/rules/0/days", {**RULE, "days": 2}),
    ],
)
def test_an_invalid_rule_is_refused(api, pointer, rule):
    answer = api.client.put(RETENTION, json={"rules": [rule]})
    assert answer.status_code == 422
    assert [error["pointer"] for error in answer.json()["errors"]] == [pointer]


def test_rules_are_read_by_their_project(api, client_with_role):
    assert client_with_role(role="viewer").get(RETENTION).status_code == 200
    assert client_with_role(project="elsewhere").get(RETENTION).status_code == 404
    nowhere = "/api/v1/projects/nowhere/retention"
    assert api.client.get(nowhere).status_code == 404
    assert api.client.put(nowhere, json={"rules": [RULE]}).status_code == 404
