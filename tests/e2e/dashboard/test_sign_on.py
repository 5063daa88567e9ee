"""Signing in with a provider, in a browser."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page, expect

from tests.oidc_provider import CLIENT_ID, CLIENT_SECRET, OidcProvider, oidc_provider
from tests.processes import free_port

pytestmark = pytest.mark.xdist_group("dashboard")

GROUPS = {
    "ml-admins": "admin",
    "vision": "vision:member",
    "audio": "audio:viewer",
}


@pytest.fixture(scope="module")
def provider() -> Iterator[OidcProvider]:
    with oidc_provider() as provider:
        provider.add_user("ann", "vision", "audio")
        provider.add_user("root", "ml-admins")
        provider.add_user("eve", "kitchen")
        yield provider


@pytest.fixture(scope="module")
def stack_with_provider(
    provider: OidcProvider, start: Any, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Any]:
    folder = tmp_path_factory.mktemp("sign-on")
    port, secret = free_port(), folder / "secret"
    secret.write_text(f"{CLIENT_SECRET}\n")
    url = f"http://127.0.0.1:{port}"
    provider.client.redirect_uris = {f"{url}/api/v1/sign-in/callback"}
    stack = start(
        folder / "data",
        port,
        AMPCORE_PUBLIC_URL=url,
        AMPCORE_OIDC_ISSUER=provider.issuer,
        AMPCORE_OIDC_CLIENT_ID=CLIENT_ID,
        AMPCORE_OIDC_CLIENT_SECRET_FILE=str(secret),
        AMPCORE_OIDC_NAME="Example",
        AMPCORE_OIDC_GROUPS=json.dumps(GROUPS),
    )
    yield stack
    assert stack.stop() == 0
    logs = "".join(path.read_text() for path in Path(stack.data).rglob("*.log"))
    assert CLIENT_SECRET not in logs


@pytest.fixture
def person(new_user: Any, stack_with_provider: Any, provider: OidcProvider) -> Any:
    user = new_user(stack_with_provider.client.url)
    user.allowed_hosts.add(urlsplit(provider.issuer).netloc)
    return user


def sign_in(page: Page, name: str) -> None:
    page.get_by_role("link", name="Sign in with Example").click()
    page.get_by_role("button", name=f"Sign in as {name}").click()


def test_a_person_signs_in_works_and_signs_out(person: Any) -> None:
    page = person.open_signed_out()
    page.goto(f"{person.url}/#/workers")
    with page.expect_response("**/session/activity") as activity:
        sign_in(page, "ann")
        expect(page.get_by_role("heading", name="Workers")).to_be_visible()  # where the person was
    assert activity.value.status == 204
    expect(page.get_by_text("ann@example.com")).to_be_visible()
    kept = page.evaluate("JSON.stringify([localStorage, sessionStorage, document.cookie])")
    assert "ampcore_person" not in kept
    # Another project, in which the person only reads.
    expect(page.get_by_role("link", name="Submit")).to_be_visible()
    project = page.get_by_role("combobox", name="Project")
    project.select_option("audio")
    expect(page.get_by_role("link", name="Submit")).to_have_count(0)
    expect(project).to_have_value("audio")
    # A token of the person's, for ampctl.
    page.get_by_role("link", name="Tokens").click()
    page.get_by_label("Name (person or program)").fill("my laptop")
    form = page.get_by_role("form", name="Create token")
    form.get_by_role("combobox", name="Project").select_option("vision")
    page.get_by_role("button", name="Create token").click()
    expect(page.get_by_role("heading", name="Token for my laptop")).to_be_visible()
    row = page.get_by_role("table", name="Tokens").get_by_role("row", name="my laptop")
    expect(row.get_by_role("cell", name="ann@example.com")).to_have_count(2)  # made by, belongs to
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_label("Token", exact=True)).to_be_visible()
    page.reload()
    expect(page.get_by_label("Token", exact=True)).to_be_visible()


def test_an_admin_ends_a_session_and_the_person_comes_back_to_where_it_was(person: Any) -> None:
    page = person.open_signed_out()
    sign_in(page, "ann")
    page.get_by_role("link", name="Workers").click()
    expect(page.get_by_role("heading", name="Workers")).to_be_visible()
    admin = person.open_signed_out()
    sign_in(admin, "root")
    admin.get_by_role("link", name="Tokens").click()
    row = admin.get_by_role("table", name="People").get_by_role("row", name="ann@example.com")
    row.get_by_role("button", name="Sign ann@example.com out").first.click()
    expect(page.get_by_label("Token", exact=True)).to_be_visible()
    sign_in(page, "ann")
    expect(page.get_by_role("heading", name="Workers")).to_be_visible()


def test_without_access_a_page_says_what_the_operator_must_set(person: Any) -> None:
    page = person.open_signed_out()
    sign_in(page, "eve")
    expect(page.get_by_role("heading", name="You are not signed in")).to_be_visible()
    expect(page.get_by_text("kitchen")).to_be_visible()
    expect(page.get_by_text("AMPCORE_OIDC_GROUPS")).to_be_visible()
    page.get_by_role("link", name="Go to the sign-in page").click()
    expect(page.get_by_label("Token", exact=True)).to_be_visible()
