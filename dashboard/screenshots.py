"""Take screenshots of every page of the dashboard, on a real stack that trains real jobs.

They are written to screenshots/, in the light and the dark theme and at the width of a phone; those
of the README to docs/pictures/.
"""

import shutil
import sys
from pathlib import Path
from typing import Any, Final

from playwright.sync_api import Browser, Page

from ampclient import Client, Job, Study
from dashboard.browser import BrowserNotFound, chromium
from examples.demo import POLICIES, running_stack, spec

ROOT: Final = Path(__file__).parents[1]
SCREENSHOTS_DIR: Final = ROOT / "screenshots"
README_PICTURES_DIR: Final = ROOT / "docs" / "pictures"
WIDTHS_PX: Final = {"light": 1280, "dark": 1280, "phone": 375}
HEIGHT_PX: Final = 860
README_HEIGHT_PX: Final = 1055
"""Down to the plot of examples per second."""
DIGITS_FILE: Final = ROOT / "ampcore" / "data" / "digits.npz"
TRAIN_TIMEOUT_S: Final = 600.0
SETTLE_MS: Final = 1500

DIGITS: Final[dict[str, Any]] = {
    "model": {"kind": "mlp", "hidden": [64]},
    "data": {"kind": "digits", "batch_size": 32},
    "precision": {"policy": "mixed_float16"},
}
SKIPPING_JOB: Final[dict[str, Any]] = {
    "name": "digits, aggressive growth",
    "labels": {"team": "vision"},
    **DIGITS,
    "loss_scale": {"mode": "dynamic", "initial": 2.0**24, "growth_interval": 150},
    "optimizer": {"kind": "adam", "learning_rate": 0.001},
    "train": {"steps": 4000, "seed": 1},
    "telemetry": {"ranges": {"growth": 1.5, "max_time_share": None}},
    "runtime": {"profile": {"start": 100, "steps": 10}},
}
FAILING_JOB: Final[dict[str, Any]] = {
    "name": "fixed scale, too high",
    **DIGITS,
    "loss_scale": {"mode": "fixed", "scale": 2.0**40},
    "train": {"epochs": 20},
}
RUNNING_JOB: Final[dict[str, Any]] = {
    **SKIPPING_JOB,
    "name": "digits, long run",
    "train": {"steps": 10_000_000, "seed": 2},
}
STUDIED: Final[dict[str, Any]] = {"name": "digits, which policy", **DIGITS, "train": {"steps": 300}}


def main() -> None:
    """Start a stack, train the jobs, and write a screenshot of every page."""
    shutil.rmtree(SCREENSHOTS_DIR, ignore_errors=True)
    for folder in (SCREENSHOTS_DIR, README_PICTURES_DIR):
        folder.mkdir(parents=True, exist_ok=True)
    with running_stack() as connection, Client.from_file(connection) as client:
        log("Training the jobs for the screenshots…")
        client.datasets.upload(DIGITS_FILE)
        compared = train_compared_jobs(client)
        jobs = train_jobs(client)
        study = client.studies.wait(client.studies.precision(STUDIED), TRAIN_TIMEOUT_S)
        # The last one, so that it still runs while the pictures are taken.
        jobs["running"] = start_running_job(client)
        token = (connection.parent / "token").read_text().strip()
        with chromium() as browser:
            for theme, width_px in WIDTHS_PX.items():
                page = signed_in_page(browser, client.url, token, theme, width_px)
                for name, fragment in page_urls(jobs, compared, study).items():
                    open_page(page, client.url, fragment)
                    page.screenshot(path=SCREENSHOTS_DIR / f"{name}-{theme}.png", full_page=True)
                    if name == "job" and theme != "phone":
                        page.screenshot(
                            path=README_PICTURES_DIR / f"job-{theme}.png",
                            full_page=True,
                            clip={"x": 0, "y": 0, "width": width_px, "height": README_HEIGHT_PX},
                        )
                page.context.close()
    log(f"Wrote {SCREENSHOTS_DIR.relative_to(ROOT)}/ and {README_PICTURES_DIR.relative_to(ROOT)}/.")


def train_compared_jobs(client: Client) -> list[Job]:
    """The jobs of the demo, one for each policy, when they have ended."""
    jobs = [client.jobs.submit(spec(policy)) for policy in POLICIES]
    return client.jobs.wait(jobs, TRAIN_TIMEOUT_S)


def train_jobs(client: Client) -> dict[str, Job]:
    """A job that skips steps and one that fails, when they have ended."""
    jobs = [client.jobs.submit(spec) for spec in (SKIPPING_JOB, FAILING_JOB)]
    client.jobs.wait(jobs, TRAIN_TIMEOUT_S)
    return {"skipping": jobs[0], "failed": jobs[1]}


def start_running_job(client: Client) -> Job:
    """A job that runs, and goes on for long."""
    job = client.jobs.submit(RUNNING_JOB)
    next(iter(job.stream()))  # waits until it runs
    return job


def page_urls(jobs: dict[str, Job], compared: list[Job], study: Study) -> dict[str, str]:
    """The address fragment of every page, by the name of its screenshot."""
    shown, failed = jobs["skipping"].id, jobs["failed"].id
    tabs = (
        *("evaluation", "ranges", "events", "log", "preflight", "profile", "attempts", "files"),
        "spec",
    )
    return {
        "jobs": "#/jobs",
        "job": f"#/jobs/{shown}",
        "job-near": f"#/jobs/{shown}?from=0&to=60",
        "job-running": f"#/jobs/{jobs['running'].id}",
        "job-failed": f"#/jobs/{failed}",
        **{f"job-{tab}": f"#/jobs/{shown}?tab={tab}" for tab in tabs},
        "compare": f"#/compare?jobs={','.join(job.id for job in compared)}",
        "studies": "#/studies",
        "study": f"#/studies/{study.id}",
        "workers": "#/workers",
        "datasets": "#/datasets",
        "dataset": "#/datasets/digits",
        "submit": "#/submit",
        "submit-again": f"#/submit?from={shown}",
        "notifications": "#/notifications",
        "tokens": "#/tokens",
        "nothing": "#/jobs?q=no+such+job",
    }


def signed_in_page(browser: Browser, url: str, token: str, theme: str, width_px: int) -> Page:
    """A browser page that is signed in; takes a screenshot of the sign-in page, too."""
    context = browser.new_context(
        viewport={"width": width_px, "height": HEIGHT_PX},
        color_scheme="dark" if theme == "dark" else "light",
    )
    page = context.new_page()
    page.goto(url)
    page.get_by_label("Token").wait_for()
    page.screenshot(path=SCREENSHOTS_DIR / f"sign-in-{theme}.png")
    page.get_by_label("Token").fill(token)
    page.get_by_label("Token").press("Enter")
    page.get_by_role("heading", name="Jobs", exact=True).wait_for()
    return page


def open_page(page: Page, url: str, fragment: str) -> None:
    """Open a page and wait until it has loaded."""
    page.goto(f"{url}/{fragment}")
    page.get_by_role("heading", level=1).wait_for()
    page.wait_for_timeout(SETTLE_MS)


def log(text: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    try:
        main()
    except BrowserNotFound as missing:
        sys.exit(f"error: {missing}")
