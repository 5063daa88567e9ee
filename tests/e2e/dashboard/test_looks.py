"""How every page looks: by day and by night, on a phone, and to those who do not see it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

pytestmark = pytest.mark.xdist_group("dashboard")

AXE = Path(__file__).parents[3] / "dashboard" / "node_modules" / "axe-core" / "axe.min.js"
PHONE_PX = 375
PAGES = {
    "jobs": ("#/jobs", "Jobs"),
    "job": ("#/jobs/{job}", "skipping"),
    "ledger": ("#/jobs/{job}?tab=ledger", "skipping"),
    "log": ("#/jobs/{job}?tab=log", "skipping"),
    "preflight": ("#/jobs/{job}?tab=preflight", "skipping"),
    "attempts": ("#/jobs/{job}?tab=attempts", "skipping"),
    "files": ("#/jobs/{job}?tab=files", "skipping"),
    "spec": ("#/jobs/{job}?tab=spec", "skipping"),
    "compare": ("#/compare?jobs={other},{job}", "Compare"),
    "workers": ("#/workers", "Workers"),
    "submit": ("#/submit?from={job}", "Run skipping again"),
    "tokens": ("#/tokens", "Tokens"),
}


@pytest.fixture
def look(enter: Callable[..., Page], trained: Any) -> Callable[..., Page]:
    """A page, by its name, once what it shows has come."""

    def look(name: str, **window: Any) -> Page:
        healthy, skipping = trained
        place, heading = PAGES[name]
        page = enter(place.format(job=skipping.id, other=healthy.id), **window)
        expect(page.get_by_role("heading", name=heading, exact=True, level=1)).to_be_visible()
        expect(page.get_by_text("Loading")).to_have_count(0)
        return page

    return look


@pytest.mark.parametrize("name", PAGES)
def test_a_page_keeps_nobody_out(look: Callable[..., Page], name: str) -> None:
    page = look(name, scheme="dark")
    assert barriers(page) == []
    brighten(page)
    assert barriers(page) == []


def test_the_door_keeps_nobody_out(visitor: Any) -> None:
    page = visitor.arrive(scheme="dark")
    expect(page.get_by_label("Token")).to_be_visible()
    assert barriers(page) == []
    brighten(page)
    assert barriers(page) == []


@pytest.mark.parametrize("name", PAGES)
def test_a_page_fits_a_phone(look: Callable[..., Page], name: str) -> None:
    page = look(name, width=PHONE_PX)
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE_PX
    assert barriers(page) == []


def test_dark_and_light_are_as_the_system_has_it_or_as_chosen(look: Callable[..., Page]) -> None:
    page = look("jobs", scheme="dark")
    assert brightness(page) < 0.2
    brighten(page)
    assert brightness(page) > 0.8
    page.get_by_label("Theme").select_option("dark")
    assert brightness(page) < 0.2
    page.reload()
    expect(page.get_by_label("Theme")).to_have_value("dark")
    assert brightness(page) < 0.2


def test_the_keyboard_alone_leads_from_the_door_to_a_job(
    visitor: Any, token: str, trained: Any
) -> None:
    page = visitor.arrive()
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


def brighten(page: Page) -> None:
    """Have the system be light from now on; the page follows."""
    page.emulate_media(color_scheme="light")
    expect(page.locator("html")).to_have_attribute("data-theme", "light")


def tab_to(page: Page, there: Locator) -> None:
    """Press Tab until it has the focus."""
    for _ in range(60):
        page.keyboard.press("Tab")
        if there.evaluate("element => element === document.activeElement"):
            return
    pytest.fail("the Tab key does not lead there")


def barriers(page: Page) -> list[str]:
    """What axe-core finds that is serious or worse."""
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
    """Of what is behind everything, from 0 to 1."""
    colour = page.evaluate(
        """() => {
            const canvas = new OffscreenCanvas(1, 1).getContext('2d');
            canvas.fillStyle = getComputedStyle(document.body).backgroundColor;
            canvas.fillRect(0, 0, 1, 1);
            return [...canvas.getImageData(0, 0, 1, 1).data];
        }"""
    )
    return float(sum(colour[:3]) / 3 / 255)
