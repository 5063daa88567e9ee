"""The system's Chromium, driven by Playwright: for tests, screenshots and benchmarks."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from playwright.sync_api import Browser, sync_playwright

CHROMIUM_NAMES: Final = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM_ARGUMENTS: Final = (
    "--no-sandbox",  # needed as root in containers; it opens only local pages
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


class BrowserNotFound(Exception):
    """No Chromium is in PATH."""


@contextmanager
def chromium() -> Iterator[Browser]:
    """A headless browser. Raises BrowserNotFound where none is installed."""
    executable = next(filter(None, map(shutil.which, CHROMIUM_NAMES)), None)
    if executable is None:
        raise BrowserNotFound(
            f"no {', '.join(CHROMIUM_NAMES)} in PATH: on Debian, `apt install chromium`"
        )
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=executable, args=list(CHROMIUM_ARGUMENTS)
        )
        try:
            yield browser
        finally:
            browser.close()
