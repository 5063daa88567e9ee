from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import update

from store.access import audit, tokens
from store.clock import from_now
from store.tables import Token
from tests.tables import every_row


@pytest.fixture
def database_url(sqlite_url):
    """SQLite alone: the store has its own tests on both databases."""
    return sqlite_url


TOKENS = "/api/v1/tokens"


def make(api, **values):
    answer = api.client.post(TOKENS, json={"name": "ada", **values})
    assert answer.status_code == 201, answer.text
    return answer.json()


def get_with(api, secret, path="/api/v1/session"):
    return api.anonymous.get(path, headers={"Authorization": f"Bearer {secret}"})


def test_a_created_token_has_its_role_and_project(api):
    made = make(api, role="viewer", project="vision")
    assert (made["role"], made["project"], made["created_by"]) == ("viewer", "vision", "test")
    who = get_with(api, made["secret"]).json()
    assert (who["token_id"], who["role"], who["project"]) == (made["id"], "viewer", "vision")


def test_a_token_is_a_member_of_the_default_project_by_default(api):
    made = make(api)
    assert (made["role"], made["project"], made["expires_at"]) == ("member", "default", None)


def test_a_secret_is_returned_only_at_creation(api):
    answer = api.client.post(TOKENS, json={"name": "ada"})
    assert answer.headers["Cache-Control"] == "no-store"
    secret = answer.json()["secret"]
    for path in (TOKENS, "/api/v1/audit"):
        text = api.client.get(path).text
        assert secret not in text
        assert tokens.digest_of(secret) not in text


def test_the_expiry_of_a_token_is_returned(api):
    ends = datetime.now(UTC) + timedelta(days=30)
    made = make(api, expires_at=ends.isoformat())
    assert abs(datetime.fromisoformat(made["expires_at"]) - ends) < timedelta(milliseconds=1)
    assert get_with(api, made["secret"]).json()["expires_at"] == made["expires_at"]


@every_row(
    "body",
    [
        {"scopes": ["jobs:run-code"]},
        {"rights": ["code"]},  # as version 0.5 sends it
    ],
)
def test_a_token_has_the_scopes_of_its_creation(api, body):
    assert make(api)["scopes"] == []
    made = make(api, **body)
    session = get_with(api, made["secret"]).json()
    [listed] = [row for row in api.client.get(TOKENS).json()["items"] if row["id"] == made["id"]]
    for document in (made, session, listed):
        assert (document["scopes"], document["rights"]) == (["jobs:run-code"], ["code"])


INVALID = [
    {"name": "ada", "scopes": ["god"]},
    {"name": "ada", "scopes": ["jobs:run-code", "jobs:run-code"]},
    {"name": "ada", "scopes": "jobs:run-code"},
    {"name": "ada", "rights": ["god"]},
    {"name": "ada", "scopes": [], "rights": ["code"]},
    {},
    {"name": ""},
    {"name": "x" * 201},
    {"name": "two\nlines"},
    {"name": "nul\0"},
    {"name": "ada", "role": "god"},
    {"name": "ada", "project": "../etc"},
    {"name": "ada", "project": ""},
    {"name": "ada", "secret": "amp_mine"},
    {"name": "ada", "expires_at": "2020-01-01T00:00:00Z"},
    {"name": "ada", "expires_at": "2099-01-01T00:00:00"},
    {"name": "ada", "expires_at": "9999-12-31T23:59:59-23:00"},
]


@every_row("body", INVALID)
def test_an_invalid_request_creates_no_token(api, body):
    answer = api.client.post(TOKENS, json=body)
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")
    assert len(api.client.get(TOKENS).json()["items"]) == 1


def test_a_body_with_the_old_name_of_a_field_beside_the_new_one_says_so(api):
    body = {"name": "ada", "scopes": ["jobs:run-code"], "rights": ["code"]}
    [problem] = api.client.post(TOKENS, json=body).json()["errors"]
    assert problem["pointer"] == "/body"
    assert problem["detail"] == (
        "Expected either 'scopes' or 'rights', which is its old name: send one of them; "
        "received both."
    )


def test_tokens_are_listed_newest_first_with_their_revocation(api):
    made = make(api)
    api.client.delete(f"{TOKENS}/{made['id']}")
    first, second = api.client.get(TOKENS).json()["items"]
    assert (first["id"], first["name"], second["name"]) == (made["id"], "ada", "test")
    assert first["revoked_at"] is not None
    assert second["revoked_at"] is None
    assert "secret" not in first


@every_row("limit", [1, 2, 3, 100])
def test_pages_list_every_token_once_newest_first(api, database, limit):
    """Fails if tokens that were created at the same moment are left out between two pages."""
    ids = [make(api)["id"] for _ in range(5)]
    with database.write() as session:
        session.execute(update(Token).values(created_at=from_now(-60)))
        session.execute(update(Token).where(Token.id == ids[3]).values(created_at=from_now(0)))
    everything = [token["id"] for token in api.client.get(TOKENS).json()["items"]]
    assert everything[0] == ids[3]
    listed, cursor = [], {}
    while cursor is not None:
        page = api.client.get(TOKENS, params={"limit": limit, **cursor}).json()
        assert len(page["items"]) <= limit
        listed += [token["id"] for token in page["items"]]
        cursor = page["next_cursor"] and {"cursor": page["next_cursor"]}
    assert listed == everything


@every_row("cursor", ["x", "1", "-t", "99999999999999999-t", "1-"])
def test_a_wrong_cursor_is_refused(api, cursor):
    assert api.client.get(TOKENS, params={"cursor": cursor}).status_code == 422


def test_a_revoked_token_is_refused_at_once(api):
    made = make(api)
    assert get_with(api, made["secret"]).status_code == 200
    answer = api.client.delete(f"{TOKENS}/{made['id']}")
    assert (answer.status_code, answer.content) == (204, b"")
    assert get_with(api, made["secret"]).status_code == 401


def test_revoking_a_token_twice_is_audited_once(api, database):
    made = make(api)
    for _ in range(2):
        assert api.client.delete(f"{TOKENS}/{made['id']}").status_code == 204
    with database.read() as session:
        assert len(audit.page(session, action="token.revoke", limit=10)) == 1


@every_row("token_id", ["0123456789ab", "%00", "x" * 1000, "..%2f"])
def test_revoking_an_unknown_token_fails(api, token_id):
    answer = api.client.delete(f"{TOKENS}/{token_id}")
    assert answer.status_code in (404, 422)
    assert answer.headers["Content-Type"] == "application/problem+json"


def test_the_last_admin_token_cannot_be_revoked(api):
    make(api, role="member")
    own = api.client.get("/api/v1/session").json()["token_id"]
    answer = api.client.delete(f"{TOKENS}/{own}")
    assert (answer.status_code, answer.json()["code"]) == (409, "last_admin")
    assert api.client.get(TOKENS).status_code == 200


def test_creating_and_revoking_tokens_is_audited(api, database):
    made = make(api, role="viewer", project="vision")
    api.client.delete(f"{TOKENS}/{made['id']}")
    with database.read() as session:
        revoked, created = audit.page(session, limit=10)
    assert (revoked.action, revoked.target) == ("token.revoke", made["id"])
    assert (created.action, created.target) == ("token.create", made["id"])
    assert created.data == {"name": "ada", "role": "viewer", "scopes": []}
    assert {entry.project for entry in (revoked, created)} == {"vision"}
    assert {entry.token_name for entry in (revoked, created)} == {"test"}


def test_a_token_is_rotated_with_a_grace_for_the_former_secret(api, database):
    made = make(api, scopes=["jobs:run-code"])
    address = f"{TOKENS}/{made['id']}/rotate"
    answers = [
        api.client.post(address, json={"grace_s": 60}, headers={"Idempotency-Key": "mine"})
        for _ in range(2)
    ]
    assert [answer.status_code for answer in answers] == [200, 200]
    rotated = answers[0].json()
    assert answers[1].json() == rotated
    assert rotated == {**made, "secret": rotated["secret"]}
    assert rotated["secret"] != made["secret"]
    for secret in (made["secret"], rotated["secret"]):
        assert get_with(api, secret).json()["token_id"] == made["id"]
    last = api.client.post(address, json={"grace_s": 0}).json()
    for secret, status in ((made, 401), (rotated, 401), (last, 200)):
        assert get_with(api, secret["secret"]).status_code == status
    assert api.client.post(f"{TOKENS}/0123/rotate").status_code == 404
    assert api.client.post(address, json={"grace_s": 1e9}).status_code == 422
    api.client.delete(f"{TOKENS}/{made['id']}")
    assert api.client.post(address).status_code == 409
    with database.read() as session:
        entries = audit.page(session, action="token.rotate", limit=10)
        assert [entry.data for entry in entries] == [
            {"name": "ada", "grace_s": 0.0},
            {"name": "ada", "grace_s": 60.0},
        ]


def test_an_admin_of_a_project_manages_it_and_nothing_else(api, client_with_role, database):
    """It gives nobody more than it has, and cannot have the traces of it deleted."""
    mine = make(api, project="vision", scopes=["project:admin"])
    boss = client_with_role(role="admin", project="vision")
    coder = make(api, project="vision", scopes=["jobs:run-code"])
    elsewhere = make(api)
    headers = {"Authorization": f"Bearer {mine['secret']}"}

    def ask(method, path, **body):
        answer = api.anonymous.request(method, path, headers=headers, json=body or None)
        return answer.status_code, answer.json() if answer.content else None

    status, made = ask("POST", TOKENS, name="bob", project="vision", role="viewer")
    assert status == 201
    for body, reason in (
        ({"name": "x", "project": "default"}, "default"),
        ({"name": "x", "project": "vision", "role": "admin"}, "received the role admin."),
        ({"name": "x", "project": "vision", "scopes": ["jobs:run-code"]}, "scope jobs:run-code."),
    ):
        status, problem = ask("POST", TOKENS, **body)
        assert (status, reason in problem["detail"]) == (403, True), problem
    names = {row["name"] for row in ask("GET", TOKENS)[1]["items"]}
    assert names == {"ada", "bob"}
    boss_id = boss.get("/api/v1/session").json()["token_id"]
    for token_id, method, expected in (
        (made["id"], "rotate", 200),
        (coder["id"], "rotate", 403),
        (boss_id, "rotate", 404),
        (elsewhere["id"], "rotate", 404),
    ):
        assert ask("POST", f"{TOKENS}/{token_id}/{method}")[0] == expected, token_id
    assert ask("DELETE", f"{TOKENS}/{boss_id}")[0] == 404
    assert ask("DELETE", f"{TOKENS}/{coder['id']}")[0] == 204
    assert [row["name"] for row in ask("GET", "/api/v1/projects")[1]["items"]] == ["vision"]
    assert ask("PATCH", "/api/v1/projects/vision", max_queued=9)[0] == 403
    assert {row["project"] for row in ask("GET", "/api/v1/audit")[1]["items"]} == {"vision"}
    assert ask("GET", "/api/v1/audit?project=default")[0] == 403
    retention = "/api/v1/projects/vision/retention"
    of_jobs = {"delete": "jobs", "after_days": 9.0}
    of_audit = {"delete": "audit", "after_days": 9.0}
    assert ask("PUT", retention, rules=[of_jobs])[0] == 200
    assert ask("PUT", retention, rules=[of_audit])[0] == 403
    boss.put(retention, json={"rules": [of_audit]})
    assert ask("PUT", retention, rules=[of_audit, of_jobs])[0] == 200
    assert ask("DELETE", retention)[0] == 403
    viewer = {"name": "x", "role": "viewer", "scopes": ["project:admin"]}
    assert api.client.post(TOKENS, json=viewer).status_code == 422
