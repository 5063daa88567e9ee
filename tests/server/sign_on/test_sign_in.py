"""Signing in: the way to the provider and back, and what the groups allow."""

from urllib.parse import parse_qs, urlsplit

import pytest

from tests.oidc_provider import CLIENT_ID
from tests.tables import every_row


def test_a_person_signs_in_and_has_what_its_groups_allow(browser):
    answer = browser.sign_in("ann", "/#/jobs/0123456789ab")
    assert (answer.status_code, answer.headers["Location"]) == (303, "/#/jobs/0123456789ab")
    session = browser.client.get("/api/v1/session").json()
    assert session["token_name"] == "ann@example.com"
    assert (session["role"], session["project"]) == ("member", "vision")
    assert session["person"]["name"] == "Ann"
    assert [grant["project"] for grant in session["person"]["grants"]] == ["vision"]


def test_the_sign_in_page_learns_the_name_of_the_provider(browser):
    options = browser.client.get("/api/v1/sign-in").json()
    assert options["provider"] == {"name": "Example", "url": "/api/v1/sign-in/start"}


def test_without_a_provider_there_is_only_the_token(new_server, browser):
    new_server()
    assert browser.client.get("/api/v1/sign-in").json() == {"provider": None}
    answer = browser.client.get("/api/v1/sign-in/start")
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
    assert "AMPCORE_OIDC_ISSUER" in answer.json()["detail"]


def test_the_request_has_a_state_a_nonce_and_a_challenge(browser):
    query = parse_qs(urlsplit(browser.start()).query)
    assert query["client_id"] == [CLIENT_ID]
    assert query["response_type"] == ["code"]
    assert query["code_challenge_method"] == ["S256"]
    assert query["scope"] == ["openid profile email"]
    assert all(len(query[name][0]) >= 43 for name in ("state", "nonce", "code_challenge"))


def test_an_admin_of_the_provider_is_one_in_every_project(browser):
    browser.sign_in("root")
    assert browser.client.get("/api/v1/session").json()["role"] == "admin"
    assert browser.client.get("/api/v1/people").status_code == 200


def test_a_person_with_two_projects_opens_the_other_one(browser):
    browser.sign_in("rae")
    assert browser.client.get("/api/v1/session").json()["project"] == "vision"
    changed = browser.change("PATCH", "/session", json={"project": "audio"})
    assert (changed.status_code, changed.json()["project"]) == (200, "audio")
    assert browser.client.get("/api/v1/session").json()["project"] == "audio"
    refused = browser.change("PATCH", "/session", json={"project": "default"})
    assert refused.status_code == 404


def test_a_job_says_who_has_submitted_it(browser):
    browser.sign_in("ann")
    spec = {"model": {"kind": "mlp"}, "data": {"kind": "digits"}}
    job = browser.change("POST", "/jobs", json=spec).json()
    assert (job["created_by"], job["project"]) == ("ann@example.com", "vision")


def test_groups_come_from_userinfo_if_the_id_token_has_none(browser, provider):
    provider.change_claims = lambda claims: claims.pop("groups")
    browser.sign_in("ann")
    assert browser.client.get("/api/v1/session").json()["project"] == "vision"
    assert "/userinfo" in provider.requests


def test_userinfo_of_somebody_else_is_refused(browser, provider):
    provider.change_claims = lambda claims: claims.pop("groups")
    provider.user_info = lambda user: {"sub": "sub of root", "groups": ["ml-admins"]}
    answer = browser.sign_in("ann")
    assert answer.status_code == 502
    assert "two different people" in answer.text


CLAIMS = {
    "a path": ("realm_access.roles", {"realm_access": {"roles": ["vision"]}}),
    "a name with dots": ("https://example.com/groups", {"https://example.com/groups": ["vision"]}),
    "a text": ("hd", {"hd": "vision"}),
    "the second of two": ("roles,teams", {"teams": ["vision"]}),
}


@pytest.mark.parametrize("which", CLAIMS)
def test_the_claim_with_the_groups_can_be_named(which, new_server, settings, browser, provider):
    names, claims = CLAIMS[which]
    new_server(**settings, oidc_groups_claim=names)
    provider.add_user("tom", **claims)
    browser.sign_in("tom")
    assert browser.client.get("/api/v1/session").json()["project"] == "vision"


def test_an_email_address_counts_as_a_group_only_if_it_is_verified(
    new_server, settings, browser, provider
):
    groups = '{"tom@example.com": "vision:viewer"}'
    new_server(**{**settings, "oidc_groups": groups, "oidc_groups_claim": "email"})
    provider.add_user("tom", email_verified=False)
    assert browser.sign_in("tom").status_code == 403
    provider.add_user("tom")
    assert browser.sign_in("tom").status_code == 303


def test_only_verified_addresses_of_the_allowed_domains_sign_in(
    new_server, settings, browser, provider
):
    new_server(**settings, oidc_email_domains="example.com")
    assert browser.sign_in("ann").status_code == 303
    provider.add_user("mal", "vision", email="mal@evil.example")
    provider.add_user("bob", "vision", email_verified=False)
    provider.add_user("sub", "vision", email="sub@other.example.com")
    for user, reason in {
        "mal": "lets in addresses of example.com",
        "bob": "does not say that it has verified",
        "sub": "lets in addresses of example.com",
    }.items():
        answer = browser.sign_in(user)
        assert answer.status_code == 403
        assert reason in answer.text


def test_without_a_group_that_has_access_the_page_names_the_groups_and_what_to_set(browser):
    answer = browser.sign_in("eve")
    assert answer.status_code == 403
    assert answer.headers["Content-Type"].startswith("text/html")
    for text in ("eve@example.com", "staff", "kitchen", "AMPCORE_OIDC_GROUPS"):
        assert text in answer.text
    assert browser.client.get("/api/v1/session").status_code == 401


def test_without_any_groups_the_page_names_the_claim(browser, provider):
    provider.add_user("tom").claims.pop("groups")
    answer = browser.sign_in("tom")
    assert answer.status_code == 403
    assert "AMPCORE_OIDC_GROUPS_CLAIM" in answer.text
    assert "groups" in answer.text


def test_names_from_the_provider_are_text_on_the_page(browser, provider):
    provider.add_user("tom", "<script>alert(1)</script>")
    answer = browser.sign_in("tom")
    assert "<script>" not in answer.text
    assert "&lt;script&gt;" in answer.text
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]


def test_a_client_without_a_secret_signs_in(new_server, settings, browser, provider):
    provider.client.methods = ("none",)
    del settings["oidc_client_secret"]
    new_server(**settings)
    assert browser.sign_in("ann").status_code == 303


@every_row("method", ["client_secret_basic", "client_secret_post"])
def test_the_secret_is_sent_as_the_provider_asks(browser, provider, server, method):
    server.app.state.services.sign_on._provider = None  # it has read the description
    provider.client.methods = (method,)
    assert browser.sign_in("ann").status_code == 303


def test_new_keys_of_the_provider_are_read_when_one_is_unknown(browser, provider):
    assert browser.sign_in("ann").status_code == 303
    provider.rotate()
    assert browser.sign_in("ann").status_code == 303
    assert provider.requests.count("/jwks") == 2
    assert browser.sign_in("ann").status_code == 303
    assert provider.requests.count("/jwks") == 2


def test_an_address_that_is_not_verified_is_not_shown_as_the_persons(browser, provider):
    provider.add_user("tom", "vision", email="root@example.com", email_verified=False)
    browser.sign_in("tom")
    session = browser.client.get("/api/v1/session").json()
    assert (session["token_name"], session["person"]["email"]) == ("Tom", None)
