"""Sessions of people: their cookie, how they end, and what another site can do with them."""

import httpx
import pytest
from sqlalchemy import update

from store.clock import from_now
from store.tables import PersonSession
from tests.oidc_provider import state_of
from tests.tables import every_row

PERSON = "ampcore_person"


def status(browser):
    return browser.client.get("/api/v1/session").status_code


def age(server, **columns):
    """Let time pass for every session, on this server too."""
    with server.app.state.services.database.write() as session:
        session.execute(update(PersonSession).values(columns))
        ids = session.scalars(PersonSession.__table__.select()).all()
        people = session.query(PersonSession.person_id).all()
    assert ids
    for (person_id,) in people:
        server.app.state.services.authenticator.forget(person_id)


def test_the_cookie_is_for_this_server_alone_and_no_script_reads_it(browser):
    cookie = browser.sign_in("ann").headers["Set-Cookie"]
    [cookie] = [part for part in cookie.split(", ") if part.startswith(f"{PERSON}=")]
    assert "HttpOnly" in cookie
    assert "SameSite=lax" in cookie
    assert "Path=/" in cookie
    assert "Max-Age=43200" in cookie
    assert "Domain" not in cookie


def test_over_tls_the_cookie_is_secure_and_has_the_prefix_of_its_host(
    new_server, settings, browser, provider
):
    """A proxy in front speaks TLS."""
    public = "https://ampcore.example.com"
    provider.client.redirect_uris = {f"{public}/api/v1/sign-in/callback"}
    new_server(**{**settings, "public_url": public})
    behind_proxy = {"X-Forwarded-Proto": "https"}
    begun = browser.client.get("/api/v1/sign-in/start", headers=behind_proxy)
    assert begun.headers["Set-Cookie"].startswith("__Host-ampcore_sign_in=")
    address = provider.answer(begun.headers["Location"], "ann")
    secret = begun.headers["Set-Cookie"].partition(";")[0]
    answer = browser.client.get(
        address.replace(public, browser.server.url), headers={**behind_proxy, "Cookie": secret}
    )
    cookies = answer.headers.get_list("Set-Cookie")
    [cookie] = [line for line in cookies if line.startswith(f"__Host-{PERSON}=") and "Max" in line]
    assert "Secure" in cookie
    secret = cookie.partition(";")[0]

    def session(cookie):
        headers = {**behind_proxy, "Cookie": cookie}
        return browser.client.get("/api/v1/session", headers=headers).status_code

    assert session(secret) == 200
    assert session(secret.removeprefix("__Host-")) == 401  # another host of the domain can set it


def test_signing_out_ends_the_session_for_whoever_has_kept_the_cookie(browser, new_browser):
    browser.sign_in("ann")
    thief = new_browser()
    thief.client.cookies.set(PERSON, browser.client.cookies[PERSON])
    assert status(thief) == 200
    assert browser.change("DELETE", "/session").status_code == 204
    assert PERSON not in browser.client.cookies
    assert status(thief) == 401


def test_a_session_that_is_known_before_is_not_the_one_that_is_signed_in(browser, new_browser):
    """Session fixation: an attacker gives a victim a cookie, and waits until it signs in."""
    browser.sign_in("ann")
    fixed = browser.client.cookies[PERSON]
    victim = new_browser()
    victim.client.cookies.set(PERSON, fixed)
    answer = victim.sign_in("root")
    assert answer.cookies[PERSON] != fixed
    assert status(browser) == 401
    arbitrary = new_browser()
    arbitrary.client.cookies.set(PERSON, "known before")
    answer = arbitrary.sign_in("root")
    assert answer.cookies[PERSON] != "known before"
    browser.client.cookies.set(PERSON, "known before")
    assert status(browser) == 401


def test_signing_in_with_a_token_ends_the_session_of_the_person(browser, server, database):
    from store.access import tokens

    with database.write() as session:
        token = tokens.create(session, "bob")
    browser.sign_in("ann")
    former = browser.client.cookies[PERSON]
    assert browser.change("POST", "/session", json={"token": token}).status_code == 201
    assert browser.client.get("/api/v1/session").json()["token_name"] == "bob"
    browser.client.cookies.clear()
    browser.client.cookies.set(PERSON, former)
    assert status(browser) == 401


def test_a_session_ends_when_nobody_uses_it_whatever_a_page_requests(browser, server):
    browser.sign_in("ann")
    age(server, used_at=from_now(-7100.0))
    assert status(browser) == 200  # which a page asks by itself
    age(server, idle_s=7000.0)
    assert status(browser) == 401


def test_a_session_goes_on_while_its_person_is_there(browser, server):
    browser.sign_in("ann")
    age(server, used_at=from_now(-7100.0))
    assert browser.change("PUT", "/session/activity").status_code == 204
    age(server, idle_s=7000.0)
    assert status(browser) == 200


def test_the_session_of_a_token_has_no_activity(server, database):
    from store.access import tokens

    with database.write() as session:
        token = tokens.create(session, "ci")
    answer = httpx.put(
        f"{server.url}/api/v1/session/activity", headers={"Authorization": f"Bearer {token}"}
    )
    assert answer.status_code == 403
    assert answer.json()["detail"].startswith("Expected the session of a person")


def test_a_session_ends_after_its_time_however_much_it_is_used(browser, server):
    browser.sign_in("ann")
    age(server, expires_at=from_now(-1.0))
    assert status(browser) == 401


ORIGINS = ["https://evil.example", "null", None]


@every_row("origin", ORIGINS)
def test_another_site_cannot_change_anything_with_the_cookie(browser, origin):
    browser.sign_in("root")
    for method, path, body in (
        ("POST", "/tokens", {"name": "stolen", "role": "admin"}),
        ("DELETE", "/session", None),
        ("PATCH", "/session", {"project": "default"}),
    ):
        answer = browser.change(method, path, origin, json=body)
        assert (answer.status_code, answer.json()["code"]) == (403, "cross_origin")
    same_site = {"Origin": browser.server.url, "Sec-Fetch-Site": "same-site"}
    answer = browser.client.delete("/api/v1/session", headers=same_site)
    assert answer.status_code == 403
    assert status(browser) == 200


def test_a_bearer_token_goes_on_without_an_origin(browser, server, database):
    from store.access import tokens

    with database.write() as session:
        token = tokens.create(session, "ci", role="admin")
    headers = {"Authorization": f"Bearer {token}"}
    made = browser.client.post("/api/v1/tokens", json={"name": "new"}, headers=headers)
    assert made.status_code == 201
    assert made.json()["owner"] is None


def test_a_group_that_is_lost_counts_in_every_session_from_the_next_sign_in(
    browser, new_browser, provider
):
    browser.sign_in("lee")
    provider.add_user("lee", "readers")
    assert browser.client.get("/api/v1/session").json()["role"] == "member"
    new_browser().sign_in("lee")
    assert browser.client.get("/api/v1/session").json()["role"] == "viewer"
    provider.add_user("lee", "kitchen")
    assert new_browser().sign_in("lee").status_code == 403
    assert status(browser) == 401


def test_an_admin_lists_people_and_ends_their_sessions(browser, new_browser):
    admin, ann = new_browser(), browser
    admin.sign_in("root")
    ann.sign_in("ann")
    people = {person["name"]: person for person in admin.change("GET", "/people").json()["items"]}
    assert set(people) == {"Root", "Ann"}
    assert people["Ann"]["groups"] == ["vision", "staff"]
    [session] = people["Ann"]["sessions"]
    assert session["user_agent"].startswith("python-httpx")
    address = f"/people/{people['Ann']['id']}/sessions/{session['id']}"
    assert admin.change("DELETE", address).status_code == 204
    assert admin.change("DELETE", address).status_code == 404
    assert status(ann) == 401
    assert ann.change("GET", "/people").status_code == 401


def test_a_member_sees_no_people(browser):
    browser.sign_in("lee")
    assert browser.change("GET", "/people").status_code == 403


def test_the_sign_in_that_is_under_way_cannot_be_read_by_scripts(browser):
    answer = browser.client.get("/api/v1/sign-in/start")
    cookie = answer.headers["Set-Cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=lax" in cookie
    assert state_of(answer.headers["Location"]) not in cookie


@pytest.mark.parametrize("path", ["/healthz", "/api/v1/jobs"])
def test_a_cookie_of_nobody_is_no_session(browser, path):
    browser.client.cookies.set(PERSON, "guessed")
    assert browser.client.get(path).status_code == (200 if path == "/healthz" else 401)


def test_sessions_end_when_the_server_has_another_provider(browser, new_server, settings):
    browser.sign_in("ann")
    new_server()
    assert status(browser) == 401
    new_server(**settings)
    assert status(browser) == 200
