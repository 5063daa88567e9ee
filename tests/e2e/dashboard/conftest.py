"""Fixtures: a real browser, a real stack, and finished jobs."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, Request, expect

from dashboard.browser import chromium
from tests.e2e.dashboard.job_specs import HEALTHY, LIVE, SKIPPING
from tests.waiting import DEADLINE_S

NOT_LOADED = "Failed to load resource"
"""The console message for a failed request; the page shows such failures itself."""


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory, start: Callable[..., Any]) -> Iterator[Any]:
    """A stack for the dashboard's tests alone: its endless job delays no other test."""
    # Receivers of notifications are on this machine.
    receivers = {"AMPCORE_NOTIFY_NETWORKS": "127.0.0.1", "AMPCORE_NOTIFY_SCHEMES": "http"}
    stack = start(tmp_path_factory.mktemp("dashboard") / "data", **receivers)
    yield stack
    assert stack.stop() == 0


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium.

    It is closed after each module: while it runs, nothing else in this process can have an event
    loop.
    """
    expect.set_options(timeout=1000 * DEADLINE_S)
    with chromium() as browser:
        yield browser


class DashboardUser:
    """A user with browser windows; collects the errors of their pages."""

    def __init__(self, browser: Browser, url: str, pictures: Path) -> None:
        self.browser = browser
        self.url = url
        self.allowed_hosts = {urlsplit(url).netloc}
        self.pictures = pictures
        self.page_errors: list[str] = []
        self.pages: list[Page] = []

    def open_signed_out(self, width: int = 1280, scheme: Any = "light") -> Page:
        """Open the sign-in page."""
        page = self._open(width, scheme)
        page.goto(self.url)
        return page

    def open_signed_in(self, token: str, place: str = "#/jobs", **window: Any) -> Page:
        """Open a page, signed in."""
        page = self._open(**window)
        answer = page.request.post(f"{self.url}/api/v1/session", data={"token": token})
        assert answer.ok, answer.text()
        page.goto(f"{self.url}/{place}")
        return page

    def _open(self, width: int = 1280, scheme: Any = "light") -> Page:
        """Open an empty window."""
        size: Any = {"width": width, "height": 900}
        # Without transitions: axe-core would measure a colour in the middle of one.
        context = self.browser.new_context(
            viewport=size, color_scheme=scheme, reduced_motion="reduce"
        )
        context.set_default_timeout(1000 * DEADLINE_S)
        page = context.new_page()
        page.on("pageerror", lambda error: self.page_errors.append(str(error)))
        page.on("console", self._listen)
        page.on("request", self._watch)
        self.pages.append(page)
        return page

    def close(self, *, failed: bool) -> None:
        """Close the windows; after a failure with a screenshot of each."""
        for number, page in enumerate(self.pages):
            if failed:
                page.screenshot(path=self.pictures / f"{number}.png", full_page=True)
            page.context.close()
        assert self.page_errors == []

    def _listen(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and NOT_LOADED not in message.text:
            self.page_errors.append(message.text)

    def _watch(self, request: Request) -> None:
        if urlsplit(request.url).netloc not in self.allowed_hosts:
            self.page_errors.append(f"requested {request.url}")


@pytest.fixture
def new_user(
    browser: Browser, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Callable[[str], DashboardUser]]:
    """Returns a user of the server at an address; fails if one of its pages reports an error."""
    users: list[DashboardUser] = []

    def make(url: str) -> DashboardUser:
        users.append(DashboardUser(browser, url, tmp_path))
        return users[-1]

    failures = request.session.testsfailed
    yield make
    for user in users:
        user.close(failed=request.session.testsfailed > failures)


@pytest.fixture
def user(new_user: Callable[[str], DashboardUser], stack: Any) -> DashboardUser:
    """A user of the stack."""
    return new_user(stack.client.url)


@pytest.fixture(scope="session")
def token(stack: Any) -> str:
    """The token of an admin."""
    return str((stack.data / "token").read_text().strip())


@pytest.fixture
def open_signed_in(user: DashboardUser, token: str) -> Callable[..., Page]:
    """Opens a page by its fragment, signed in as admin."""
    return lambda place="#/jobs", **window: user.open_signed_in(token, place, **window)


@pytest.fixture(scope="session")
def finished_jobs(stack: Any) -> tuple[Any, Any]:
    """Two jobs that succeeded: one without skipped steps and one with some."""
    jobs = [stack.client.jobs.submit(spec) for spec in (HEALTHY, SKIPPING)]
    healthy, skipping = stack.client.jobs.wait(jobs, 2 * DEADLINE_S)
    return healthy, skipping


@pytest.fixture
def endless_job(stack: Any) -> Iterator[Any]:
    """A job that runs until it is cancelled."""
    job = stack.client.jobs.submit(LIVE)
    yield job
    if not stack.client.jobs.get(job.id).state.is_terminal:
        job.cancel()
