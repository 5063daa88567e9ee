"""A job of ten million steps, and a page that stays open."""

import importlib
import re
import statistics
import sys
from typing import Any

import pytest
from playwright.sync_api import CDPSession, Page, expect

from dashboard.measuring import DRAWN, figures, held
from store.database import Database

pytestmark = pytest.mark.xdist_group("dashboard")

STEPS = 10_000_000
MOST_POINTS = 1000
POLLS = 120
POLL_MS = 2000


@pytest.fixture(scope="module")
def telemetry(request: pytest.FixtureRequest) -> Any:
    """Where the benchmarks make up the steps of a job."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [str(request.config.rootpath / "benchmarks"), *sys.path])
        yield importlib.import_module("under_load.telemetry")


@pytest.fixture(scope="module")
def long_job(stack: Any, telemetry: Any) -> str:
    """The id of a job that has told of ten million steps."""
    database = Database(f"sqlite:///{stack.data / 'ampcore.sqlite'}")
    try:
        return str(telemetry.filled(database, STEPS))
    finally:
        database.close()


def test_ten_million_steps_open_at_once_and_zoom_at_once(
    enter: Any, long_job: str, telemetry: Any
) -> None:
    page = enter(f"#/jobs/{long_job}")
    page.wait_for_function(DRAWN)
    with page.expect_response(lambda answer: "/steps?" in answer.url) as opened:
        page.reload()
    # What it takes to open is no more than for a short job; benchmarks/open_page.py measures it.
    assert len(opened.value.json()["data"]["step"]) <= MOST_POINTS
    page.wait_for_function(DRAWN)
    shown = page.get_by_role("status", name="What the plots show")
    near = 0
    while "Every step is a point" not in shown.inner_text():
        before = shown.inner_text()
        with page.expect_response(lambda answer: "start=" in answer.url) as answer:
            page.get_by_role("button", name="Zoom in").click()
        assert len(answer.value.json()["data"]["step"]) <= MOST_POINTS
        expect(shown).not_to_have_text(before)
        near += 1
    assert near >= 10
    marks = page.get_by_role("toolbar", name="Skipped steps").get_by_role("button")
    start, end = re.findall(r"[\d,]*\d", shown.inner_text().replace(",", ""))[:2]
    assert marks.count() == len(telemetry.skipped_between(int(start), int(end)))


def test_an_idle_page_costs_nothing_but_304s(enter: Any, trained: Any) -> None:
    told: list[tuple[int, str]] = []
    page = opened_by_its_own_clock(enter("#/jobs?q=healthy"))
    page.on("response", lambda answer: told.append((answer.status, answer.url)))
    for _ in range(4):
        with page.expect_response(lambda answer: "/jobs?" in answer.url) as answer:
            page.clock.run_for(POLL_MS)
        answer.value.finished()
    asked = [status for status, url in told if "/api/" in url]
    assert asked.count(304) == len(asked) >= 4
    files = [url for _, url in told if "/api/" not in url]
    assert len(files) == len(set(files)), "what the next page needs is fetched once"


def test_a_hidden_page_asks_for_nothing(enter: Any, trained: Any) -> None:
    page = opened_by_its_own_clock(enter("#/jobs?q=healthy"))
    hide(page, True)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.clock.run_for(4 * POLL_MS)
    with page.expect_request(lambda request: "/jobs?" in request.url):
        hide(page, False)
    assert len([url for url in asked if "/jobs?" in url]) == 1, "all but the last: while hidden"


def opened_by_its_own_clock(page: Page) -> Page:
    """The list of jobs once it has fetched all that it shows; its time can be made to pass."""
    page.clock.install()
    with page.expect_response(lambda answer: answer.url.endswith("/models")) as models:
        page.reload()
    models.value.finished()
    expect(page.locator("a.name").first).to_be_visible()
    page.wait_for_load_state("networkidle")
    return page


def hide(page: Page, hidden: bool) -> None:
    """Have another window lie over the page, or no longer."""
    page.evaluate(
        """hidden => {
            Object.defineProperty(document, 'hidden', {value: hidden, configurable: true});
            document.dispatchEvent(new Event('visibilitychange'));
        }""",
        hidden,
    )


def test_a_page_left_open_neither_grows_nor_stutters(enter: Any, live: Any) -> None:
    """The four minutes are those of the page's clock: as many polls, each of a job that goes on.

    Ten minutes by the clock on the wall are measured in benchmarks/open_page.py.
    """
    page = enter(f"#/jobs/{live.id}")
    page.wait_for_function(DRAWN)
    shown = page.get_by_role("status", name="What the plots show")
    expect(shown).to_contain_text("A point is")  # from here on a plot has no more points
    page.clock.install()
    page.reload()
    page.clock.run_for(1000)
    page.wait_for_function(DRAWN)
    devtools = page.context.new_cdp_session(page)
    devtools.send("Performance.enable")
    early = [poll(page, devtools) for _ in range(POLLS // 4)]
    at_first = held(devtools)
    polls = [poll(page, devtools) for _ in range(POLLS - len(early))]
    at_last = held(devtools)
    assert at_last["JSHeapUsedSize"] < at_first["JSHeapUsedSize"] + 2_000_000
    assert at_last["Nodes"] < at_first["Nodes"] + 500  # a mark for each skipped step
    assert at_last["JSEventListeners"] < at_first["JSEventListeners"] + 500
    assert typical(polls[-30:]) <= 2 * typical(early)


def typical(polls: list[float]) -> float:
    """What a poll costs that shows something; an answer may be drawn with the next one's."""
    return statistics.median([cost for cost in polls if cost])


def poll(page: Page, devtools: CDPSession) -> float:
    """Let the page ask once more; how often it put itself in order for that."""
    before = work(devtools)
    with page.expect_response(lambda answer: "/steps?" in answer.url) as answer:
        page.clock.run_for(POLL_MS)
    answer.value.finished()
    page.clock.run_for(100)  # the frame in which it is drawn
    return work(devtools) - before


def work(devtools: CDPSession) -> float:
    """How often a page has computed what it looks like, by now."""
    counted = figures(devtools)
    return counted["LayoutCount"] + counted["RecalcStyleCount"]
