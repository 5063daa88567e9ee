"""The door of the dashboard."""

from typing import Any

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.xdist_group("dashboard")


def test_a_token_opens_the_dashboard_and_signing_out_closes_it(visitor: Any, token: str) -> None:
    page = visitor.arrive()
    page.get_by_label("Token").fill("amp_no_such_token")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_contain_text("not valid here")
    page.get_by_label("Token").fill(token)
    page.get_by_label("Token").press("Enter")
    expect(page.get_by_role("heading", name="Jobs", exact=True)).to_be_visible()
    page.reload()
    expect(page.get_by_role("heading", name="Jobs", exact=True)).to_be_visible()
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_label("Token")).to_be_visible()
    page.reload()
    expect(page.get_by_label("Token")).to_be_visible()


def test_the_secret_is_kept_nowhere_that_a_script_can_read(visitor: Any, token: str) -> None:
    asked: list[str] = []
    page = visitor.arrive()
    page.on("request", lambda request: asked.append(request.url))
    page.get_by_label("Token").fill(token)
    page.get_by_label("Token").press("Enter")
    expect(page.get_by_role("heading", name="Jobs", exact=True)).to_be_visible()
    kept = page.evaluate("JSON.stringify([localStorage, sessionStorage, document.cookie])")
    assert token not in kept
    assert asked
    assert not [url for url in asked if token in url]
    assert token not in page.url


def test_a_viewer_is_offered_nothing_to_change(visitor: Any, stack: Any, trained: Any) -> None:
    made = stack.client.tokens.create("looks on", role="viewer")
    page = visitor.enter(made.secret, f"#/jobs/{trained[0].id}")
    expect(page.get_by_role("heading", name="healthy")).to_be_visible()
    for name in ("Run again with changes", "Delete"):
        expect(page.get_by_text(name)).to_have_count(0)
    expect(page.get_by_role("link", name="Submit")).to_have_count(0)
    expect(page.get_by_role("link", name="Tokens")).to_have_count(0)


def test_a_session_that_ended_asks_for_a_token_again(visitor: Any, stack: Any) -> None:
    made = stack.client.tokens.create("leaves soon", role="member")
    page = visitor.enter(made.secret)
    expect(page.get_by_role("heading", name="Jobs", exact=True)).to_be_visible()
    stack.client.tokens.revoke(made.id)
    expect(page.get_by_label("Token")).to_be_visible()
