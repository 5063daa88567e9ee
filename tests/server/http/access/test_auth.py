import asyncio
import base64
import logging
import threading
from datetime import UTC, datetime, timedelta

import pytest

from server.errors import TooManyRequests
from server.http.access.authenticator import CACHE_TTL_S, Authenticator, Credential, CredentialKind
from server.http.access.rate_limit import RateLimit
from store.access import tokens
from store.database import Database
from tests.tables import every_row
from tests.waiting import DEADLINE_S

BEARER = 'Bearer realm="ampcore"'


@pytest.fixture
def database_url(sqlite_url):
    """One kind of database is enough: nothing here depends on it."""
    return sqlite_url


def basic(user, password):
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def test_the_401_response_says_how_to_send_a_token(api):
    answer = api.anonymous.get("/api/v1/jobs")
    assert answer.status_code == 401
    assert answer.json()["code"] == "unauthorized"
    assert "Authorization: Bearer" in answer.json()["detail"]
    assert answer.headers["WWW-Authenticate"] == BEARER


def test_an_unknown_path_also_needs_a_token(api):
    assert api.anonymous.get("/api/v1/nothing").status_code == 401


@every_row("header", ["Bearer wrong", "Bearer", "wrong", "", "Basic xyz", "Bearer \u00fc"])
def test_an_invalid_authorization_header_gets_401(api, header):
    answer = api.anonymous.get("/api/v1/jobs", headers={"Authorization": header.encode("latin-1")})
    assert answer.status_code == 401
    assert answer.headers["WWW-Authenticate"].startswith(BEARER)


def test_the_bearer_scheme_is_case_insensitive(api):
    headers = {"Authorization": f"bEaReR {api.token}"}
    assert api.anonymous.get("/api/v1/jobs", headers=headers).status_code == 200


@pytest.mark.parametrize("path", ["docs", "openapi.json", "docs/assets/swagger-ui.css"])
def test_the_docs_pages_accept_the_token_as_a_basic_password(api, path):
    page = f"/api/v1/{path}"
    refused = api.anonymous.get(page)
    assert refused.status_code == 401
    schemes = [value.split()[0] for value in refused.headers.get_list("WWW-Authenticate")]
    assert schemes == ["Bearer", "Basic"]
    assert api.anonymous.get(page, auth=("anyone", api.token)).status_code == 200
    assert api.anonymous.get(page, auth=("", api.token)).status_code == 200
    assert api.anonymous.get(page, auth=(api.token, "wrong")).status_code == 401
    assert api.client.get(page).status_code == 200


def test_basic_authentication_is_accepted_only_for_the_docs_pages(api):
    headers = {"Authorization": basic("anyone", api.token)}
    assert api.anonymous.get("/api/v1/jobs", headers=headers).status_code == 401
    assert api.anonymous.post("/api/v1/docs", headers=headers).status_code == 401


@every_row("value", ["Basic", "Basic !!!", "Basic /w==", "Basic YQ=="])
def test_a_malformed_basic_header_is_refused(api, value):
    answer = api.anonymous.get("/api/v1/docs", headers={"Authorization": value})
    assert answer.status_code == 401


@every_row("name", ["token", "access_token", "API_KEY", "anything"])
def test_a_token_in_the_url_is_refused_and_not_repeated(api, name):
    answer = api.anonymous.get("/api/v1/jobs", params={name: api.token})
    assert answer.status_code == 401
    assert "in the URL" in answer.json()["detail"]
    assert api.token not in answer.text


def test_a_wrong_token_is_not_repeated_in_the_response(api):
    answer = api.anonymous.get("/api/v1/jobs", headers={"Authorization": "Bearer amp_guess"})
    assert "amp_guess" not in answer.text + str(answer.headers)


def test_many_wrong_tokens_from_one_address_get_429(api):
    api.app.state.services.authenticator.failures = RateLimit("3/minute")
    for number in range(3):
        assert guess(api, number).status_code == 401
    answer = guess(api, 3)
    assert (answer.status_code, answer.json()["code"]) == (429, "too_many_requests")
    assert 0 < int(answer.headers["Retry-After"]) <= 60
    assert guess(api, 3).status_code == 429  # the same token again


def test_a_valid_token_is_accepted_from_an_address_that_sent_many_wrong_ones(api, client_with_role):
    """Including a token that this server has never seen, and sign-in."""
    api.app.state.services.authenticator.failures = RateLimit("1/minute")
    assert [guess(api, number).status_code for number in range(3)] == [401, 429, 429]
    assert client_with_role().get("/api/v1/session").status_code == 200
    signed_in = api.anonymous.post("/api/v1/session", json={"token": api.token})
    assert signed_in.status_code == 201
    wrong = api.anonymous.post("/api/v1/session", json={"token": "amp_wrong"})
    assert wrong.status_code == 429


def test_a_flood_of_wrong_tokens_does_not_fill_the_log(api, caplog):
    api.app.state.services.authenticator.failures = RateLimit("3/minute")
    with caplog.at_level(logging.INFO):
        for number in range(10):
            guess(api, number)
            api.anonymous.post("/api/v1/session", json={"token": "amp_wrong"})
    records = [record for record in caplog.records if record.name.startswith("server")]
    assert [record.name for record in records] == [
        *["server.http.access"] * 3,
        "server.http.access.authenticator",
    ]
    assert "127.0.0.1 sends many invalid tokens" in records[-1].getMessage()


def guess(api, number):
    headers = {"Authorization": f"Bearer amp_guess{number}"}
    return api.anonymous.get("/api/v1/jobs", headers=headers)


def test_a_token_revoked_by_this_server_is_refused_at_once(api, client_with_role):
    client = client_with_role()
    token_id = client.get("/api/v1/session").json()["token_id"]
    assert api.client.delete(f"/api/v1/tokens/{token_id}").status_code == 204
    assert client.get("/api/v1/session").status_code == 401


# ---- The authenticator


class CountingDatabase:
    """A database that counts how often it is read."""

    def __init__(self, database):
        self.reads = 0
        self._database = database

    def read(self):
        self.reads += 1
        return self._database.read()


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def database(sqlite_url):
    database = Database(sqlite_url)
    yield database
    database.close()


@pytest.fixture
def counting_database(database):
    return CountingDatabase(database)


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def authenticator(counting_database, clock):
    return Authenticator(counting_database, RateLimit("1000000/second"), clock)


def make(database, **values):
    with database.write() as session:
        secret = tokens.create(session, "ada", **values)
        return secret, Credential(CredentialKind.TOKEN, tokens.digest_of(secret))


def principal_of(authenticator, credential):
    """The principal of a credential, as AuthMiddleware finds it."""
    return authenticator.cached_principal(credential) or asyncio.run(
        authenticator.authenticate(credential, "192.0.2.1")
    )


def test_a_valid_token_is_cached_for_a_limited_time(
    database, counting_database, authenticator, clock
):
    _, credential = make(database)
    assert principal_of(authenticator, credential).token_name == "ada"
    clock.now += CACHE_TTL_S - 0.1
    assert principal_of(authenticator, credential).token_name == "ada"
    assert counting_database.reads == 1
    clock.now += 0.2
    assert principal_of(authenticator, credential).token_name == "ada"
    assert counting_database.reads == 2


def test_a_token_revoked_elsewhere_is_refused_within_two_seconds(database, authenticator, clock):
    secret, credential = make(database)
    assert principal_of(authenticator, credential)
    with database.write() as session:
        tokens.revoke(session, tokens.get_by_secret(session, secret))
    clock.now += 2.0
    assert principal_of(authenticator, credential) is None


def test_a_cached_token_expires_on_time(database, authenticator, clock):
    _, credential = make(database, expires_at=datetime.now(UTC) + timedelta(seconds=60))
    assert principal_of(authenticator, credential)
    clock.now += 60.0
    assert authenticator.cached_principal(credential) is None
    assert authenticator.cached_principal(credential, grace_s=600) is None


def test_a_cached_principal_is_valid_for_longer_with_a_grace_period(database, authenticator, clock):
    _, credential = make(database)
    assert principal_of(authenticator, credential)
    clock.now += CACHE_TTL_S + 599
    assert authenticator.cached_principal(credential) is None
    assert authenticator.cached_principal(credential, grace_s=600)
    clock.now += 2
    assert authenticator.cached_principal(credential, grace_s=600) is None


def test_a_lookup_that_began_before_a_revocation_is_not_cached(
    database, authenticator, monkeypatch
):
    _, credential = make(database)
    find = authenticator._find

    def find_and_forget(credential):
        found = find(credential)
        authenticator.forget("some token")
        return found

    monkeypatch.setattr(authenticator, "_find", find_and_forget)
    assert principal_of(authenticator, credential)
    assert authenticator.cached_principal(credential) is None


def test_concurrent_requests_with_one_token_share_one_query(
    database, counting_database, authenticator
):
    _, credential = make(database)

    async def authenticate():
        return await asyncio.gather(
            *(authenticator.authenticate(credential, "192.0.2.1") for _ in range(20))
        )

    assert len(set(asyncio.run(authenticate()))) == 1
    assert counting_database.reads == 1


def test_the_cache_of_valid_tokens_is_bounded(database, authenticator, monkeypatch):
    monkeypatch.setattr("server.http.access.authenticator.CACHE_SIZE", 3)
    for _ in range(10):
        principal_of(authenticator, make(database)[1])
    assert len(authenticator._principals) <= 3


def test_an_invalid_token_is_cached_for_a_limited_time(counting_database, authenticator, clock):
    guess = Credential(CredentialKind.TOKEN, "guess")
    for _ in range(3):
        assert principal_of(authenticator, guess) is None
    assert counting_database.reads == 1
    clock.now += CACHE_TTL_S
    assert principal_of(authenticator, guess) is None
    assert counting_database.reads == 2


def test_guesses_from_limited_addresses_are_queried_one_at_a_time(
    counting_database, clock, monkeypatch
):
    """Queries for other addresses run in parallel."""
    authenticator = Authenticator(counting_database, RateLimit("1/minute", clock), clock)
    find, gate, both = authenticator._find, threading.Event(), threading.Barrier(2)

    def find_slowly(credential):
        if credential.digest.startswith("guess"):
            assert gate.wait(DEADLINE_S)
        if credential.digest.startswith("other"):
            both.wait(DEADLINE_S)
        return find(credential)

    monkeypatch.setattr(authenticator, "_find", find_slowly)

    async def authenticate(address, *digests):
        lookups = (
            authenticator.authenticate(Credential(CredentialKind.TOKEN, one), address)
            for one in digests
        )
        return await asyncio.gather(*lookups, return_exceptions=True)

    async def ask_all():
        assert await authenticate("192.0.2.1", "first") == [None]
        guesses = asyncio.create_task(authenticate("192.0.2.1", *(f"guess {n}" for n in range(8))))
        async with asyncio.timeout(20):
            while authenticator._suspect_limiter.statistics().tasks_waiting < 7:
                await asyncio.sleep(0)
        # Two lookups for another address wait for each other here, so they must run in parallel.
        others = await authenticate("192.0.2.2", "other 1", "other 2")
        gate.set()
        return await guesses, others

    guesses, others = asyncio.run(ask_all())
    assert {type(one) for one in guesses} == {TooManyRequests}
    assert None in others


def test_the_cache_of_invalid_tokens_is_bounded(authenticator, monkeypatch):
    monkeypatch.setattr("server.http.access.authenticator.CACHE_SIZE", 3)
    for number in range(10):
        assert (
            principal_of(authenticator, Credential(CredentialKind.TOKEN, f"guess {number}")) is None
        )
    assert len(authenticator._invalid) <= 3


def test_a_database_error_is_not_cached(counting_database, database, authenticator, monkeypatch):
    _, credential = make(database)
    with monkeypatch.context() as patch:
        patch.setattr(counting_database, "read", lambda: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            principal_of(authenticator, credential)
    assert principal_of(authenticator, credential)


def test_forgetting_one_token_keeps_the_others_cached(database, counting_database, authenticator):
    secret, first = make(database)
    _, second = make(database)
    assert principal_of(authenticator, first)
    assert principal_of(authenticator, second)
    with database.read() as session:
        authenticator.forget(tokens.get_by_secret(session, secret).id)
    assert authenticator.cached_principal(first) is None
    assert authenticator.cached_principal(second) is not None
