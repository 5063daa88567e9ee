"""Pictures of every page of the dashboard, taken of a real stack that trains real jobs.

They go to screenshots/, by day, by night and on a phone; those that the README shows go to
docs/pictures/.
"""

import shutil
import sys
from pathlib import Path
from typing import Any, Final

from playwright.sync_api import Browser, Page

from ampclient import Client, Job
from dashboard.browser import NoBrowser, chromium
from examples.demo import POLICIES, running_stack, spec

ROOT: Final = Path(__file__).parents[1]
ALL: Final = ROOT / "screenshots"
SHOWN: Final = ROOT / "docs" / "pictures"
WIDTHS_PX: Final = {"light": 1280, "dark": 1280, "phone": 375}
HEIGHT_PX: Final = 860
TRAIN_S: Final = 600.0
SETTLED_MS: Final = 1500

DIGITS: Final[dict[str, Any]] = {
    "model": {"kind": "mlp", "hidden": [64]},
    "data": {"kind": "digits", "batch_size": 32},
    "precision": {"policy": "mixed_float16"},
}
SHOWPIECE: Final[dict[str, Any]] = {
    "name": "digits, aggressive growth",
    "labels": {"team": "vision"},
    **DIGITS,
    "loss_scale": {"mode": "dynamic", "initial": 2.0**24, "growth_interval": 150},
    "optimizer": {"kind": "adam", "learning_rate": 0.001},
    "train": {"steps": 4000, "seed": 1},
}
DOOMED: Final[dict[str, Any]] = {
    "name": "fixed scale, too high",
    **DIGITS,
    "loss_scale": {"mode": "fixed", "scale": 2.0**40},
    "train": {"epochs": 20},
}
ENDLESS: Final[dict[str, Any]] = {
    **SHOWPIECE,
    "name": "digits, long run",
    "train": {"steps": 200_000, "seed": 2},
}


def main() -> None:
    """Train, look, and keep what was seen."""
    shutil.rmtree(ALL, ignore_errors=True)
    for folder in (ALL, SHOWN):
        folder.mkdir(parents=True, exist_ok=True)
    with running_stack() as connection, Client.from_file(connection) as client:
        say("Training the jobs that are shown …")
        jobs = trained(client)
        token = (connection.parent / "token").read_text().strip()
        with chromium() as browser:
            for look, width_px in WIDTHS_PX.items():
                page = window(browser, client.url, token, look, width_px)
                for name, place in places(client, jobs).items():
                    go(page, client.url, place)
                    page.screenshot(path=ALL / f"{name}-{look}.png", full_page=True)
                    if name == "job" and look != "phone":
                        page.screenshot(path=SHOWN / f"job-{look}.png")
                page.context.close()
    say(f"They are in {ALL.relative_to(ROOT)}/; those of the README in {SHOWN.relative_to(ROOT)}/.")


def trained(client: Client) -> dict[str, Job]:
    """The jobs that are shown, once all but the endless one have ended."""
    policies = [client.jobs.submit(spec(policy)) for policy in POLICIES]
    others = [client.jobs.submit(one) for one in (SHOWPIECE, DOOMED)]
    client.jobs.wait([*policies, *others], TRAIN_S)
    endless = client.jobs.submit(ENDLESS)
    next(iter(endless.stream()))  # it runs
    return {"showpiece": others[0], "doomed": others[1], "endless": endless}


def places(client: Client, jobs: dict[str, Job]) -> dict[str, str]:
    """Every page, by the name of its picture."""
    shown, failed = jobs["showpiece"].id, jobs["doomed"].id
    compared = ",".join(job.id for job in client.jobs.list(q="float", sort="created_at"))
    tabs = ("ledger", "log", "preflight", "attempts", "files", "spec")
    return {
        "jobs": "#/jobs",
        "job": f"#/jobs/{shown}",
        "job-near": f"#/jobs/{shown}?from=0&to=60",
        "job-running": f"#/jobs/{jobs['endless'].id}",
        "job-failed": f"#/jobs/{failed}",
        **{f"job-{tab}": f"#/jobs/{shown}?tab={tab}" for tab in tabs},
        "compare": f"#/compare?jobs={compared}",
        "workers": "#/workers",
        "submit": "#/submit",
        "submit-again": f"#/submit?from={shown}",
        "tokens": "#/tokens",
        "nothing": "#/jobs?q=no+such+job",
    }


def window(browser: Browser, url: str, token: str, look: str, width_px: int) -> Page:
    """A window of somebody who is signed in; the door is in a picture, too."""
    context = browser.new_context(
        viewport={"width": width_px, "height": HEIGHT_PX},
        color_scheme="dark" if look == "dark" else "light",
    )
    page = context.new_page()
    page.goto(url)
    page.get_by_label("Token").wait_for()
    page.screenshot(path=ALL / f"sign-in-{look}.png")
    page.get_by_label("Token").fill(token)
    page.get_by_label("Token").press("Enter")
    page.get_by_role("heading", name="Jobs", exact=True).wait_for()
    return page


def go(page: Page, url: str, place: str) -> None:
    """Go to a place, and wait until all that it shows is there."""
    page.goto(f"{url}/{place}")
    page.get_by_role("heading", level=1).wait_for()
    page.wait_for_timeout(SETTLED_MS)


def say(text: str) -> None:
    """Tell whoever waits."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    try:
        main()
    except NoBrowser as missing:
        sys.exit(f"error: {missing}")
