"""The server goes away while somebody looks, and comes back."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import expect

from tests.e2e.dashboard.specs import LIVE

pytestmark = pytest.mark.xdist_group("dashboard")


def test_a_page_survives_a_restart_of_the_server(
    start: Callable[..., Any], new_visitor: Callable[[str], Any], tmp_path: Path
) -> None:
    data = tmp_path / "data"
    stack = start(data)
    url = stack.client.url
    try:
        job = stack.client.jobs.submit(LIVE)
        page = new_visitor(url).enter((data / "token").read_text().strip(), f"#/jobs/{job.id}")
        step = page.locator("dl.facts div", has_text="Step").first
        expect(step).to_contain_text(re.compile(r"[1-9]"))
    finally:
        assert stack.stop() == 0
    alert = page.get_by_role("alert").filter(has_text="No connection.")
    expect(alert).to_be_visible()
    expect(page.get_by_role("heading", name="live")).to_be_visible()
    seen = step.inner_text()
    stack = start(data, urlsplit(url).port)
    try:
        expect(alert).to_be_hidden()
        expect(step).not_to_have_text(seen)  # the job went on, and nobody had to sign in again
        page.get_by_role("button", name="Cancel live").click()
        expect(page.get_by_label("Why the job is in this state")).to_be_visible()
    finally:
        assert stack.stop() == 0
