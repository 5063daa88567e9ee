"""Submitting a job with the form."""

import re
from typing import Any

import pytest
from playwright.sync_api import Route, expect

from tests.waiting import DEADLINE_S

pytestmark = pytest.mark.xdist_group("dashboard")


def test_a_job_submitted_with_the_form_trains(open_signed_in: Any, stack: Any) -> None:
    page = open_signed_in("#/submit")
    page.get_by_label("Start from an example").select_option(index=1)
    page.get_by_label("Name", exact=True).fill("made in a browser")
    page.get_by_label("Model kind").select_option("mlp")
    page.get_by_label("Hidden").fill("24, 12")
    page.get_by_label("Data kind").select_option("digits")
    page.get_by_role("combobox", name="Policy").select_option("mixed_float16")
    page.get_by_label("Loss scale mode").select_option("dynamic")
    page.get_by_label("Steps", exact=True).fill("20")
    yaml = page.get_by_label("YAML")
    expect(yaml).to_have_value(re.compile("policy: mixed_float16"))
    page.get_by_role("button", name="Submit", exact=True).click()
    expect(page.get_by_role("heading", name="made in a browser")).to_be_visible()
    [job] = stack.client.jobs.list(q="made in a browser")
    assert f"#/jobs/{job.id}" in page.url
    assert job.wait(timeout_s=DEADLINE_S).state.value == "succeeded"
    assert (job.spec["model"]["hidden"], job.policy) == ([24, 12], "mixed_float16")


def test_errors_are_shown_at_their_fields_before_submitting(
    open_signed_in: Any, stack: Any
) -> None:
    before = len(list(stack.client.jobs.list()))
    page = open_signed_in("#/submit")
    size = page.get_by_label("Batch size")
    size.fill("-1")
    expect(page.get_by_role("status", name="Preflight")).to_contain_text("/data/batch_size")
    expect(page.get_by_label("Batch size")).to_have_attribute("aria-invalid", "true")
    expect(page.get_by_role("button", name="Submit", exact=True)).to_be_disabled()
    size.fill("64")
    expect(page.get_by_role("button", name="Submit", exact=True)).to_be_enabled()
    page.get_by_label("YAML").fill("model: {kind: mlp\n")
    expect(page.get_by_role("status", name="Preflight")).to_contain_text("Invalid YAML")
    expect(page.get_by_role("button", name="Submit", exact=True)).to_be_disabled()
    assert len(list(stack.client.jobs.list())) == before


def test_the_yaml_fills_the_form_and_preflight_estimates(open_signed_in: Any) -> None:
    page = open_signed_in("#/submit")
    page.get_by_label("YAML").fill(
        "model: {kind: mlp, hidden: [32]}\ndata: {kind: digits}\nprecision: {policy: float16}\n"
    )
    expect(page.get_by_label("Hidden")).to_have_value("32")
    expect(page.get_by_role("combobox", name="Policy")).to_have_value("float16")
    expect(page.get_by_role("status", name="Preflight")).to_contain_text("float16")


def test_an_older_job_is_resubmitted_with_changes(
    open_signed_in: Any, stack: Any, finished_jobs: Any
) -> None:
    page = open_signed_in(f"#/jobs/{finished_jobs[0].id}")
    page.get_by_text("More", exact=True).click()
    page.get_by_role("link", name="Edit and resubmit").click()
    page.get_by_label("Name", exact=True).fill("healthy, but longer")
    page.get_by_label("Steps", exact=True).fill("25")
    page.get_by_role("button", name="Submit", exact=True).click()
    expect(page.get_by_role("heading", name="healthy, but longer")).to_be_visible()
    [job] = stack.client.jobs.list(q="healthy, but longer")
    assert {**job.spec, "name": "healthy", "train": None} == {
        **finished_jobs[0].spec,
        "train": None,
    }


def test_the_models_of_packages_are_listed_with_their_options(open_signed_in: Any) -> None:
    options = {"properties": {"units": {"type": "integer"}}, "required": ["units"]}
    entry = {"package": "custom-package", "version": "1.0", "name": "two_towers", "workers": ["a"]}
    listed = {"items": [], "packages": [{**entry, "description": "Two.", "schema": options}]}
    page = open_signed_in("#/submit")
    page.route("**/api/v1/catalog/models", lambda route: route.fulfill(json=listed))
    page.get_by_label("Model kind").select_option("package")
    page.get_by_label("Installed on workers").select_option("two_towers of custom-package 1.0")
    expect(page.get_by_label("YAML")).to_have_value(re.compile("package: custom-package"))
    expect(page.get_by_label("YAML")).to_have_value(re.compile("name: two_towers"))
    expect(page.get_by_text("units (integer, required)")).to_be_visible()
    page.get_by_label("Data kind").select_option("package")  # no worker of the stack has one
    expect(page.get_by_text("No online worker has a package for this")).to_be_visible()


def test_a_late_answer_does_not_change_the_form_of_another_link(
    open_signed_in: Any, finished_jobs: Any
) -> None:
    job = finished_jobs[1]
    late: list[Route] = []

    def hold(route: Route) -> None:
        late.append(route)

    page = open_signed_in("#/jobs")
    page.route(f"**/api/v1/jobs/{job.id}", hold)
    with page.expect_request(f"**/api/v1/jobs/{job.id}"):
        page.evaluate(f"() => {{ location.hash = '#/submit?from={job.id}'; }}")
    page.get_by_role("link", name="Submit", exact=True).click()
    expect(page.get_by_role("heading", name="Submit a job")).to_be_visible()
    spec = page.get_by_label("YAML").input_value()
    with page.expect_event("requestfinished", lambda request: job.id in request.url):
        late[0].continue_()
    page.evaluate("() => new Promise(done => requestAnimationFrame(() => setTimeout(done)))")
    expect(page.get_by_role("heading", name="Submit a job")).to_be_visible()
    expect(page.get_by_label("YAML")).to_have_value(spec)
