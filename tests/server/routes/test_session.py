from datetime import UTC, datetime, timedelta
from http.cookies import SimpleCookie

import httpx
import pytest

from server.http.access.rate_limit import RateLimit
from store.access import audit, tokens
from tests.conftest import NO_TLS
from tests.tables import every_row
from tests.waiting import DEADLINE_S

SESSION = "/api/v1/session"
SAME_ORIGIN = {"Sec-Fetch-Site": "same-origin"}


@pytest.fixture
def database_url(sqlite_url):
    """One kind of database is enough: tests/store/test_browser_sessions.py uses both."""
    return sqlite_url


def new_browser(api, **options):
    """A client without a token that keeps its cookies."""
    return httpx.Client(verify=NO_TLS, base_url=api.url, timeout=DEADLINE_S, **options)


def sign_in(api, token=None, **headers):
    body = {"token": token or api.token}
    with new_browser(api) as client:
        return client.post(SESSION, json=body, headers=headers)


def cookie_of(answer):
    (cookie,) = SimpleCookie(answer.headers["Set-Cookie"]).values()
    return cookie


@pytest.fixture
def browser(api):
    """A client that has signed in and sends requests as a page of this server does."""
    with new_browser(api, headers={"Origin": api.url}) as client:
        assert client.post(SESSION, json={"token": api.token}).status_code == 201
        yield client


def test_a_token_is_exchanged_for_an_http_only_cookie(api):
    answer = sign_in(api)
    assert answer.status_code == 201
    assert answer.headers["Cache-Control"] == "no-store"
    cookie = cookie_of(answer)
    assert (cookie.key, cookie["path"], cookie["samesite"]) == ("ampcore_session", "/", "strict")
    assert cookie["httponly"]
    assert not cookie["secure"]
    assert int(cookie["max-age"]) == 12 * 3600
    assert len(cookie.value) == 43
    assert api.token not in answer.text + str(answer.headers)


def test_a_cookie_set_over_https_is_secure(api):
    assert cookie_of(sign_in(api, **{"X-Forwarded-Proto": "https"}))["secure"]


def test_a_session_cookie_gives_the_access_of_its_token(api, browser):
    assert browser.get("/api/v1/jobs").status_code == 200
    shown = browser.get(SESSION).json()
    assert (shown["token_name"], shown["role"], shown["project"]) == ("test", "admin", "default")
    ends = datetime.fromisoformat(shown["expires_at"])
    assert timedelta(hours=11) < ends - datetime.now(UTC) <= timedelta(hours=12)


def test_the_session_of_a_token_request_names_its_principal(client_with_role):
    shown = client_with_role(role="viewer", project="vision").get(SESSION).json()
    assert (shown["role"], shown["project"], shown["expires_at"]) == ("viewer", "vision", None)


def test_a_session_has_only_the_permissions_of_its_token(api, database):
    with database.write() as session:
        viewer = tokens.create(session, "viewer", role="viewer")
    with new_browser(api, headers={"Origin": api.url}) as client:
        client.post(SESSION, json={"token": viewer})
        assert client.get("/api/v1/jobs").status_code == 200
        assert client.get("/api/v1/tokens").status_code == 403


def test_signing_out_ends_the_session_and_clears_the_cookie(api, browser):
    value = browser.cookies["ampcore_session"]
    answer = browser.delete(SESSION)
    assert answer.status_code == 204
    assert cookie_of(answer)["max-age"] == "0"
    assert "ampcore_session" not in browser.cookies
    kept = api.anonymous.get(SESSION, headers={"Cookie": f"ampcore_session={value}"})
    assert kept.status_code == 401


def test_signing_out_with_a_token_does_not_revoke_it(api):
    assert api.client.delete(SESSION).status_code == 204
    assert api.client.get(SESSION).status_code == 200


def test_a_session_ends_with_its_token(api, browser, client_with_role):
    other_admin = client_with_role(role="admin")
    token_id = browser.get(SESSION).json()["token_id"]
    assert other_admin.delete(f"/api/v1/tokens/{token_id}").status_code == 204
    assert browser.get("/api/v1/jobs").status_code == 401


def test_session_cookies_and_bearer_tokens_are_not_interchangeable(api, browser):
    value = browser.cookies["ampcore_session"]
    as_bearer = {"Authorization": f"Bearer {value}"}
    as_cookie = {"Cookie": f"ampcore_session={api.token}"}
    assert api.anonymous.get("/api/v1/jobs", headers=as_bearer).status_code == 401
    assert api.anonymous.get("/api/v1/jobs", headers=as_cookie).status_code == 401


def test_a_wrong_authorization_header_is_refused_despite_a_valid_cookie(browser):
    answer = browser.get("/api/v1/jobs", headers={"Authorization": "Bearer wrong"})
    assert answer.status_code == 401


@pytest.mark.parametrize("token", ["amp_wrong", "x"])
def test_a_wrong_token_creates_no_session(api, token):
    answer = sign_in(api, token)
    assert (answer.status_code, answer.json()["code"]) == (401, "unauthorized")
    assert "Set-Cookie" not in answer.headers
    assert token not in answer.json()["detail"].split()


def test_a_revoked_or_expired_token_creates_no_session(api, database):
    with database.write() as session:
        revoked = tokens.create(session, "revoked")
        tokens.revoke(session, tokens.get_by_secret(session, revoked))
        ends = datetime.now(UTC) - timedelta(seconds=1)
        expired = tokens.create(session, "expired", expires_at=ends)
    assert sign_in(api, revoked).status_code == 401
    assert sign_in(api, expired).status_code == 401


def test_many_wrong_tokens_from_one_address_get_429(api):
    api.app.state.services.authenticator.failures = RateLimit("2/minute")
    assert [sign_in(api, "amp_wrong").status_code for _ in range(3)] == [401, 401, 429]
    assert int(sign_in(api, "amp_wrong").headers["Retry-After"]) > 0
    assert sign_in(api).status_code == 201


@every_row(
    "body", [{}, {"token": ["amp_s3cret"]}, {"tokn": "amp_s3cret"}, ["amp_s3cret"], {"token": ""}]
)
def test_an_invalid_body_is_refused_without_repeating_it(api, body):
    answer = api.anonymous.post(SESSION, json=body)
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")
    assert "s3cret" not in answer.text


CROSS_ORIGIN = [
    {},
    {"Origin": "https://evil.example"},
    {"Origin": "null"},
    {"Origin": "https://evil.example", **SAME_ORIGIN},
    {"Sec-Fetch-Site": "same-site"},
    {"Sec-Fetch-Site": "none"},
]
"""Headers that a page of this server never sends."""


@every_row("headers", CROSS_ORIGIN)
@every_row(("method", "path"), [("DELETE", SESSION), ("POST", "/api/v1/tokens")])
def test_a_cross_origin_change_by_cookie_is_refused(api, browser, method, path, headers):
    cookie = {"Cookie": f"ampcore_session={browser.cookies['ampcore_session']}"}
    sent = {**cookie, **headers}
    answer = api.anonymous.request(method, path, headers=sent, json={"name": "x"})
    assert (answer.status_code, answer.json()["code"]) == (403, "cross_origin")
    assert browser.get(SESSION).status_code == 200


def test_a_cross_site_request_is_refused_despite_a_valid_origin(api, browser):
    answer = browser.delete(SESSION, headers={"Sec-Fetch-Site": "cross-site"})
    assert answer.json()["code"] == "cross_origin"


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_same_origin_change_by_cookie_is_accepted(api, browser, scheme):
    origin = api.url.replace("http", scheme)
    headers = {"Origin": origin, "X-Forwarded-Proto": scheme}
    answer = browser.post("/api/v1/tokens", json={"name": "new"}, headers=headers)
    assert answer.status_code == 201


def test_sec_fetch_site_is_sufficient_without_an_origin(api, browser):
    cookie = {"Cookie": f"ampcore_session={browser.cookies['ampcore_session']}"}
    body = {"name": "new"}
    answer = api.anonymous.post("/api/v1/tokens", json=body, headers={**cookie, **SAME_ORIGIN})
    assert answer.status_code == 201


def test_reading_by_cookie_needs_no_origin(api, browser):
    cookie = {"Cookie": f"ampcore_session={browser.cookies['ampcore_session']}"}
    assert api.anonymous.get("/api/v1/jobs", headers=cookie).status_code == 200


def test_a_bearer_token_is_accepted_from_any_origin(api):
    headers = {"Origin": "https://evil.example"}
    assert api.client.post("/api/v1/tokens", json={"name": "x"}, headers=headers).status_code == 201


def test_a_cross_origin_sign_in_is_refused(api):
    answer = sign_in(api, Origin="https://evil.example")
    assert (answer.status_code, answer.json()["code"]) == (403, "cross_origin")
    assert "Set-Cookie" not in answer.headers


def test_signing_in_again_ends_the_previous_session(api, browser):
    before = {"Cookie": f"ampcore_session={browser.cookies['ampcore_session']}"}
    assert browser.post(SESSION, json={"token": api.token}).status_code == 201
    assert browser.get(SESSION).status_code == 200
    assert api.anonymous.get(SESSION, headers=before).status_code == 401


def test_sign_in_and_sign_out_are_audited(api, browser, database):
    browser.delete(SESSION)
    with database.read() as session:
        entries = audit.page(session, limit=10)
        assert [entry.action for entry in entries] == ["session.delete", "session.create"]
        assert {entry.token_name for entry in entries} == {"test"}
        assert {entry.address for entry in entries} == {"127.0.0.1"}
