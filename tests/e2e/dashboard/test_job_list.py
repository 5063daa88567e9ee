"""The table of jobs: its columns, folded studies, selection, views, dates and keys."""

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest
from playwright.sync_api import Locator, Page, expect
from sqlalchemy import update

from ampclient import Client
from ampspec.jobs import JobSpec
from store import studies
from store.database import Database
from store.jobs import jobs
from store.jobs.jobs import Origin
from store.tables import Job
from tests.e2e.dashboard.test_accessibility import (
    FITS_JS,
    PHONE,
    accessibility_violations,
    switch_to_light,
)
from tests.waiting import wait_until

pytestmark = pytest.mark.xdist_group("dashboard")

SPEC: dict[str, Any] = {
    "model": {"kind": "mlp", "hidden": [8]},
    "data": {"kind": "digits", "batch_size": 8},
    "runtime": {"queue": "nobody"},  # no worker: they stay queued
}
SUMMARY = "mixed_bfloat16 is as accurate as float32 and 1.8 times as fast."
LIES_INSIDE_JS = """cells => cells.every(cell => {
    const box = cell.getBoundingClientRect();
    return box.left >= 0 && box.right <= window.innerWidth;
})"""


@pytest.fixture
def member_token(stack: Any) -> str:
    """The token of a project of its own, whose list has the jobs of this test alone."""
    project = f"list-{uuid4().hex[:12]}"
    token = stack.client.tokens.create("lists jobs", role="member", project=project)
    return str(token.secret)


@pytest.fixture
def member(stack: Any, member_token: str) -> Iterator[Client]:
    """A member of that project."""
    with Client(stack.client.url, member_token) as client:
        yield client
        client.jobs.cancel_many(state="queued")


@pytest.fixture
def open_list(member_token: str, user: Any) -> Callable[..., Page]:
    """Open the list as the member, in a new window."""

    def open_list(place: str = "#/jobs", **window: Any) -> Page:
        page: Page = user.open_signed_in(member_token, place, **window)
        expect(page.get_by_role("table", name="Jobs")).to_be_visible()
        return page

    return open_list


@pytest.fixture
def database(stack: Any) -> Iterator[Database]:
    """The database of the stack."""
    database = Database(f"sqlite:///{stack.data / 'ampcore.sqlite'}")
    yield database
    database.close()


@pytest.fixture
def five_jobs(member: Client) -> list[Any]:
    """Five queued jobs: job 0 to job 4; the newest is listed first."""
    return [
        member.jobs.submit({**SPEC, "name": f"job {number}", "labels": {"number": str(number)}})
        for number in range(5)
    ]


@pytest.fixture
def study(member: Client, database: Database) -> str:
    """A study with an answer and three jobs; returns its id."""
    project = member.session().project
    with database.write() as session:
        study = studies.create(
            session,
            project=project,
            kind="precision",
            name="which policy",
            spec={},
            options={},
            policies=[],
            facts={},
        )
        keys = ["float32", "mixed_float16", "mixed_bfloat16"]
        studies.add_jobs(session, study.id, {key: {} for key in keys})
        for key in keys:
            labels = {"study": study.id, "study_job": key, "team": "vision"}
            spec = {**SPEC, "name": f"which policy {key}", "labels": labels}
            job = jobs.create(session, JobSpec.parse(spec), Origin(project))
            studies.set_job(session, study.id, key, job.id)
        for key in keys[:2]:
            studies.set_result(session, study.id, key, {"state": "succeeded"})
        answer = {"kind": "precision", "summary": SUMMARY}
        studies.set_state(session, study, studies.SUCCEEDED, answer=answer)
        return str(study.id)


def headings(page: Page) -> Locator:
    return page.get_by_role("table", name="Jobs").get_by_role("columnheader")


def select(page: Page, name: str, **click: Any) -> None:
    page.get_by_role("checkbox", name=f"Select {name}", exact=True).click(**click)


def test_the_columns_of_the_list_are_chosen_kept_in_the_link_and_remembered(
    open_list: Any, five_jobs: Any
) -> None:
    page = open_list("#/jobs?q=job")
    assert headings(page).evaluate_all(LIES_INSIDE_JS)
    page.locator("summary", has_text="Columns").click()
    columns = page.get_by_role("list", name="Columns")
    columns.get_by_role("checkbox", name="Policy").uncheck()
    columns.get_by_role("checkbox", name="Queue").check()
    expect(headings(page).filter(has_text="Policy")).to_have_count(0)
    expect(headings(page).filter(has_text="Queue")).to_be_visible()
    columns.get_by_role("button", name="Move Age up").click()
    page.wait_for_url(re.compile(r"columns=[^&]*age%2Clabels"))
    chosen = page.url

    page.evaluate("() => { location.hash = '#/jobs'; }")
    page.wait_for_url(re.compile(r"#/jobs\?columns="))  # remembered
    page.evaluate("() => localStorage.clear()")
    page.goto(chosen.replace("#", "?again#"))
    expect(headings(page).filter(has_text="Queue")).to_be_visible()
    expect(headings(page).filter(has_text="Policy")).to_have_count(0)


def test_columns_without_room_are_hidden_and_named(open_list: Any, five_jobs: Any) -> None:
    names = "name,state,progress,metric,loss,examples_per_s,policy,labels,age,updated,duration,step"
    page = open_list(f"#/jobs?columns={names.replace(',', '%2C')}%2Cworker%2Cproject%2Cid")
    assert headings(page).evaluate_all(LIES_INSIDE_JS)
    assert page.evaluate(FITS_JS)
    menu = page.locator("summary", has_text=re.compile(r"Columns \(\d hidden\)"))
    menu.click()
    expect(page.get_by_text("No room in this window:")).to_contain_text("Worker, Project, ID")


def test_the_list_is_sorted_by_the_heading_of_a_column(open_list: Any, five_jobs: Any) -> None:
    page = open_list()
    names = page.locator("[data-name=Name] a.name")
    expect(names).to_have_text([f"job {number}" for number in (4, 3, 2, 1, 0)])
    heading = page.get_by_role("columnheader", name="Name")
    for direction, numbers in (("ascending", range(5)), ("descending", range(4, -1, -1))):
        heading.get_by_role("button").click()
        expect(heading).to_have_attribute("aria-sort", direction)
        expect(names).to_have_text([f"job {number}" for number in numbers])
    page.reload()
    expect(heading).to_have_attribute("aria-sort", "descending")


def test_a_study_is_a_row_with_its_progress_and_answer_and_unfolds_to_its_jobs(
    open_list: Any, five_jobs: Any, study: str
) -> None:
    page = open_list(scheme="dark")
    row = page.locator(f"tr[data-study='{study}']")
    expect(row).to_contain_text("which policy")
    expect(row).to_contain_text("2 of 3 jobs")
    expect(row).to_contain_text(SUMMARY)
    rows = page.locator("tr[data-job]")
    expect(rows).to_have_count(5)
    row.get_by_role("button", name="Jobs of which policy").click()
    expect(rows).to_have_count(8)
    expect(page.get_by_role("link", name="mixed_bfloat16", exact=True)).to_be_visible()
    assert accessibility_violations(page) == []
    switch_to_light(page)
    assert accessibility_violations(page) == []
    row.get_by_role("checkbox").check()
    expect(page.get_by_role("region", name="Selected jobs")).to_contain_text("3 jobs selected")
    row.get_by_role("link", name="which policy").click()
    page.wait_for_url(f"**/#/studies/{study}")


def test_selected_jobs_are_labelled_cancelled_and_deleted_together(
    open_list: Any, five_jobs: Any, member: Client
) -> None:
    page = open_list()
    select(page, "job 3")
    select(page, "job 1", modifiers=["Shift"])
    bar = page.get_by_role("region", name="Selected jobs")
    expect(bar).to_contain_text("3 jobs selected")
    expect(bar.get_by_role("link", name="Compare 3 jobs")).to_be_visible()
    assert accessibility_violations(page) == []

    bar.get_by_role("button", name="Label the selected jobs").click()
    dialog = page.get_by_role("dialog", name="Label 3 jobs")
    dialog.get_by_label("Labels to set").fill("=x")
    expect(dialog.get_by_role("alert")).to_contain_text("received “=x”")
    dialog.get_by_label("Labels to set").fill("team=vision")
    dialog.get_by_role("checkbox", name="number").check()
    dialog.get_by_role("button", name="Label 3 jobs").click()
    notices = page.get_by_role("status", name="Notifications")
    expect(notices).to_contain_text("3 jobs are labelled.")
    assert len(list(member.jobs.list(label="team=vision"))) == 3
    assert len(list(member.jobs.list(label="number"))) == 2

    member.jobs.get(five_jobs[2].id).cancel()
    expect(page.locator(f"tr[data-job='{five_jobs[2].id}']")).to_contain_text("cancelled")
    bar.get_by_role("button", name="Cancel the selected jobs").click()
    dialog = page.get_by_role("dialog", name="Cancel 2 jobs?")
    expect(dialog).to_contain_text("1 of the selected jobs have ended already")
    dialog.get_by_role("button", name="Cancel 2 jobs").click()
    expect(notices).to_contain_text("2 jobs are being cancelled.")
    bar.get_by_role("button", name="Delete the selected jobs").click()
    page.get_by_role("dialog").get_by_role("button", name="Keep them").click()
    bar.get_by_role("button", name="Delete the selected jobs").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete 3 jobs").click()
    expect(page.locator("tr[data-job]")).to_have_count(2)
    expect(bar).to_be_hidden()
    assert {job.name for job in member.jobs.list()} == {"job 0", "job 4"}
    page.get_by_role("link", name="Trash").click()
    page.get_by_role("button", name="Restore job 2").click()
    expect(notices).to_contain_text("job 2 was restored.")
    expect(page.get_by_role("button", name=re.compile("^Restore job"))).to_have_count(2)
    assert {job.name for job in member.jobs.list()} == {"job 0", "job 2", "job 4"}


def test_the_list_is_used_by_keys(open_list: Any, five_jobs: Any) -> None:
    page = open_list()
    for key in ("j", "j", "x", "j", "x", "k", "k"):
        page.keyboard.press(key)
    expect(page.get_by_role("region", name="Selected jobs")).to_contain_text("2 jobs selected")
    expect(page.get_by_role("checkbox", name="Select job 3")).to_be_checked()
    expect(page.locator(f"tr[data-job='{five_jobs[4].id}']")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.get_by_role("region", name="Selected jobs")).to_be_hidden()
    page.keyboard.press("/")
    expect(page.get_by_label("Search")).to_be_focused()
    page.keyboard.type("job x?")  # letters are text here
    expect(page.get_by_role("heading", name="No matching jobs")).to_be_visible()
    expect(page.get_by_role("dialog")).to_be_hidden()
    page.get_by_label("Search").fill("job 2")
    expect(page.locator("tr[data-job]")).to_have_count(1)
    page.get_by_role("heading", name="Jobs", exact=True).click()
    page.keyboard.press("?")
    dialog = page.get_by_role("dialog", name="Keyboard shortcuts")
    expect(dialog).to_contain_text("Unfold a study")
    assert accessibility_violations(page) == []
    dialog.get_by_label("Single characters are shortcuts").uncheck()
    dialog.get_by_role("button", name="Close").click()
    page.keyboard.press("?")
    expect(dialog).to_be_hidden()
    page.locator("tr[data-job]").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="job 2", exact=True)).to_be_visible()


def test_a_view_is_saved_opened_by_its_link_changed_and_deleted(
    open_list: Any, five_jobs: Any, member_token: str, user: Any
) -> None:
    page = open_list("#/jobs?q=job+1&sort=name")
    page.locator("summary", has_text="Views").click()
    page.get_by_role("textbox", name="Name", exact=True).fill("only the first")
    page.get_by_role("button", name="Save view").click()
    menu = page.locator("summary", has_text="View: only the first")
    expect(menu).to_be_visible()
    link = page.url
    page.get_by_label("Search").fill("job 2")
    expect(menu).to_contain_text("(changed)")
    page.reload()
    menu.click()
    saved = page.get_by_role("list", name="Saved views")
    assert accessibility_violations(page) == []
    saved.get_by_role("link", name="only the first").click()
    expect(page.locator("[data-name=Name] a.name")).to_have_text(["job 1"])
    expect(menu).not_to_contain_text("(changed)")
    saved.get_by_role("button", name="Delete the view only the first").click()
    expect(saved.get_by_role("link")).to_have_count(0)

    other = user.open_signed_in(member_token, link[link.index("#") :])
    expect(other.locator("[data-name=Name] a.name")).to_have_text(["job 1"])


def test_jobs_are_filtered_by_the_day_on_which_they_were_created(
    open_list: Any, five_jobs: Any, database: Database
) -> None:
    for job, day in zip(five_jobs, range(1, 4), strict=False):
        moment = datetime(2020, 5, day, 12, tzinfo=UTC)
        with database.write() as session:
            session.execute(update(Job).where(Job.id == job.id).values(created_at=moment))
    page = open_list("#/jobs?from=2020-05-02&to=2020-05-02")
    names = page.locator("[data-name=Name] a.name")
    expect(names).to_have_text(["job 1"])
    page.get_by_label("Last day").fill("2020-05-03")
    expect(names).to_have_text(["job 2", "job 1"])
    page.get_by_label("Created").select_option("7d")
    expect(names).to_have_text(["job 4", "job 3"])
    page.wait_for_url("**/#/jobs?created=7d")
    page.get_by_role("link", name="Clear filters").click()
    expect(names).to_have_count(5)


def test_the_list_fits_a_phone_with_filters_and_menus(
    open_list: Any, five_jobs: Any, study: str
) -> None:
    page = open_list(width=PHONE["width"])
    rows = page.locator("table.jobs tbody tr")
    expect(rows).to_have_count(6)
    assert set(rows.evaluate_all("rows => rows.map(row => row.offsetHeight)")) == {40}
    expect(headings(page).filter(has_text="Progress")).to_be_visible()
    expect(page.get_by_label("Policy", exact=True)).to_be_hidden()
    page.get_by_role("button", name="Filters").click()
    page.get_by_label("queued", exact=True).check()
    select(page, "job 4")
    page.locator("summary", has_text="Columns").click()
    wait_until(lambda: page.evaluate(FITS_JS), "the page fits the window")
    assert accessibility_violations(page) == []
