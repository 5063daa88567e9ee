"""Accessibility of every page, in both themes, on a phone and by keyboard."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, ViewportSize, expect

pytestmark = pytest.mark.xdist_group("dashboard")

AXE = Path(__file__).parents[3] / "dashboard" / "node_modules" / "axe-core" / "axe.min.js"
FITS_JS = "() => document.documentElement.scrollWidth <= window.innerWidth"
PHONE: ViewportSize = {"width": 375, "height": 900}
PAGES = {
    "jobs": ("#/jobs", "Jobs"),
    "job": ("#/jobs/{job}", "skipping"),
    "events": ("#/jobs/{job}?tab=events", "skipping"),
    "ranges": ("#/jobs/{job}?tab=ranges", "skipping"),
    "evaluation": ("#/jobs/{job}?tab=evaluation", "skipping"),
    "log": ("#/jobs/{job}?tab=log", "skipping"),
    "preflight": ("#/jobs/{job}?tab=preflight", "skipping"),
    "attempts": ("#/jobs/{job}?tab=attempts", "skipping"),
    "files": ("#/jobs/{job}?tab=files", "skipping"),
    "spec": ("#/jobs/{job}?tab=spec", "skipping"),
    "compare": ("#/compare?jobs={other},{job}", "Compare"),
    "workers": ("#/workers", "Workers"),
    "datasets": ("#/datasets", "Datasets"),
    "models": ("#/models", "Models"),
    "submit": ("#/submit?from={job}", "Resubmit skipping"),
    "notifications": ("#/notifications", "Notifications"),
    "tokens": ("#/tokens", "Tokens"),
    "projects": ("#/projects", "Projects"),
    "trash": ("#/trash", "Trash"),
}


@pytest.fixture
def open_page(open_signed_in: Callable[..., Page], finished_jobs: Any) -> Callable[..., Page]:
    """Open a page by its name and wait until it has loaded."""

    def open_page(name: str, **window: Any) -> Page:
        healthy, skipping = finished_jobs
        place, heading = PAGES[name]
        page = open_signed_in(place.format(job=skipping.id, other=healthy.id), **window)
        expect(page.get_by_role("heading", name=heading, exact=True, level=1)).to_be_visible()
        expect(page.get_by_text("Loading")).to_have_count(0)
        return page

    return open_page


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_accessible_and_fits_a_phone(open_page: Callable[..., Page], name: str) -> None:
    page = open_page(name, scheme="dark")
    assert accessibility_violations(page) == []
    switch_to_light(page)
    assert accessibility_violations(page) == []
    submit_buttons = page.locator("form button[type=submit]:visible")
    wide_count = submit_buttons.count()
    page.set_viewport_size(PHONE)
    # The page may draw its plots again in the next frame.
    page.wait_for_function(FITS_JS)
    assert page.evaluate("window.innerWidth") == PHONE["width"]
    expect(submit_buttons).to_have_count(wide_count)
    assert accessibility_violations(page) == []


def test_the_sign_in_page_is_accessible(user: Any) -> None:
    page = user.open_signed_out(scheme="dark")
    expect(page.get_by_label("Token")).to_be_visible()
    assert accessibility_violations(page) == []
    switch_to_light(page)
    assert accessibility_violations(page) == []


def test_the_theme_is_the_systems_or_the_selected_one(
    open_page: Callable[..., Page],
) -> None:
    page = open_page("jobs", scheme="dark")
    assert brightness(page) < 0.2
    switch_to_light(page)
    assert brightness(page) > 0.8
    page.get_by_label("Theme").select_option("dark")
    assert brightness(page) < 0.2
    page.reload()
    expect(page.get_by_label("Theme")).to_have_value("dark")
    assert brightness(page) < 0.2


def test_the_keyboard_alone_reaches_a_job_from_the_sign_in_page(
    user: Any, token: str, finished_jobs: Any
) -> None:
    page = user.open_signed_out()
    expect(page.get_by_label("Token")).to_be_focused()
    page.keyboard.type(token)
    page.keyboard.press("Enter")
    search = page.get_by_label("Search")
    expect(search).to_be_visible()
    tab_to(page, search)
    page.keyboard.type("skipping")
    name = page.get_by_role("link", name="skipping", exact=True)
    expect(name).to_have_count(1)
    tab_to(page, name)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="skipping")).to_be_visible()


def switch_to_light(page: Page) -> None:
    """Switch the system to light and wait until the page has followed."""
    page.emulate_media(color_scheme="light")
    expect(page.locator("html")).to_have_attribute("data-theme", "light")


def tab_to(page: Page, target: Locator) -> None:
    """Press Tab until the locator has the focus."""
    for _ in range(60):
        page.keyboard.press("Tab")
        if target.evaluate("element => element === document.activeElement"):
            return
    pytest.fail("the Tab key does not reach the element")


def accessibility_violations(page: Page) -> list[str]:
    """The serious and critical findings of axe-core."""
    if page.evaluate("window.axe === undefined"):
        page.evaluate(AXE.read_text(encoding="utf-8"))
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{violation['id']}: {node['target']} {node['failureSummary']}"
        for violation in found["violations"]
        if violation["impact"] in ("serious", "critical")
        for node in violation["nodes"]
    ]


def brightness(page: Page) -> float:
    """The brightness of the background, from 0 to 1."""
    colour = page.evaluate(
        """() => {
            const canvas = new OffscreenCanvas(1, 1).getContext('2d');
            canvas.fillStyle = getComputedStyle(document.body).backgroundColor;
            canvas.fillRect(0, 0, 1, 1);
            return [...canvas.getImageData(0, 0, 1, 1).data];
        }"""
    )
    return float(sum(colour[:3]) / 3 / 255)
