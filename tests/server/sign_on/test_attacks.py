"""What must not sign anybody in, and what it says to the person and to the operator."""

import hmac
import json
import logging
import time
from base64 import urlsafe_b64encode

import httpx
import pytest
from joserfc import jwt
from joserfc.jwk import OctKey

from tests.oidc_provider import new_key, state_of
from tests.tables import every_row

PERSON = "ampcore_person"


def signed_in(browser):
    return browser.client.get("/api/v1/session").status_code == 200


def refusal(answer, caplog):
    """The page, and the line in the log."""
    assert PERSON not in answer.cookies
    lines = [record.getMessage() for record in caplog.records if "sign_on" in record.name]
    return answer.status_code, answer.text, lines[-1]


def test_a_response_counts_once(browser, new_browser, caplog):
    address = browser.provider.answer(browser.start(), "ann")
    assert browser.come_back(address).status_code == 303
    for again in (browser, new_browser()):
        status, page, line = refusal(again.come_back(address), caplog)
        assert status == 400
        assert "used already" in page
        assert "state that is unknown" in line


def test_a_code_that_was_used_is_refused_by_the_provider_and_explained(browser, caplog):
    first = browser.provider.answer(browser.start(), "ann")
    browser.come_back(first)
    second = browser.start()
    code = httpx.URL(first).params["code"]
    address = f"{browser.server.url}/api/v1/sign-in/callback?code={code}&state={state_of(second)}"
    status, page, line = refusal(browser.come_back(address), caplog)
    assert status == 400
    assert "Sign in again" in page
    assert "invalid_grant" in line


def test_a_response_for_another_browser_signs_nobody_in(browser, new_browser, caplog):
    """Otherwise an attacker could have others sign in as the attacker."""
    victim = new_browser()
    victim.start()
    status, page, _ = refusal(
        victim.come_back(browser.provider.answer(browser.start(), "ann")), caplog
    )
    assert status == 400
    assert "not begun in this browser" in page
    assert not signed_in(victim)


def test_a_state_that_nobody_has_sent_is_refused(browser, caplog):
    browser.start()
    address = f"{browser.server.url}/api/v1/sign-in/callback"
    for query in ("", "?code=1", "?code=1&state=x", f"?code=1&state={'x' * 9000}", "?state=%00"):
        status, _, _ = refusal(browser.client.get(address + query), caplog)
        assert status == 400, query


def test_a_code_is_worth_nothing_without_the_verifier_of_this_sign_in(browser, caplog):
    """A code that was stolen and is sent in a sign-in of the thief's."""
    stolen = httpx.URL(browser.provider.answer(browser.start(), "ann")).params["code"]
    state = state_of(browser.start())
    address = f"{browser.server.url}/api/v1/sign-in/callback?code={stolen}&state={state}"
    status, _, line = refusal(browser.come_back(address), caplog)
    assert status == 400
    assert "invalid_grant" in line


WRONG_CLAIMS = {
    "another nonce": ({"nonce": "another"}, "another sign-in", "nonce"),
    "no nonce": ({"nonce": None}, "another sign-in", "nonce"),
    "another audience": ({"aud": "grafana"}, "another application", "expected aud 'ampcore'"),
    "no audience": ({"aud": None}, "another application", "aud"),
    "two audiences, without azp": ({"aud": ["ampcore", "x"]}, "another application", "azp"),
    "for another party": ({"azp": "grafana"}, "another application", "azp: grafana"),
    "another issuer": ({"iss": "https://evil.example"}, "another issuer", "https://evil.example"),
    "no issuer": ({"iss": None}, "another issuer", "iss"),
    "expired": ({"exp": -120}, "has expired", "exp"),
    "no end": ({"exp": None}, "has expired", "exp"),
    "from the future": ({"iat": 600}, "from the future", "iat"),
    "not valid yet": ({"nbf": 600}, "not valid yet", "nbf"),
    "of nobody": ({"sub": None}, "sub", "sub"),
    "of an empty subject": ({"sub": ""}, "sub", "sub"),
    "with another access token": ({"at_hash": "x"}, "another access token", "at_hash"),
}


@every_row("which", WRONG_CLAIMS)
def test_an_id_token_with_wrong_claims_is_refused(browser, caplog, which):
    changes, for_person, for_operator = WRONG_CLAIMS[which]

    def change(claims):
        for name, value in changes.items():
            is_time = name in ("exp", "iat", "nbf") and value is not None
            claims[name] = int(time.time()) + value if is_time else value
            if value is None:
                del claims[name]

    browser.provider.change_claims = change
    status, page, line = refusal(browser.sign_in("ann"), caplog)
    assert status == 502
    assert for_person in page
    assert for_operator in line
    assert not signed_in(browser)


def test_a_small_difference_of_the_clocks_is_no_mistake(browser):
    def change(claims):
        claims["iat"] += 30
        claims["exp"] = int(time.time()) - 30

    browser.provider.change_claims = change
    assert browser.sign_in("ann").status_code == 303


def unsigned(provider):
    """`alg: none`."""

    def forge(text):
        _, claims, _ = text.split(".")
        forged = jwt.encode({"alg": "none"}, {}, OctKey.import_key("x" * 32), ["none"])
        return f"{forged.split('.')[0]}.{claims}."

    return forge


def with_the_public_key_as_a_secret(provider):
    """HS256 with the public key, which everybody knows."""

    key = provider.keys[-1]

    def forge(text):
        head = urlsafe_b64encode(json.dumps({"alg": "HS256", "kid": key.kid}).encode())
        signed = f"{head.decode().rstrip('=')}.{text.split('.')[1]}"
        digest = hmac.digest(key.as_pem(private=False), signed.encode(), "sha256")
        return f"{signed}.{urlsafe_b64encode(digest).decode().rstrip('=')}"

    return forge


def with_the_client_secret(provider):
    """HS256 with the client's secret, which OpenID Connect allows and nobody needs."""

    def forge(text):
        claims = jwt.decode(text, provider.keys[-1]).claims
        secret = OctKey.import_key(provider.client.client_secret.ljust(32))
        return jwt.encode({"alg": "HS256"}, claims, secret, ["HS256"])

    return forge


def with_another_key(provider):
    """With the id of the provider's key."""
    return lambda text: provider.sign(jwt.decode(text, provider.keys[-1]).claims, new_key())


def with_a_key_that_is_not_listed(provider):
    """With an id that the provider does not know."""
    return lambda text: provider.sign(
        jwt.decode(text, provider.keys[-1]).claims, new_key(), kid="unknown"
    )


def with_the_key_in_its_header(provider):
    """With a key that the token itself contains."""
    key = new_key()
    return lambda text: provider.sign(
        jwt.decode(text, provider.keys[-1]).claims, key, jwk=key.as_dict(private=False)
    )


def with_other_claims(provider):
    """The claims are changed, the signature stays."""

    def forge(text):
        claims = jwt.decode(text, provider.keys[-1]).claims | {"groups": ["ml-admins"]}
        _, forged, _ = provider.sign(claims, new_key()).split(".")
        head, _, signature = text.split(".")
        return f"{head}.{forged}.{signature}"

    return forge


def no_token(provider):
    """Not a token at all."""
    return lambda text: "no.token"


FORGERIES = [
    unsigned,
    with_the_public_key_as_a_secret,
    with_the_client_secret,
    with_another_key,
    with_a_key_that_is_not_listed,
    with_the_key_in_its_header,
    with_other_claims,
    no_token,
]


@pytest.mark.filterwarnings("ignore")  # joserfc warns of the keys that the attacker uses
@every_row("forgery", FORGERIES)
def test_a_forged_id_token_is_refused(browser, caplog, forgery):
    browser.provider.change_token = forgery(browser.provider)
    status, page, line = refusal(browser.sign_in("ann"), caplog)
    assert status == 502
    assert "signature is missing or wrong" in page or "does not list" in page
    assert "ID token" in line
    assert not signed_in(browser)


ELSEWHERE = [
    "https://evil.example/",
    "//evil.example/",
    "/\\evil.example/",
    "/%09/evil.example",
    "/\t/evil.example",
    "javascript:alert(1)",
    "/#/jobs\r\nSet-Cookie: x=1",
    "#/jobs",
    "/@evil.example",
    "",
]


@every_row("address", ELSEWHERE)
def test_a_sign_in_never_ends_on_another_site(browser, address):
    answer = browser.client.get("/api/v1/sign-in/start", params={"return_to": address})
    assert answer.status_code == 422


def test_a_callback_cannot_choose_where_it_ends(browser):
    address = browser.provider.answer(browser.start("/#/tokens"), "ann")
    answer = browser.come_back(f"{address}&return_to=https://evil.example/")
    assert answer.headers["Location"] == "/#/tokens"


def test_consent_that_is_refused_is_told(browser, caplog):
    status, page, line = refusal(browser.sign_in(""), caplog)
    assert status == 403
    assert "cancelled" in page
    assert "access_denied" in line


def test_a_response_of_another_issuer_is_refused(browser, caplog):
    address = browser.provider.answer(browser.start(), "ann") + "&iss=https://evil.example"
    status, _, line = refusal(browser.come_back(address), caplog)
    assert status == 403
    assert "https://evil.example" in line


def test_a_provider_that_cannot_be_reached_is_told(browser, new_server, settings, caplog):
    new_server(**{**settings, "oidc_issuer": "http://127.0.0.1:1"})
    answer = browser.client.get("/api/v1/sign-in/start")
    status, page, line = refusal(answer, caplog)
    assert status == 502
    assert "sign in with a token" in page
    assert "cannot reach http://127.0.0.1:1/.well-known/openid-configuration" in line


def test_a_provider_that_fails_is_asked_again_only_some_seconds_later(browser, server):
    """Otherwise each of many people would wait for the timeout of those before."""
    provider = server.app.state.services.sign_on.provider
    seconds = [1000.0]
    provider._clock = lambda: seconds[0]
    browser.provider.metadata = {"issuer": "https://evil.example"}
    path = "/api/v1/sign-in/start"
    assert [browser.client.get(path).status_code for _ in range(3)] == [502] * 3
    assert len(browser.provider.requests) == 1
    browser.provider.metadata = {}
    seconds[0] += 4.0
    assert browser.client.get(path).status_code == 303


BROKEN = {
    "another issuer": ({"issuer": "https://evil.example"}, "expected AMPCORE_OIDC_ISSUER"),
    "no token endpoint": ({"token_endpoint": None}, "as token_endpoint"),
    "an address without TLS": ({"jwks_uri": "http://evil.example/"}, "as jwks_uri"),
}


@every_row("which", BROKEN)
def test_a_provider_that_describes_itself_wrongly_is_refused(browser, caplog, which):
    browser.server.app.state.services.sign_on._provider = None  # it may have read the description
    browser.provider.metadata, expected = BROKEN[which]
    answer = browser.client.get("/api/v1/sign-in/start")
    status, page, line = refusal(answer, caplog)
    assert status == 502
    assert "Tell the operator" in page
    assert expected in line


def test_a_wrong_client_secret_is_told_and_never_logged(browser, new_server, settings, caplog):
    new_server(**{**settings, "oidc_client_secret": "a guess that is wrong"})
    with caplog.at_level(logging.DEBUG):
        status, page, line = refusal(browser.sign_in("ann"), caplog)
    assert status == 502
    assert "client secret" in page
    assert "AMPCORE_OIDC_CLIENT_SECRET" in line
    assert "a guess that is wrong" not in caplog.text + page


def test_no_secret_of_a_sign_in_is_logged_or_stored(browser, server, caplog):
    with caplog.at_level(logging.INFO):
        begun = browser.start()
        cookie = browser.client.cookies["ampcore_sign_in"]
        address = browser.provider.answer(begun, "ann")
        answer = browser.come_back(address)
    secrets = [state_of(begun), httpx.URL(address).params["code"], cookie, answer.cookies[PERSON]]
    written = [line.getMessage() for line in caplog.records if line.name.startswith("server")]
    with server.app.state.services.database.read() as session:
        rows = [
            session.connection().exec_driver_sql(f"SELECT * FROM {table}").all()  # noqa: S608
            for table in ("sign_ins", "person_sessions", "people", "audit")
        ]
    for secret in secrets:
        assert secret not in str(written)
        assert secret not in str(rows)


def test_many_sign_ins_of_one_address_get_429(browser, server):
    from server.http.access.rate_limit import RateLimit

    server.app.state.services.sign_on.limit = RateLimit("2/minute")
    statuses = [browser.client.get("/api/v1/sign-in/start").status_code for _ in range(3)]
    assert statuses == [303, 303, 429]
