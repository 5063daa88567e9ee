"""A stack is stopped and started again while a page shows its job."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import expect

from store.database import Database
from store.tables import Job
from tests.e2e.dashboard.job_specs import LIVE
from tests.processes import has_ended
from tests.waiting import DEADLINE_S, wait_until

pytestmark = pytest.mark.xdist_group("dashboard")


def test_job_and_page_continue_after_a_restart_of_the_stack(
    start: Callable[..., Any], new_user: Callable[[str], Any], tmp_path: Path
) -> None:
    data = tmp_path / "data"
    stack = start(data)
    url = stack.client.url
    try:
        job = stack.client.jobs.submit(LIVE)
        page = new_user(url).open_signed_in(
            (data / "token").read_text().strip(), f"#/jobs/{job.id}"
        )
        step = page.locator("dl.facts div", has_text="Step").first
        expect(step).to_have_text(re.compile(r"^Step\s*[1-9]"))
        all_processes = stack.all_processes()
    finally:
        assert stack.stop() == 0
    wait_until(lambda: all(map(has_ended, all_processes)), "nothing of the stack is left")
    alert = page.get_by_role("alert").filter(has_text="Connection lost.")
    expect(alert).to_be_visible()
    expect(page.get_by_role("heading", name="live")).to_be_visible()
    seen = step.inner_text()
    steps_before = stored_steps(data, job.id)
    stack = start(data, urlsplit(url).port)
    try:
        expect(alert).to_be_hidden()
        expect(step).not_to_have_text(seen)  # nobody had to sign in again
        job = stack.client.jobs.get(job.id)
        wait_until(lambda: job.refresh().step > steps_before, "the job continues")
        page.get_by_role("button", name="Cancel live").click()
        expect(page.get_by_label("Why the job is in this state")).to_be_visible()
        job = job.wait(timeout_s=DEADLINE_S)
        first, second = job.attempts()
        assert (first.outcome, job.failures) == ("requeued", 0)
        assert second.first_step == steps_before, (
            "it did not resume from the last checkpoint of its worker"
        )
        assert job.steps()["step"].tolist() == list(range(job.step))
    finally:
        assert stack.stop() == 0


def stored_steps(data: Path, job_id: str) -> int:
    """The number of a job's steps in the database of a stopped stack."""
    database = Database(f"sqlite:///{data / 'ampcore.sqlite'}")
    try:
        with database.read() as session:
            return int(session.get_one(Job, job_id).step)
    finally:
        database.close()
