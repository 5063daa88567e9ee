"""Tokens that signed-in people create: whose they are, what they allow, and when they end."""

import httpx
from sqlalchemy import update

from store.access import people, tokens
from store.clock import from_now
from store.tables import Person
from tests.tables import every_row
from tests.waiting import DEADLINE_S, wait_until


def create(browser, **fields):
    return browser.change("POST", "/tokens", json={"name": "mine", "project": "vision", **fields})


def works(browser, secret):
    headers = {"Authorization": f"Bearer {secret}"}
    with httpx.Client(base_url=browser.server.url, timeout=DEADLINE_S) as program:
        return program.get("/api/v1/session", headers=headers).status_code == 200


def test_a_member_makes_a_token_that_says_whose_it_is(browser):
    browser.sign_in("ann")
    token = create(browser).json()
    assert token["owner"] == "ann@example.com"
    assert works(browser, token["secret"])
    [listed] = browser.client.get("/api/v1/tokens").json()["items"]
    assert (listed["owner"], listed["created_by"]) == ("ann@example.com", "ann@example.com")
    rotated = browser.change("POST", f"/tokens/{token['id']}/rotate", json={"grace_s": 0})
    assert rotated.status_code == 200
    assert not works(browser, token["secret"])
    assert browser.change("DELETE", f"/tokens/{token['id']}").status_code == 204
    assert not works(browser, rotated.json()["secret"])


MORE = {
    "a role": {"role": "admin"},
    "a scope": {"scopes": ["jobs:run-code"]},
    "a project": {"project": "default"},
    "to stay": {"personal": False},
}


@every_row("which", MORE)
def test_a_token_allows_no_more_than_its_person(browser, which):
    if not browser.client.cookies:
        browser.sign_in("ann")
    answer = create(browser, **MORE[which])
    assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")


def test_a_viewer_makes_tokens_of_viewers_in_its_projects(browser):
    browser.sign_in("rae")
    assert create(browser).status_code == 403
    assert create(browser, role="viewer", project="audio").status_code == 201


def test_a_person_sees_and_ends_only_its_own_tokens(browser, new_browser):
    browser.sign_in("ann")
    token = create(browser).json()
    stranger = new_browser()
    stranger.sign_in("rae")
    assert stranger.client.get("/api/v1/tokens").json()["items"] == []
    assert stranger.change("DELETE", f"/tokens/{token['id']}").status_code == 404
    lead = new_browser()
    lead.sign_in("lee")  # the admin of the project
    assert [row["id"] for row in lead.client.get("/api/v1/tokens").json()["items"]] == [token["id"]]
    assert lead.change("DELETE", f"/tokens/{token['id']}").status_code == 204


def test_a_token_ends_with_the_group_that_allowed_it(browser, provider):
    browser.sign_in("lee")
    strong = create(browser, scopes=["jobs:run-code"]).json()
    weak = create(browser, role="viewer").json()
    provider.add_user("lee", "readers")
    browser.sign_in("lee")
    assert not works(browser, strong["secret"])
    assert works(browser, weak["secret"])
    provider.add_user("lee", "kitchen")
    assert browser.sign_in("lee").status_code == 403
    assert not works(browser, weak["secret"])


def test_a_token_ends_some_time_after_the_last_sign_in(browser, server):
    browser.sign_in("ann")
    token = create(browser).json()
    with server.app.state.services.database.write() as session:
        session.execute(update(Person).values(access_until=from_now(-1.0)))
    server.app.state.services.authenticator.forget(token["id"])
    assert not works(browser, token["secret"])
    browser.sign_in("ann")
    wait_until(lambda: works(browser, token["secret"]), "the refusal is no longer cached")


def test_an_admin_ends_the_access_of_a_person(browser, new_browser):
    browser.sign_in("ann")
    token = create(browser).json()
    admin = new_browser()
    admin.sign_in("root")
    [ann] = [
        row for row in admin.client.get("/api/v1/people").json()["items"] if row["name"] == "Ann"
    ]
    assert admin.change("DELETE", f"/people/{ann['id']}").status_code == 204
    assert browser.client.get("/api/v1/session").status_code == 401
    assert not works(browser, token["secret"])
    assert admin.change("DELETE", "/people/0123").status_code == 404


def test_a_token_that_a_token_of_a_person_creates_is_the_persons_too(browser):
    browser.sign_in("lee")
    first = create(browser, scopes=["project:admin"]).json()
    headers = {"Authorization": f"Bearer {first['secret']}"}
    fields = {"name": "second", "project": "vision", "personal": False}
    browser.client.cookies.clear()
    second = browser.client.post("/api/v1/tokens", json=fields, headers=headers).json()
    assert second["owner"] == "lee@example.com"


def test_an_admin_makes_a_token_that_stays(browser):
    browser.sign_in("root")
    token = create(browser, personal=False, role="admin").json()
    assert token["owner"] is None
    assert token["created_by"] == "root@example.com"


def test_the_last_admin_token_of_nobody_is_kept_beside_that_of_a_person(browser, database):
    with database.write() as session:
        tokens.create(session, "root", role="admin")
    browser.sign_in("root")
    assert create(browser, role="admin").status_code == 201
    [theirs] = [
        row for row in browser.client.get("/api/v1/tokens").json()["items"] if not row["owner"]
    ]
    answer = browser.change("DELETE", f"/tokens/{theirs['id']}")
    assert (answer.status_code, answer.json()["code"]) == (409, "last_admin")


def test_a_study_goes_on_with_custom_code_while_its_person_has_access(browser, database):
    browser.sign_in("lee")
    lee = browser.client.get("/api/v1/session").json()["person"]["id"]
    with database.read() as session:
        assert people.has_scope(session, lee, "vision", "jobs:run-code")
        assert not people.has_scope(session, lee, "audio", "jobs:run-code")
        assert not people.has_scope(session, "nobody", "vision", "jobs:run-code")
    with database.write() as session:
        people.end_access(session, lee)
    with database.read() as session:
        assert not people.has_scope(session, lee, "vision", "jobs:run-code")


def test_what_a_token_of_a_person_does_says_whose_it_is(browser):
    browser.sign_in("ann")
    headers = {"Authorization": f"Bearer {create(browser).json()['secret']}"}
    spec = {"model": {"kind": "mlp"}, "data": {"kind": "digits"}}
    job = browser.client.post("/api/v1/jobs", json=spec, headers=headers).json()
    assert job["created_by"] == "mine (ann@example.com)"
