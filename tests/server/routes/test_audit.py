from store.access import audit
from store.access.audit import Actor
from tests.databases import ON_SQLITE
from tests.tables import every_row

AUDIT = "/api/v1/audit"


def record(database, *actions, project="default", by="0123456789ab"):
    actor = Actor(project, by, "ada", "192.0.2.1", "req-1")
    with database.write() as session:
        for action in actions:
            audit.record(session, actor, action, "target", some="thing")


def actions(api, **wanted):
    answer = api.client.get(AUDIT, params=wanted)
    assert answer.status_code == 200, answer.text
    return [entry["action"] for entry in answer.json()["items"]]


@ON_SQLITE
def test_an_audit_entry_has_all_fields(api, database):
    record(database, "job.cancel")
    (entry,) = api.client.get(AUDIT).json()["items"]
    assert (entry["action"], entry["target"], entry["project"]) == (
        "job.cancel",
        "target",
        "default",
    )
    assert (entry["token_id"], entry["token_name"]) == ("0123456789ab", "ada")
    assert (entry["address"], entry["request_id"]) == ("192.0.2.1", "req-1")
    assert entry["data"] == {"some": "thing"}


def test_entries_are_filtered(api, database):
    record(database, "job.submit", "job.cancel")
    record(database, "job.submit", project="vision", by="ba9876543210")
    assert actions(api, action="job.submit") == ["job.submit"] * 2
    assert actions(api, project="default") == ["job.cancel", "job.submit"]
    assert actions(api, token_id="ba9876543210", action="job.submit") == ["job.submit"]
    assert actions(api, action="no.such") == []


def test_pages_have_every_entry_once(api, database):
    record(database, *(f"action.{number}" for number in range(7)))
    seen, cursor = [], None
    for _ in range(4):
        page = api.client.get(AUDIT, params={"limit": 2, **({"cursor": cursor} if cursor else {})})
        seen += [entry["action"] for entry in page.json()["items"]]
        cursor = page.json()["next_cursor"]
    assert seen == [f"action.{number}" for number in reversed(range(7))]
    assert cursor is None


@ON_SQLITE
@every_row(
    "query", ["cursor=x", "cursor=0", "cursor=9999999999999999999", "limit=0", "limit=101",
              "action=%00", "who=ada"],
)  # fmt: skip
def test_an_invalid_query_is_refused(api, query):
    answer = api.client.get(f"{AUDIT}?{query}")
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")


@ON_SQLITE
def test_an_audit_entry_has_the_request_id(api):
    headers = {"X-Request-ID": "the-request"}
    api.client.post("/api/v1/tokens", json={"name": "new"}, headers=headers)
    (entry,) = api.client.get(AUDIT).json()["items"]
    assert entry["request_id"] == "the-request"
