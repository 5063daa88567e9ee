"""How long a job's page takes to open and to zoom, and how much memory an open page uses.

One JSON line. A job of ten million steps and one of ten thousand alternate in one Chromium, with a
real server. Then a page stays open on a job that keeps running.
"""

import argparse
import statistics
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from compare import report
from playwright.sync_api import Browser, Page
from under_load.load import percentile
from under_load.service_processes import Api, ServiceEnvironment, api, service_environment
from under_load.telemetry import (
    block,
    claim_new_job,
    create_finished_job,
    steps_frame,
    writing_telemetry,
)

from dashboard.browser import BrowserNotFound, chromium
from dashboard.page_metrics import IS_DRAWN_JS, collected_metrics, load_s

STEPS_PER_S = 1000
EVERY_S = 0.5
LONG_TASKS = """() => {
    window.longTasks = [];
    new PerformanceObserver((list) => {
        for (const entry of list.getEntries()) window.longTasks.push(entry.duration);
    }).observe({type: 'longtask'});
}"""
"""Tasks of more than 50 ms, which block the page. Source: W3C, Long Tasks API."""
PLOTS = 5
WATCH_ZOOMS = """(plots) => {
    let zoom = {};
    const paint = (name) => requestAnimationFrame(() => setTimeout(() => {
        zoom[name] = performance.now() - zoom.clickedAt;
    }));
    addEventListener('click', ({timeStamp}) => {
        zoom = window.zoom = {clickedAt: timeStamp, drawings: 0, finerDrawings: 0};
    }, {capture: true});
    const {text} = Response.prototype;
    Response.prototype.text = async function () {
        const body = await text.call(this);
        if (this.url.includes('start=')) zoom.hasFinerSteps = true;
        return body;
    };
    const {clearRect} = CanvasRenderingContext2D.prototype;  // uPlot begins each drawing with it
    CanvasRenderingContext2D.prototype.clearRect = function (...place) {
        clearRect.apply(this, place);
        if (++zoom.drawings === plots) paint('first_ms');
        if (zoom.hasFinerSteps && ++zoom.finerDrawings === plots) paint('finer_ms');
    };
}"""
"""Milliseconds from a click until its drawings are painted: the setTimeout runs after the frame."""


def signed_in_page(browser: Browser, running: Api) -> Page:
    """A page of a signed-in user."""
    page = browser.new_context(viewport={"width": 1280, "height": 900}).new_page()
    signed_in = page.request.post(f"{running.url}/api/v1/session", data={"token": running.token})
    assert signed_in.ok
    return page


def opened(page: Page, url: str, job_id: str) -> None:
    """Go to a job's page and wait until it is drawn."""
    page.goto(f"{url}/#/jobs/{job_id}")
    page.reload()
    page.wait_for_function(IS_DRAWN_JS)


def zoomed_ms(page: Page) -> dict[str, float]:
    """Zoom in; milliseconds from the click until all plots are drawn.

    `first_ms` with the steps that the page has already, `finer_ms` with the finer ones.
    """
    page.get_by_role("button", name="Zoom in").click()
    page.wait_for_function("() => window.zoom.finer_ms")
    zoom = page.evaluate("window.zoom")
    return {name: float(zoom[name]) for name in ("first_ms", "finer_ms")}


@contextmanager
def running_job(service: ServiceEnvironment) -> Iterator[str]:
    """The id of a job that trains this many steps per second until the context ends."""
    lease, stop = claim_new_job(service.database), threading.Event()

    def train() -> None:
        size = int(STEPS_PER_S * EVERY_S)
        with writing_telemetry(service.database, lease, 2**30) as writer:
            first_step = 0
            while not stop.wait(EVERY_S):
                writer.enqueue_frames([steps_frame(block(first_step, size))])
                first_step += size

    thread = threading.Thread(target=train)
    thread.start()
    try:
        yield lease.job_id
    finally:
        stop.set()
        thread.join()


def measure_open_page(page: Page, url: str, job_id: str, seconds: float) -> dict[str, Any]:
    """The page's memory after a tenth of the time and at the end, and its long tasks."""
    time.sleep(5 * EVERY_S + 3)  # steps enough for a skip
    opened(page, url, job_id)
    devtools = page.context.new_cdp_session(page)
    devtools.send("Performance.enable")
    devtools.send("Network.enable")
    received: list[int] = []
    devtools.on("Network.dataReceived", lambda piece: received.append(piece["encodedDataLength"]))
    requested: list[str] = []
    page.on("request", lambda request: requested.append(request.url))
    page.evaluate(LONG_TASKS)
    time.sleep(seconds / 10)
    early = collected_metrics(devtools)
    time.sleep(seconds * 9 / 10)
    late = collected_metrics(devtools)
    tasks = page.evaluate("window.longTasks")
    minutes = seconds / 60
    return {
        "seconds": seconds,
        "heap_mb": [round(sample["JSHeapUsedSize"] / 1e6, 2) for sample in (early, late)],
        "nodes": [int(sample["Nodes"]) for sample in (early, late)],
        "listeners": [int(sample["JSEventListeners"]) for sample in (early, late)],
        "tasks_over_50_ms": len(tasks),
        "longest_task_ms": round(max(tasks, default=0)),
        "busy_share": round(late["TaskDuration"] / seconds, 4),
        "requests_per_minute": round(len(requested) / minutes, 1),
        "requests_for_steps_per_minute": round(
            sum("/steps?" in url for url in requested) / minutes, 1
        ),
        "received_mb_per_minute": round(sum(received) / 1e6 / minutes, 2),
    }


def main() -> None:
    """Measure in turns and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--long", type=int, default=10_000_000, help="steps")
    parser.add_argument("--short", type=int, default=10_000, help="steps")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--zooms", type=int, default=6, help="for each opening")
    parser.add_argument("--open-s", type=float, default=600)
    arguments = parser.parse_args()
    openings: dict[str, list[float]] = {"long": [], "short": []}
    zooms: dict[str, list[dict[str, float]]] = {"long": [], "short": []}
    with service_environment("sqlite") as service:
        ids = {
            name: create_finished_job(service.database, vars(arguments)[name]) for name in openings
        }
        with api(service) as running, chromium() as browser:
            pages = {name: signed_in_page(browser, running) for name in openings}
            for name, page in pages.items():
                opened(page, running.url, ids[name])
            for _ in range(arguments.rounds):
                for name, page in pages.items():
                    openings[name].append(load_s(page))
                    page.evaluate(WATCH_ZOOMS, PLOTS)
                    zooms[name] += [zoomed_ms(page) for _ in range(arguments.zooms)]
                    page.get_by_role("button", name="Reset zoom").click()
            with running_job(service) as job_id:
                page = signed_in_page(browser, running)
                stayed = measure_open_page(page, running.url, job_id, arguments.open_s)
            version = browser.version
    report(
        "page_load",
        goal_opening_s=1.5,
        load_s={
            name: {"p50": round(statistics.median(of), 3), "worst": round(max(of), 3)}
            for name, of in openings.items()
        },
        long_over_short=round(
            statistics.median(openings["long"]) / statistics.median(openings["short"]), 2
        ),
        goal_zoom_finer_ms=150,
        zoom={
            name: {
                until: {"p50": round(statistics.median(ms)), "p95": round(percentile(ms, 95))}
                for until in ("first_ms", "finer_ms")
                for ms in [[zoom[until] for zoom in of]]
            }
            for name, of in zooms.items()
        },
        measure_open_page=stayed,
        steps={"long": arguments.long, "short": arguments.short, "per_s_while_open": STEPS_PER_S},
        chromium=version,
    )


if __name__ == "__main__":
    try:
        main()
    except BrowserNotFound as missing:
        sys.exit(f"error: {missing}")
