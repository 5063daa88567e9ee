import asyncio
import base64
import logging
import threading
from datetime import UTC, datetime, timedelta

import pytest

from server.access.authenticator import CACHE_TTL_S, Authenticator, Credential, CredentialKind
from server.access.rate_limit import RateLimit
from server.errors import TooManyRequests
from store import tokens
from store.database import Database
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


@pytest.mark.parametrize(
    "header", ["Bearer wrong", "Bearer", "wrong", "", "Basic xyz", "Bearer \u00fc"]
)
def test_what_is_no_token_opens_nothing(api, header):
    answer = api.anonymous.get("/api/v1/jobs", headers={"Authorization": header.encode("latin-1")})
    assert answer.status_code == 401
    assert answer.headers["WWW-Authenticate"].startswith(BEARER)


def test_the_word_bearer_may_be_written_in_any_case(api):
    headers = {"Authorization": f"bEaReR {api.token}"}
    assert api.anonymous.get("/api/v1/jobs", headers=headers).status_code == 200


@pytest.mark.parametrize("path", ["docs", "openapi.json", "docs/assets/swagger-ui.css"])
def test_a_browser_signs_in_to_the_pages_with_the_token_as_password(api, path):
    page = f"/api/v1/{path}"
    asked = api.anonymous.get(page)
    assert asked.status_code == 401
    schemes = [value.split()[0] for value in asked.headers.get_list("WWW-Authenticate")]
    assert schemes == ["Bearer", "Basic"]
    assert api.anonymous.get(page, auth=("anyone", api.token)).status_code == 200
    assert api.anonymous.get(page, auth=("", api.token)).status_code == 200
    assert api.anonymous.get(page, auth=(api.token, "wrong")).status_code == 401
    assert api.client.get(page).status_code == 200


def test_basic_opens_nothing_but_the_pages(api):
    headers = {"Authorization": basic("anyone", api.token)}
    assert api.anonymous.get("/api/v1/jobs", headers=headers).status_code == 401
    assert api.anonymous.post("/api/v1/docs", headers=headers).status_code == 401


@pytest.mark.parametrize("value", ["Basic", "Basic !!!", "Basic /w==", "Basic YQ=="])
def test_a_broken_basic_header_is_refused(api, value):
    answer = api.anonymous.get("/api/v1/docs", headers={"Authorization": value})
    assert answer.status_code == 401


@pytest.mark.parametrize("name", ["token", "access_token", "API_KEY", "anything"])
def test_a_secret_in_the_address_is_not_taken_and_not_repeated(api, name):
    answer = api.anonymous.get("/api/v1/jobs", params={name: api.token})
    assert answer.status_code == 401
    assert "in the URL" in answer.json()["detail"]
    assert api.token not in answer.text


def test_what_a_wrong_token_says_is_not_repeated(api):
    answer = api.anonymous.get("/api/v1/jobs", headers={"Authorization": "Bearer amp_guess"})
    assert "amp_guess" not in answer.text + str(answer.headers)


def test_many_wrong_tokens_from_one_address_get_429(api):
    api.app.state.services.authenticator.failures = RateLimit("3/minute")
    for number in range(3):
        assert guess(api, number).status_code == 401
    answer = guess(api, 3)
    assert (answer.status_code, answer.json()["code"]) == (429, "too_many_requests")
    assert 0 < int(answer.headers["Retry-After"]) <= 60
    assert guess(api, 3).status_code == 429  # the same one again


def test_a_valid_token_gets_in_however_many_wrong_ones_came_from_its_address(api, client_with_role):
    """Also one that this server has never seen, and at the sign-in."""
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
        *["server.access"] * 3,
        "server.access.authenticator",
    ]
    assert "127.0.0.1 sends many invalid tokens" in records[-1].getMessage()


def guess(api, number):
    headers = {"Authorization": f"Bearer amp_guess{number}"}
    return api.anonymous.get("/api/v1/jobs", headers=headers)


def test_a_token_that_is_revoked_here_is_refused_at_once(api, client_with_role):
    client = client_with_role()
    token_id = client.get("/api/v1/session").json()["token_id"]
    assert api.client.delete(f"/api/v1/tokens/{token_id}").status_code == 204
    assert client.get("/api/v1/session").status_code == 401


# ---- The keyring


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


def known(authenticator, credential):
    """The principal, as AuthMiddleware finds it."""
    return authenticator.cached_principal(credential) or asyncio.run(
        authenticator.authenticate(credential, "192.0.2.1")
    )


def test_the_database_is_asked_about_a_token_once_in_a_while(
    database, counting_database, authenticator, clock
):
    _, credential = make(database)
    assert known(authenticator, credential).token_name == "ada"
    clock.now += CACHE_TTL_S - 0.1
    assert known(authenticator, credential).token_name == "ada"
    assert counting_database.reads == 1
    clock.now += 0.2
    assert known(authenticator, credential).token_name == "ada"
    assert counting_database.reads == 2


def test_a_token_revoked_elsewhere_is_refused_within_two_seconds(database, authenticator, clock):
    secret, credential = make(database)
    assert known(authenticator, credential)
    with database.write() as session:
        tokens.revoke(session, tokens.get_by_secret(session, secret))
    clock.now += 2.0
    assert known(authenticator, credential) is None


def test_a_remembered_token_expires_in_time(database, authenticator, clock):
    _, credential = make(database, expires_at=datetime.now(UTC) + timedelta(seconds=60))
    assert known(authenticator, credential)
    clock.now += 60.0
    assert authenticator.cached_principal(credential) is None
    assert authenticator.cached_principal(credential, grace_s=600) is None


def test_an_answer_is_good_for_longer_where_one_asks_for_that(database, authenticator, clock):
    _, credential = make(database)
    assert known(authenticator, credential)
    clock.now += CACHE_TTL_S + 599
    assert authenticator.cached_principal(credential) is None
    assert authenticator.cached_principal(credential, grace_s=600)
    clock.now += 2
    assert authenticator.cached_principal(credential, grace_s=600) is None


def test_an_answer_from_before_a_revocation_is_not_remembered(database, authenticator, monkeypatch):
    _, credential = make(database)
    find = authenticator._find

    def find_and_forget(credential):
        found = find(credential)
        authenticator.forget("some token")
        return found

    monkeypatch.setattr(authenticator, "_find", find_and_forget)
    assert known(authenticator, credential)
    assert authenticator.cached_principal(credential) is None


def test_many_requests_with_one_token_at_one_time_ask_once(
    database, counting_database, authenticator
):
    _, credential = make(database)

    async def authenticate():
        return await asyncio.gather(
            *(authenticator.authenticate(credential, "192.0.2.1") for _ in range(20))
        )

    assert len(set(asyncio.run(authenticate()))) == 1
    assert counting_database.reads == 1


def test_what_is_remembered_is_bounded(database, authenticator, monkeypatch):
    monkeypatch.setattr("server.access.authenticator.CACHE_SIZE", 3)
    for _ in range(10):
        known(authenticator, make(database)[1])
    assert len(authenticator._known) <= 3


def test_a_wrong_secret_that_comes_again_costs_no_more_queries(
    counting_database, authenticator, clock
):
    guess = Credential(CredentialKind.TOKEN, "guess")
    for _ in range(3):
        assert known(authenticator, guess) is None
    assert counting_database.reads == 1
    clock.now += CACHE_TTL_S
    assert known(authenticator, guess) is None
    assert counting_database.reads == 2


def test_addresses_that_guess_share_one_query_at_a_time(counting_database, clock, monkeypatch):
    """All others have theirs beside it."""
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
        asked = (
            authenticator.authenticate(Credential(CredentialKind.TOKEN, one), address)
            for one in digests
        )
        return await asyncio.gather(*asked, return_exceptions=True)

    async def ask_all():
        assert await authenticate("192.0.2.1", "first") == [None]
        guesses = asyncio.create_task(authenticate("192.0.2.1", *(f"guess {n}" for n in range(8))))
        async with asyncio.timeout(20):
            while authenticator._suspect_limiter.statistics().tasks_waiting < 7:
                await asyncio.sleep(0)
        # Two of another address wait for each other here, so they must be asked at one time.
        others = await authenticate("192.0.2.2", "other 1", "other 2")
        gate.set()
        return await guesses, others

    guesses, others = asyncio.run(ask_all())
    assert {type(one) for one in guesses} == {TooManyRequests}
    assert None in others


def test_the_refused_ones_that_are_remembered_are_bounded(authenticator, monkeypatch):
    monkeypatch.setattr("server.access.authenticator.CACHE_SIZE", 3)
    for number in range(10):
        assert known(authenticator, Credential(CredentialKind.TOKEN, f"guess {number}")) is None
    assert len(authenticator._invalid) <= 3


def test_a_database_that_fails_is_asked_again(
    counting_database, database, authenticator, monkeypatch
):
    _, credential = make(database)
    with monkeypatch.context() as patch:
        patch.setattr(counting_database, "read", lambda: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            known(authenticator, credential)
    assert known(authenticator, credential)


def test_what_is_forgotten_of_one_token_is_kept_of_the_others(
    database, counting_database, authenticator
):
    secret, first = make(database)
    _, second = make(database)
    assert known(authenticator, first)
    assert known(authenticator, second)
    with database.read() as session:
        authenticator.forget(tokens.get_by_secret(session, secret).id)
    assert authenticator.cached_principal(first) is None
    assert authenticator.cached_principal(second) is not None
