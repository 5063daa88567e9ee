"""A job of three million steps, and a page that stays open."""

import functools
import importlib
import re
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from playwright.sync_api import CDPSession, Locator, Page, Request, expect

from dashboard.page_metrics import IS_DRAWN_JS, collected_metrics, metrics
from store.database import Database
from tests.waiting import DEADLINE_S, wait_until

pytestmark = pytest.mark.xdist_group("dashboard")

STEPS = 3_000_000
MAX_POINTS = 1000
POLLS = 120
POLL_MS = 2000
WINDOW = 30
"""The number of polls at the beginning and at the end whose cost is compared."""
BLOCK = 4096
SOME_SKIPS = 3000
"""Enough steps for markers, and for points of several steps, which new steps join."""
STREAM = "/stream?"
LONG_ENOUGH = 270 * BLOCK
"""Enough steps that every marker is used and a point stands for 2,048 steps until the end."""
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
    """The benchmark module that generates the steps of a job."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [str(request.config.rootpath / "benchmarks"), *sys.path])
        yield importlib.import_module("under_load.telemetry")


@pytest.fixture(scope="module")
def long_job(stack: Any, telemetry: Any) -> str:
    """The id of a job with three million stored steps."""
    database = Database(f"sqlite:///{stack.data / 'ampcore.sqlite'}")
    try:
        return str(telemetry.create_finished_job(database, STEPS))
    finally:
        database.close()


def test_each_plot_of_a_long_run_has_at_most_1000_points(
    open_signed_in: Any, long_job: str, telemetry: Any
) -> None:
    page = open_signed_in(f"#/jobs/{long_job}")
    page.wait_for_function(IS_DRAWN_JS)
    with page.expect_response(lambda response: "/steps?" in response.url) as opened:
        page.reload()
    # It opens as fast as the page of a short job: benchmarks/page_load.py measures it.
    assert len(opened.value.json()["data"]["step"]) <= MAX_POINTS
    page.wait_for_function(IS_DRAWN_JS)
    shown = page.get_by_role("status", name="Plot range")
    zooms = 0
    while "Each point is one step" not in shown.inner_text():
        before = shown.inner_text()
        with page.expect_response(lambda response: "start=" in response.url) as response:
            page.get_by_role("button", name="Zoom in").click()
        assert len(response.value.json()["data"]["step"]) <= MAX_POINTS
        expect(shown).not_to_have_text(before)
        zooms += 1
    assert zooms >= 10
    markers = page.get_by_role("toolbar", name="Skipped steps").get_by_role("button")
    start, end = re.findall(r"[\d,]*\d", shown.inner_text().replace(",", ""))[:2]
    expect(markers).to_have_count(len(telemetry.skipped_between(int(start), int(end))))


def test_an_idle_page_only_gets_304_responses(open_signed_in: Any, finished_jobs: Any) -> None:
    responses: list[tuple[int, str]] = []
    page = open_with_fake_clock(open_signed_in("#/jobs?q=healthy"))
    page.on("response", lambda response: responses.append((response.status, response.url)))

    def polls(number: int) -> bool:
        page.clock.run_for(POLL_MS)
        return sum("/jobs?" in url for _, url in responses) >= number

    for number in range(1, 5):
        # Again where the page has not yet set the timer of its next request.
        wait_until(functools.partial(polls, number), f"{number} polls")
    requested = [status for status, url in responses if "/api/" in url]
    assert requested.count(304) == len(requested) >= 4
    files = [url for _, url in responses if "/api/" not in url]
    assert len(files) == len(set(files)), "a file was requested twice"


def test_a_hidden_page_sends_no_requests(open_signed_in: Any, finished_jobs: Any) -> None:
    page = open_with_fake_clock(open_signed_in("#/jobs?q=healthy"))
    hide(page, True)
    requested: list[str] = []
    page.on("request", lambda request: requested.append(request.url))
    page.clock.run_for(4 * POLL_MS)
    with page.expect_request(lambda request: "/jobs?" in request.url):
        hide(page, False)
    assert len([url for url in requested if "/jobs?" in url]) == 1, (
        "a request was sent while the page was hidden"
    )


def open_with_fake_clock(page: Page) -> Page:
    """Open the list of jobs with a clock that the test moves."""
    page.clock.install()
    page.reload()
    expect(page.locator("a.name").first).to_be_visible()
    expect(page.get_by_label("Model").get_by_text("mlp", exact=True)).to_have_count(1)
    page.wait_for_load_state("networkidle")
    with page.expect_event("requestfinished", lambda request: "/jobs?" in request.url):
        page.clock.pause_at(page.evaluate("Date.now() + 60_000"))  # a poll is due by then
    return page


def hide(page: Page, hidden: bool) -> None:
    """Hide the page or show it again, as switching tabs does."""
    page.evaluate(
        """hidden => {
            Object.defineProperty(document, 'hidden', {value: hidden, configurable: true});
            document.dispatchEvent(new Event('visibilitychange'));
        }""",
        hidden,
    )


@pytest.fixture
def running_job(stack: Any, telemetry: Any) -> Iterator["RunningJob"]:
    """A running job, whose steps the test stores."""
    database = Database(f"sqlite:///{stack.data / 'ampcore.sqlite'}")
    lease = telemetry.claim_new_job(database)
    with telemetry.writing_telemetry(database, lease, STEPS) as writer:
        yield RunningJob(lease.job_id, telemetry, writer)
    telemetry.finish_job(database, lease)
    database.close()


class RunningJob:
    """A job whose steps the test stores through the worker's code."""

    def __init__(self, id_: str, telemetry: Any, writer: Any) -> None:
        self.id = id_
        self.step = 0
        self._telemetry, self._writer = telemetry, writer

    def train(self, steps: int) -> None:
        """Store more steps."""
        end = self.step + steps
        while self.step < end:
            block = self._telemetry.block(self.step, min(BLOCK, end - self.step))
            self._writer.buffer.wait_for_room(DEADLINE_S)
            self._writer.enqueue_frames([self._telemetry.steps_frame(block)])
            self.step += len(block)
        self._telemetry.wait_until_stored(self._writer)


def test_a_page_left_open_needs_no_more_memory_or_work(
    open_signed_in: Any, running_job: RunningJob
) -> None:
    """Four minutes by the page's own clock, with new steps at every poll.

    benchmarks/page_load.py measures ten minutes of real time.
    """
    running_job.train(LONG_ENOUGH)
    page = open_signed_in(f"#/jobs/{running_job.id}")
    page.clock.install()
    page.reload()
    page.wait_for_function(IS_DRAWN_JS)
    page.clock.pause_at(page.evaluate("Date.now() + 60_000"))
    page.evaluate(COUNT_POINTS)
    devtools = page.context.new_cdp_session(page)
    devtools.send("Performance.enable")
    polling = Polling(page)
    costs = [draw(polling, devtools, running_job) for _ in range(WINDOW)]
    at_first = collected_metrics(devtools)
    costs += [draw(polling, devtools, running_job) for _ in range(POLLS - WINDOW)]
    at_last = collected_metrics(devtools)
    assert at_last["JSHeapUsedSize"] < at_first["JSHeapUsedSize"] + 2_000_000
    # Every marker was in use before, so that 90 more responses need no more nodes.
    assert at_last["Nodes"] < at_first["Nodes"] + GROWTH
    assert at_last["JSEventListeners"] < at_first["JSEventListeners"] + GROWTH
    early, late = DrawingCost.of(costs[:WINDOW]), DrawingCost.of(costs[-WINDOW:])
    # Each response is drawn once; by now it has a fifth more points.
    assert 0 < late.points <= 1.5 * early.points, (early, late)
    # A response takes one to three frames, depending on the machine: up to three times the work.
    assert 0 < late.layouts <= 4 * early.layouts, (early, late)


def open_running(page: Page, stream: str = "text/event-stream") -> "Polling":
    """Open the page of a running job with a clock that the test moves.

    It moves once the request for the event stream is answered: until then the page polls.

    Args:
        page: The page of the job.
        stream: The content type of that answer.
    """
    page.clock.install()
    with page.expect_response(lambda response: STREAM in response.url) as answered:
        page.reload()
    assert answered.value.headers["content-type"].startswith(stream)
    page.wait_for_function(IS_DRAWN_JS)
    page.clock.pause_at(page.evaluate("Date.now() + 1_000"))
    return Polling(page, step_ms=250)


def test_new_steps_come_from_the_stream_and_are_not_loaded_again(
    open_signed_in: Any, running_job: RunningJob
) -> None:
    running_job.train(SOME_SKIPS)
    page = open_signed_in(f"#/jobs/{running_job.id}")
    polling = open_running(page)
    fact = page.locator("dl.facts div", has_text="Step").first
    paths: list[str] = []
    page.on("request", lambda request: paths.append(request.url))
    for _ in range(5):
        running_job.train(100)
        polling.until_shown(f"Steps 0 to {running_job.step - 1:,}")
        polling.until_shown(f"{running_job.step:,}", where=fact)
    assert [path for path in paths if "/steps?" in path or "/evaluations?" in path] == []


def test_a_hidden_page_ends_its_stream_and_a_visible_one_misses_nothing(
    open_signed_in: Any, running_job: RunningJob
) -> None:
    running_job.train(SOME_SKIPS)
    page = open_signed_in(f"#/jobs/{running_job.id}")
    polling = open_running(page)
    with page.expect_event("requestfailed", lambda request: STREAM in request.url):
        hide(page, True)
    running_job.train(50)
    with page.expect_response(lambda response: STREAM in response.url):
        hide(page, False)
    polling.until_shown(f"Steps 0 to {running_job.step - 1:,}")
    running_job.train(50)
    polling.until_shown(f"Steps 0 to {running_job.step - 1:,}")


def test_a_page_without_a_stream_polls(open_signed_in: Any, running_job: RunningJob) -> None:
    """As when the limit of streams is reached."""
    running_job.train(SOME_SKIPS)
    page = open_signed_in(f"#/jobs/{running_job.id}")
    refusal = {"code": "too_many_open", "detail": "Too many."}
    page.route(f"**{STREAM}**", lambda route: route.fulfill(status=429, json=refusal))
    polling = open_running(page, stream="application/json")
    for _ in range(2):
        running_job.train(50)
        polling.until_shown(f"Steps 0 to {running_job.step - 1:,}")


class DrawingCost(NamedTuple):
    """How much work a page did to draw."""

    points: float
    layouts: float

    @classmethod
    def of(cls, costs: list["DrawingCost"]) -> "DrawingCost":
        """The sum of several costs."""
        return cls(*map(sum, zip(*costs, strict=True)))


class Polling:
    """Lets a page poll whose clock stands still."""

    def __init__(self, page: Page, step_ms: int = POLL_MS) -> None:
        self.page, self._step_ms = page, step_ms
        self._unanswered: set[Request] = set()
        page.on("request", self._begin)
        page.on("requestfinished", self._end)
        page.on("requestfailed", self._end)

    def until_shown(self, text: str, where: Locator | None = None) -> None:
        """Move the clock until the page has polled what it then shows.

        More than once, if the page has not yet set the timer of its next request.

        Args:
            text: What it then shows.
            where: The element; without it, the range of the plots.
        """
        shown = where or self.page.get_by_role("status", name="Plot range")

        def is_shown() -> bool:
            if text in shown.inner_text():
                return True
            if not self._unanswered:
                self.page.clock.run_for(self._step_ms)
            return False

        wait_until(is_shown, text, show=shown.inner_text)

    def _begin(self, request: Request) -> None:
        if STREAM not in request.url:  # it ends with the job
            self._unanswered.add(request)

    def _end(self, request: Request) -> None:
        self._unanswered.discard(request)


def draw(polling: Polling, devtools: CDPSession, job: RunningJob) -> DrawingCost:
    """Store steps and let the page poll and draw them; returns the cost."""
    before = done(polling.page, devtools)
    job.train(STEPS_PER_POLL)
    polling.until_shown(f"Steps 0 to {job.step - 1:,}")
    polling.page.clock.run_for(100)  # the frame in which the plots are drawn
    after = done(polling.page, devtools)
    return DrawingCost(after.points - before.points, after.layouts - before.layouts)


def done(page: Page, devtools: CDPSession) -> DrawingCost:
    """The page's drawing operations and style computations so far."""
    points = page.evaluate("document.body.offsetHeight && window.drawnPoints")
    counted = metrics(devtools)
    return DrawingCost(points, counted["LayoutCount"] + counted["RecalcStyleCount"])
