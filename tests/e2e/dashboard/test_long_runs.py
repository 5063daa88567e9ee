"""A job of ten million steps, and a page that stays open."""

import importlib
import re
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from playwright.sync_api import CDPSession, Page, expect

from dashboard.measuring import DRAWN, figures, held
from store.database import Database
from tests.waiting import DEADLINE_S

pytestmark = pytest.mark.xdist_group("dashboard")

STEPS = 10_000_000
MOST_POINTS = 1000
POLLS = 120
POLL_MS = 2000
WINDOW = 30
"""Polls at the beginning and at the end whose work is compared."""
BLOCK = 4096
LONG_ENOUGH = 270 * BLOCK
"""Steps after which every place for a mark has one, and a point has 2,048 steps until the end."""
STEPS_PER_POLL = 2048
GROWTH = 20
COUNT_POINTS = """() => {
    window.drawnPoints = 0;
    const { lineTo } = Path2D.prototype;
    Path2D.prototype.lineTo = function (...place) {
        window.drawnPoints += 1;
        lineTo.apply(this, place);
    };
}"""


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
        with page.expect_event("requestfinished", lambda request: "/jobs?" in request.url):
            page.clock.run_for(POLL_MS)
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
    """The list of jobs once it has fetched all that it shows; its time passes when we say so."""
    page.clock.install()
    page.reload()
    expect(page.locator("a.name").first).to_be_visible()
    expect(page.get_by_label("Model").get_by_text("mlp", exact=True)).to_have_count(1)
    page.wait_for_load_state("networkidle")
    page.clock.pause_at(page.evaluate("Date.now() + 1000"))
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


@pytest.fixture
def running_job(stack: Any, telemetry: Any) -> Iterator["RunningJob"]:
    """A job that runs and has written so many steps that each mark of the page is there."""
    database = Database(f"sqlite:///{stack.data / 'ampcore.sqlite'}")
    lease = telemetry.claimed(database)
    with telemetry.relaying(database, lease, STEPS) as relay:
        job = RunningJob(lease.job_id, telemetry, relay)
        job.train(LONG_ENOUGH)
        yield job
    telemetry.ended(database, lease)
    database.close()


class RunningJob:
    """A job whose steps the test writes, through the code that stores those of a worker."""

    def __init__(self, id_: str, telemetry: Any, relay: Any) -> None:
        self.id = id_
        self.step = 0
        self._telemetry, self._relay = telemetry, relay

    def train(self, steps: int) -> None:
        """Store so many steps more."""
        end = self.step + steps
        while self.step < end:
            block = self._telemetry.block(self.step, min(BLOCK, end - self.step))
            self._relay.spool.wait_for_room(DEADLINE_S)
            self._relay.carry([self._telemetry.told(block)])
            self.step += len(block)
        self._telemetry.stored(self._relay)


def test_a_page_left_open_neither_grows_nor_stutters(enter: Any, running_job: RunningJob) -> None:
    """The four minutes are those of the page's clock: as many polls, each of which brings steps.

    Ten minutes by the clock on the wall are measured in benchmarks/open_page.py.
    """
    page = enter(f"#/jobs/{running_job.id}")
    page.clock.install()
    page.reload()
    page.wait_for_function(DRAWN)
    page.clock.pause_at(page.evaluate("Date.now() + 60_000"))
    page.evaluate(COUNT_POINTS)
    devtools = page.context.new_cdp_session(page)
    devtools.send("Performance.enable")
    costs = [poll(page, devtools, running_job) for _ in range(WINDOW)]
    at_first = held(devtools)
    costs += [poll(page, devtools, running_job) for _ in range(POLLS - WINDOW)]
    at_last = held(devtools)
    assert at_last["JSHeapUsedSize"] < at_first["JSHeapUsedSize"] + 2_000_000
    # All marks were there before, so that a page that has shown 90 answers more holds no more.
    assert at_last["Nodes"] < at_first["Nodes"] + GROWTH
    assert at_last["JSEventListeners"] < at_first["JSEventListeners"] + GROWTH
    early, late = Cost.of(costs[:WINDOW]), Cost.of(costs[-WINDOW:])
    # Each answer is drawn once, in a fifth more points by now.
    assert 0 < late.points <= 1.5 * early.points, (early, late)
    # An answer takes one frame to three, as the machine is fast or slow: up to thrice the work.
    assert 0 < late.layouts <= 4 * early.layouts, (early, late)


class Cost(NamedTuple):
    """What a page has done to show something."""

    points: float
    layouts: float

    @classmethod
    def of(cls, costs: list["Cost"]) -> "Cost":
        """That of several together."""
        return cls(*map(sum, zip(*costs, strict=True)))


def poll(page: Page, devtools: CDPSession, job: RunningJob) -> Cost:
    """Let the job write steps, and the page ask for them and show them; what that took."""
    before = done(page, devtools)
    job.train(STEPS_PER_POLL)
    with page.expect_response(lambda answer: "/steps?" in answer.url and answer.ok):
        page.clock.run_for(POLL_MS)
    expect(page.get_by_role("status", name="What the plots show")).to_contain_text(
        f"Steps 0 to {job.step - 1:,}"
    )
    page.clock.run_for(100)  # the frame in which the plots are drawn
    after = done(page, devtools)
    return Cost(after.points - before.points, after.layouts - before.layouts)


def done(page: Page, devtools: CDPSession) -> Cost:
    """What the page has drawn by now, and how often it has computed what it looks like."""
    points = page.evaluate("document.body.offsetHeight && window.drawnPoints")
    counted = figures(devtools)
    return Cost(points, counted["LayoutCount"] + counted["RecalcStyleCount"])
