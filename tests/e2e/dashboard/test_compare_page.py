"""The page that compares jobs."""

import json
import re
from typing import Any

import pytest
from playwright.sync_api import Route, expect

from tests.e2e.dashboard.test_accessibility import accessibility_violations

pytestmark = pytest.mark.xdist_group("dashboard")


def test_jobs_selected_in_the_list_are_compared(open_signed_in: Any, finished_jobs: Any) -> None:
    page = open_signed_in("#/jobs?state=succeeded")
    for name in ("healthy", "skipping"):
        page.get_by_label(f"Select {name}", exact=True).last.check()
    page.get_by_role("link", name="Compare 2 jobs").click()
    for title in ("Loss", "Validation loss", "Loss scale", "Examples/s"):
        plot = page.get_by_role("group", name=f"Plot of {title}", exact=True)
        expect(plot.locator("canvas")).to_be_visible()
        expect(plot.locator("figcaption")).to_contain_text("skipping")
    legend = page.get_by_role("group", name="Legend")
    expect(legend).to_have_count(1)
    expect(legend).to_contain_text("healthy")
    table = page.get_by_role("table", name="Differences")
    state = table.get_by_role("row", name=re.compile("^state"))
    expect(state).to_be_hidden()
    table.get_by_role("button", name=re.compile(r"^Show \d+ equal row")).last.click()
    expect(state).to_contain_text("succeeded")
    speed_up = table.get_by_role("row", name=re.compile("^Speed-up")).get_by_role("cell")
    expect(speed_up.first).to_have_text("1 ×")
    expect(speed_up.last).to_have_text(re.compile(r"^[\d.]+ ×$"))
    drift = table.get_by_role("row", name=re.compile("^Mean training loss")).get_by_role("cell")
    expect(drift.last).to_have_text(re.compile(r"^[+-]?(< )?[\d.]+ %$"))
    loss = table.get_by_role("row", name=re.compile("^validation loss")).get_by_role("cell")
    expect(loss).to_have_text([f"{job.metrics['val_loss']:.4}" for job in finished_jobs])
    policy = table.get_by_role("row", name=re.compile(r"^precision\.policy"))
    expect(policy).to_contain_text("mixed_float16")
    expect(table.get_by_role("row", name=re.compile("^name"))).to_have_count(0)  # the head has it
    skipped = table.get_by_role("row", name=re.compile("^skipped share")).get_by_role("cell")
    expect(skipped).to_have_text(["0 %", f"{round(100 * finished_jobs[1].skipped / 1500, 2):g} %"])


def test_baseline_and_x_axis_are_kept_in_the_address(
    open_signed_in: Any, finished_jobs: Any
) -> None:
    healthy, skipping = finished_jobs
    page = open_signed_in(f"#/compare?jobs={healthy.id},{skipping.id}")
    page.get_by_label("Baseline").select_option(skipping.id)
    page.get_by_label("X axis").select_option("time")
    expect(page.locator("th", has_text="skipping")).to_contain_text("baseline")
    page.reload()
    expect(page.locator("th", has_text="skipping")).to_contain_text("baseline")
    expect(page.get_by_label("X axis")).to_have_value("time")
    page.get_by_role("button", name="Remove healthy").click()
    expect(page.get_by_role("heading", name="Select at least two jobs")).to_be_visible()
    page.get_by_label("Add a job").select_option(healthy.id)
    expect(page.get_by_role("table", name="Differences")).to_be_visible()


def test_many_jobs_are_a_table_groups_lines_and_points(
    open_signed_in: Any, finished_jobs: Any
) -> None:
    def many(route: Route) -> None:
        """The comparison of two jobs as one of twelve: six of each."""
        document = route.fetch(url=f"{route.request.url.partition('?')[0]}?jobs={first}").json()
        document["jobs"] = [
            {**compared, "job": {**compared["job"], "id": id_, "name": f"{name} {id_}"}}
            for id_, compared in zip(ids, document["jobs"] * 6, strict=True)
            for name in [compared["job"]["name"]]
        ]
        for field in (*document["spec"], *document["results"]):
            field["values"] = field["values"] * 6
        route.fulfill(body=json.dumps(document), content_type="application/json")

    ids = [f"{number:012x}" for number in range(12)]
    first = ",".join(job.id for job in finished_jobs)
    page = open_signed_in()
    page.route(re.compile(r"/api/v1/compare\?"), many)
    page.goto(page.url.partition("#")[0] + f"#/compare?jobs={','.join(ids)}")
    page.get_by_label("Group by").select_option("precision.policy")
    legend = page.get_by_role("group", name="Legend")
    expect(legend).to_contain_text("precision.policy=mixed_float16 (6)")
    page.get_by_label("Group by").select_option("No groups")
    expect(legend).to_contain_text("12 jobs: point at a curve")
    loss = page.get_by_role("group", name="Plot of Loss", exact=True)
    expect(loss.locator(".readout")).to_contain_text("12 curves")
    page.get_by_label("Best by").select_option("validation loss")
    best = min(finished_jobs, key=lambda job: job.metrics["val_loss"])
    rows = page.get_by_role("table", name="Jobs compared").get_by_role("row")
    expect(rows).to_have_count(13)
    expect(rows.nth(1)).to_contain_text(f"{best.metrics['val_loss']:.4}")
    expect(rows.nth(1)).to_contain_text("best")
    assert accessibility_violations(page) == []
    page.get_by_role("link", name="Parallel coordinates").click()
    expect(page.get_by_role("img", name=re.compile("^Parallel coordinates of 12 "))).to_be_visible()
    page.get_by_role("link", name="Scatter").click()
    expect(
        page.get_by_role("img", name=re.compile("^validation loss over .* of 12 jobs"))
    ).to_be_visible()
    page.reload()
    expect(page.get_by_label("Best by")).to_have_value("val_loss")
    assert accessibility_violations(page) == []
