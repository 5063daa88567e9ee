"""How long a job's page takes to open and to zoom, and what one that stays open comes to hold.

One JSON line. A job of ten million steps and one of ten thousand take turns in one Chromium, in
front of a real server. Then a page stays open on a job that goes on.
"""

import argparse
import statistics
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from contest import report
from playwright.sync_api import Browser, Page
from under_load.load import percentile
from under_load.parts import Api, Surroundings, api, surroundings
from under_load.telemetry import block, claimed, filled, relaying, told

from dashboard.browser import NoBrowser, chromium
from dashboard.measuring import DRAWN, held, opening_s

STEPS_PER_S = 1000
EVERY_S = 0.5
LONG_TASKS = """() => {
    window.longTasks = [];
    new PerformanceObserver((list) => {
        for (const entry of list.getEntries()) window.longTasks.push(entry.duration);
    }).observe({type: 'longtask'});
}"""
"""Tasks of more than 50 ms, in which the page answers nobody. Source: W3C, Long Tasks API."""


def entered(browser: Browser, running: Api) -> Page:
    """A window of somebody who is signed in."""
    page = browser.new_context(viewport={"width": 1280, "height": 900}).new_page()
    signed_in = page.request.post(f"{running.url}/api/v1/session", data={"token": running.token})
    assert signed_in.ok
    return page


def opened(page: Page, url: str, job_id: str) -> None:
    """Go to a job's page and wait until it is drawn."""
    page.goto(f"{url}/#/jobs/{job_id}")
    page.reload()
    page.wait_for_function(DRAWN)


def zoomed_ms(page: Page) -> float:
    """Zoom in; milliseconds until the plots are those of the finer steps."""
    with page.expect_event("requestfinished", lambda request: "start=" in request.url):
        began = time.perf_counter()
        page.get_by_role("button", name="Zoom in").click()
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    return 1000 * (time.perf_counter() - began)


@contextmanager
def going_on(around: Surroundings) -> Iterator[str]:
    """The id of a job that trains so many steps a second until the context ends."""
    lease, stop = claimed(around.database), threading.Event()

    def train() -> None:
        size = int(STEPS_PER_S * EVERY_S)
        with relaying(around.database, lease, 2**30) as relay:
            first_step = 0
            while not stop.wait(EVERY_S):
                relay.carry([told(block(first_step, size))])
                first_step += size

    thread = threading.Thread(target=train)
    thread.start()
    try:
        yield lease.job_id
    finally:
        stop.set()
        thread.join()


def left_open(page: Page, url: str, job_id: str, seconds: float) -> dict[str, Any]:
    """What the page holds after a tenth of the time and at its end, and how it stuttered."""
    time.sleep(5 * EVERY_S + 3)  # steps enough for a skip
    opened(page, url, job_id)
    devtools = page.context.new_cdp_session(page)
    devtools.send("Performance.enable")
    page.evaluate(LONG_TASKS)
    time.sleep(seconds / 10)
    early = held(devtools)
    time.sleep(seconds * 9 / 10)
    late = held(devtools)
    tasks = page.evaluate("window.longTasks")
    return {
        "seconds": seconds,
        "heap_mb": [round(told["JSHeapUsedSize"] / 1e6, 2) for told in (early, late)],
        "nodes": [int(told["Nodes"]) for told in (early, late)],
        "listeners": [int(told["JSEventListeners"]) for told in (early, late)],
        "tasks_over_50_ms": len(tasks),
        "longest_task_ms": round(max(tasks, default=0)),
        "busy_share": round(late["TaskDuration"] / seconds, 4),
    }


def main() -> None:
    """Measure in turns and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--long", type=int, default=10_000_000, help="steps")
    parser.add_argument("--short", type=int, default=10_000, help="steps")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--zooms", type=int, default=6, help="for each opening")
    parser.add_argument("--open-s", type=float, default=600)
    asked = parser.parse_args()
    openings: dict[str, list[float]] = {"long": [], "short": []}
    zooms: dict[str, list[float]] = {"long": [], "short": []}
    with surroundings("sqlite") as around:
        ids = {name: filled(around.database, vars(asked)[name]) for name in openings}
        with api(around) as running, chromium() as browser:
            pages = {name: entered(browser, running) for name in openings}
            for name, page in pages.items():
                opened(page, running.url, ids[name])
            for _ in range(asked.rounds):
                for name, page in pages.items():
                    openings[name].append(opening_s(page))
                    zooms[name] += [zoomed_ms(page) for _ in range(asked.zooms)]
                    page.get_by_role("button", name="Whole run").click()
            with going_on(around) as job_id:
                page = entered(browser, running)
                stayed = left_open(page, running.url, job_id, asked.open_s)
            version = browser.version
    report(
        "open_page",
        goal_opening_s=1.5,
        opening_s={
            name: {"p50": round(statistics.median(of), 3), "worst": round(max(of), 3)}
            for name, of in openings.items()
        },
        long_over_short=round(
            statistics.median(openings["long"]) / statistics.median(openings["short"]), 2
        ),
        zoom_ms={
            name: {"p50": round(statistics.median(of)), "p95": round(percentile(of, 95))}
            for name, of in zooms.items()
        },
        left_open=stayed,
        steps={"long": asked.long, "short": asked.short, "per_s_while_open": STEPS_PER_S},
        chromium=version,
    )


if __name__ == "__main__":
    try:
        main()
    except NoBrowser as missing:
        sys.exit(f"error: {missing}")
