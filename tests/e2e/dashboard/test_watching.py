"""Looking at a job: live, at its skipped steps, and near."""

import re
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Locator, Page, expect

pytestmark = pytest.mark.xdist_group("dashboard")


def test_a_job_is_watched_from_the_list_and_cancelled_there(enter: Any, live: Any) -> None:
    page = enter()
    row = page.get_by_role("row").filter(has=page.get_by_role("link", name="live", exact=True))
    expect(row.first).to_contain_text("running")
    expect(row.first).to_contain_text("mixed_float16")
    expect(row.first.locator("[data-name=Progress]")).to_contain_text("left")
    expect(row.first.locator("[data-name='Examples/s']")).to_contain_text(re.compile(r"\d"))
    seen = row.first.locator("[data-name=Loss]").inner_text()
    expect(row.first.locator("[data-name=Loss]")).not_to_have_text(seen)
    row.first.get_by_role("button", name="Cancel live").click()
    expect(page.get_by_role("status", name="Notices")).to_contain_text("is being cancelled")
    expect(row.first).to_contain_text("cancelled")
    row.first.get_by_role("button", name="Retry live").click()
    expect(row.first).to_contain_text("running")


def test_a_running_job_grows_before_ones_eyes(enter: Any, live: Any) -> None:
    page = enter(f"#/jobs/{live.id}")
    step = page.locator("dl.facts div", has_text="Step").first
    expect(page.get_by_role("group", name="Plot of Loss", exact=True)).to_be_visible()
    for _ in range(2):
        seen = step.inner_text()
        expect(step).not_to_have_text(seen)
    marks = page.get_by_role("toolbar", name="Skipped steps").get_by_role("button")
    newest = marks.last.get_attribute("title")
    expect(marks.last).not_to_have_attribute("title", str(newest))
    page.get_by_role("link", name="Log").click()
    page.get_by_role("link", name="Ledger").click()
    expect(page.get_by_role("table", name="Ledger")).to_contain_text("overflow")
    page.get_by_role("button", name="Cancel live").click()
    expect(page.get_by_label("Why the job is in this state")).to_be_visible()


def test_all_plots_of_a_job_are_there_and_share_their_cursor(enter: Any, trained: Any) -> None:
    page = enter(f"#/jobs/{trained[1].id}")
    titles = ("Loss", "Loss scale", "Examples/s", "Gradient norm", "Learning rate")
    plots = [page.get_by_role("group", name=f"Plot of {title}", exact=True) for title in titles]
    for plot in plots:
        expect(plot.locator("canvas")).to_be_visible()
        expect(plot.locator(".readout")).to_contain_text("last:")
    plots[0].locator(".u-over").hover(position={"x": 200, "y": 40})
    places = {plot.locator(".readout").inner_text().partition(":")[0] for plot in plots}
    assert len(places) == 1
    assert places != {"last"}


def test_every_skipped_step_has_a_mark_that_opens_its_entry_in_the_ledger(
    enter: Any, trained: Any
) -> None:
    _, skipping = trained
    skipped = [event.step for event in skipping.events() if event.type == "overflow"]
    page = enter(f"#/jobs/{skipping.id}")
    marks = page.get_by_role("toolbar", name="Skipped steps").get_by_role("button")
    expect(marks.first).to_be_visible()
    told = [counted(mark) for mark in marks.all()]
    assert sum(told) == skipping.skipped == len(skipped) > 0
    marks.last.click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("overflow")
    expect(dialog).to_contain_text(f"{skipped[-1]:,}")
    dialog.get_by_role("button", name="Zoom to it").click()
    expect(dialog).to_be_hidden()
    expect(page.get_by_role("status", name="What the plots show")).to_contain_text(
        "Every step is a point"
    )
    expect(page.get_by_role("button", name=f"Skipped step {skipped[-1]:,}")).to_be_visible()


def test_zooming_asks_the_server_for_finer_data(enter: Any, trained: Any) -> None:
    job, _ = trained
    page = enter(f"#/jobs/{job.id}")
    shown = page.get_by_role("status", name="What the plots show")
    expect(shown).to_contain_text("A point is 2 steps")
    with page.expect_response(re.compile(r"/steps\?.*start=")) as answer:
        drag(page, page.get_by_role("group", name="Plot of Loss", exact=True), 0.25, 0.5)
    asked = parse_qs(urlsplit(answer.value.url).query)
    start, end = int(asked["start"][0]), int(asked["end"][0])
    assert 0 < start < 500 < end < 1000
    told = answer.value.json()
    assert told["steps_per_point"] == 1
    assert told["data"]["step"] == list(range(start, end))
    expect(shown).to_contain_text("Every step is a point")
    page.reload()  # the address says what is shown
    expect(shown).to_contain_text(f"Steps {start:,} to {end:,}")
    page.get_by_role("button", name="Whole run").click()
    expect(shown).to_contain_text("A point is 2 steps")


def test_the_keyboard_zooms_and_reaches_each_mark(enter: Any, trained: Any) -> None:
    page = enter(f"#/jobs/{trained[1].id}")
    shown = page.get_by_role("status", name="What the plots show")
    page.get_by_role("button", name="Zoom in").focus()
    page.keyboard.press("Enter")
    expect(shown).to_contain_text("Every step is a point")
    page.get_by_role("button", name="Whole run").press("Enter")
    expect(shown).to_contain_text("A point is 2 steps")  # with other marks
    marks = page.get_by_role("toolbar", name="Skipped steps").get_by_role("button")
    marks.first.focus()
    page.keyboard.press("End")
    expect(marks.last).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()


def test_each_part_of_a_job_tells_what_it_is_for(enter: Any, trained: Any) -> None:
    _, skipping = trained
    page = enter(f"#/jobs/{skipping.id}")
    parts = {
        "Ledger": "overflow",
        "Log": "Follow",
        "Preflight": "Share in 16 bit",
        "Attempts": "Waited",
        "Files": "report",
        "Spec": "growth_interval",
    }
    for name, words in parts.items():
        page.get_by_role("navigation", name="Parts of the job").get_by_text(name).click()
        expect(page.get_by_role("main")).to_contain_text(words)


def counted(mark: Locator) -> int:
    """How many steps a mark stands for, as it says."""
    words = mark.get_attribute("aria-label") or ""
    found = re.match(r"([\d,]+) skipped step", words)
    return int(found[1].replace(",", "")) if found else 1


def drag(page: Page, plot: Locator, start: float, end: float) -> None:
    """Select a part of a plot with the mouse."""
    box = plot.locator(".u-over").bounding_box()
    assert box is not None
    y = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + start * box["width"], y)
    page.mouse.down()
    page.mouse.move(box["x"] + end * box["width"], y, steps=5)
    page.mouse.up()
