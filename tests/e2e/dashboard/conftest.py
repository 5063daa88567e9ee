"""A real browser in front of a real stack, and jobs worth looking at."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, Request, expect

from dashboard.browser import NoBrowser, chromium
from tests.e2e.dashboard.specs import HEALTHY, LIVE, SKIPPING
from tests.waiting import DEADLINE_S

NOT_LOADED = "Failed to load resource"
"""What the browser says of an answer like 401, and of none; the page shows them to people."""


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory, start: Callable[..., Any]) -> Iterator[Any]:
    """A stack for the browser alone: its long job is in nobody else's way."""
    stack = start(tmp_path_factory.mktemp("looked-at") / "data")
    yield stack
    assert stack.stop() == 0


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium; where there is none the tests are skipped, and fail where CI=true.

    It ends with the module: as long as it runs, nothing else in this process can have an event
    loop.
    """
    expect.set_options(timeout=1000 * DEADLINE_S)
    with ExitStack() as stack:
        try:
            browser = stack.enter_context(chromium())
        except NoBrowser as missing:
            if os.environ.get("CI") == "true":
                pytest.fail(str(missing))
            pytest.skip(str(missing))
        yield browser


class Visitor:
    """Somebody with a browser window, and what went wrong in it unseen."""

    def __init__(self, browser: Browser, url: str, pictures: Path) -> None:
        self.browser = browser
        self.url = url
        self.pictures = pictures
        self.mistakes: list[str] = []
        self.pages: list[Page] = []

    def arrive(self, width: int = 1280, scheme: Any = "light") -> Page:
        """A window in front of the door."""
        page = self._open(width, scheme)
        page.goto(self.url)
        return page

    def enter(self, token: str, place: str = "#/jobs", **window: Any) -> Page:
        """A window of somebody who is signed in."""
        page = self._open(**window)
        answer = page.request.post(f"{self.url}/api/v1/session", data={"token": token})
        assert answer.ok, answer.text()
        page.goto(f"{self.url}/{place}")
        return page

    def _open(self, width: int = 1280, scheme: Any = "light") -> Page:
        """An empty window."""
        size: Any = {"width": width, "height": 900}
        # A colour on its way from one to another is none to judge.
        context = self.browser.new_context(
            viewport=size, color_scheme=scheme, reduced_motion="reduce"
        )
        context.set_default_timeout(1000 * DEADLINE_S)
        page = context.new_page()
        page.on("pageerror", lambda error: self.mistakes.append(str(error)))
        page.on("console", self._listen)
        page.on("request", self._watch)
        self.pages.append(page)
        return page

    def leave(self, *, failed: bool) -> None:
        """Close the windows, and keep pictures of them where something failed."""
        for number, page in enumerate(self.pages):
            if failed:
                page.screenshot(path=self.pictures / f"{number}.png", full_page=True)
            page.context.close()
        assert self.mistakes == []

    def _listen(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and NOT_LOADED not in message.text:
            self.mistakes.append(message.text)

    def _watch(self, request: Request) -> None:
        if urlsplit(request.url).netloc != urlsplit(self.url).netloc:
            self.mistakes.append(f"asked for {request.url}")


@pytest.fixture
def new_visitor(
    browser: Browser, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Callable[[str], Visitor]]:
    """Somebody who looks at the server of that address; no page may make a mistake."""
    visitors: list[Visitor] = []

    def make(url: str) -> Visitor:
        visitors.append(Visitor(browser, url, tmp_path))
        return visitors[-1]

    failures = request.session.testsfailed
    yield make
    for visitor in visitors:
        visitor.leave(failed=request.session.testsfailed > failures)


@pytest.fixture
def visitor(new_visitor: Callable[[str], Visitor], stack: Any) -> Visitor:
    """Somebody who looks at the stack."""
    return new_visitor(stack.client.url)


@pytest.fixture(scope="session")
def token(stack: Any) -> str:
    """An admin's."""
    return str((stack.data / "token").read_text().strip())


@pytest.fixture
def enter(visitor: Visitor, token: str) -> Callable[..., Page]:
    """A window of somebody who is signed in, at that place."""
    return lambda place="#/jobs", **window: visitor.enter(token, place, **window)


@pytest.fixture(scope="session")
def trained(stack: Any) -> tuple[Any, Any]:
    """Two jobs that succeeded: one that skipped no step, and one that skipped some."""
    jobs = [stack.client.jobs.submit(spec) for spec in (HEALTHY, SKIPPING)]
    healthy, skipping = stack.client.jobs.wait(jobs, 2 * DEADLINE_S)
    return healthy, skipping


@pytest.fixture
def live(stack: Any) -> Iterator[Any]:
    """A job that goes on until somebody cancels it."""
    job = stack.client.jobs.submit(LIVE)
    yield job
    if not stack.client.jobs.get(job.id).state.is_terminal:
        job.cancel()
