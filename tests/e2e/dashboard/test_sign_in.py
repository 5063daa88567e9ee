"""Signing in and out."""

from typing import Any

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.xdist_group("dashboard")


def test_a_token_signs_in_until_signing_out(user: Any, token: str) -> None:
    page = user.open_signed_out()
    page.get_by_label("Token").fill("amp_no_such_token")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_contain_text("not valid on this server")
    page.get_by_label("Token").fill(token)
    page.get_by_label("Token").press("Enter")
    expect(page.get_by_role("heading", name="Jobs", exact=True)).to_be_visible()
    page.reload()
    expect(page.get_by_role("heading", name="Jobs", exact=True)).to_be_visible()
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_label("Token")).to_be_visible()
    page.reload()
    expect(page.get_by_label("Token")).to_be_visible()


def test_scripts_cannot_read_the_token(user: Any, token: str) -> None:
    requested_urls: list[str] = []
    page = user.open_signed_out()
    page.on("request", lambda request: requested_urls.append(request.url))
    page.get_by_label("Token").fill(token)
    page.get_by_label("Token").press("Enter")
    expect(page.get_by_role("heading", name="Jobs", exact=True)).to_be_visible()
    kept = page.evaluate("JSON.stringify([localStorage, sessionStorage, document.cookie])")
    assert token not in kept
    assert requested_urls
    assert not [url for url in requested_urls if token in url]
    assert token not in page.url


def test_a_viewer_sees_no_controls(user: Any, stack: Any, finished_jobs: Any) -> None:
    made = stack.client.tokens.create("looks on", role="viewer")
    page = user.open_signed_in(made.secret, f"#/jobs/{finished_jobs[0].id}")
    expect(page.get_by_role("heading", name="healthy")).to_be_visible()
    for name in ("Edit and resubmit", "Delete"):
        expect(page.get_by_text(name)).to_have_count(0)
    expect(page.get_by_role("link", name="Submit")).to_have_count(0)
    expect(page.get_by_role("link", name="Tokens")).to_have_count(0)


def test_an_ended_session_shows_the_sign_in_page(user: Any, stack: Any) -> None:
    made = stack.client.tokens.create("leaves soon", role="member")
    page = user.open_signed_in(made.secret)
    expect(page.get_by_role("heading", name="Jobs", exact=True)).to_be_visible()
    stack.client.tokens.revoke(made.id)
    expect(page.get_by_label("Token")).to_be_visible()
