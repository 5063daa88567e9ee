"""The page of a job: live updates, skipped steps, zooming."""

import re
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from tests.e2e.dashboard.test_accessibility import FITS_JS, PHONE, accessibility_violations
from tests.waiting import DEADLINE_S, wait_until

pytestmark = pytest.mark.xdist_group("dashboard")


def test_a_job_is_watched_from_the_list_and_cancelled_there(
    open_signed_in: Any, endless_job: Any
) -> None:
    page = open_signed_in()
    row = page.get_by_role("row").filter(has=page.get_by_role("link", name="live", exact=True))
    expect(row.first).to_contain_text("running")
    expect(row.first).to_contain_text("mixed_float16")
    expect(row.first.locator("[data-name=Progress]")).to_contain_text("left")
    expect(row.first.locator("[data-name='Examples/s']")).to_contain_text(re.compile(r"\d"))
    seen = row.first.locator("[data-name=Loss]").inner_text()
    expect(row.first.locator("[data-name=Loss]")).not_to_have_text(seen)
    row.first.get_by_role("button", name="Cancel live").click()
    expect(page.get_by_role("status", name="Notifications")).to_contain_text("is being cancelled")
    expect(row.first).to_contain_text("cancelled")
    row.first.get_by_role("button", name="Retry live").click()
    expect(row.first).to_contain_text("running")


def test_the_page_of_a_running_job_updates_itself(open_signed_in: Any, endless_job: Any) -> None:
    page = open_signed_in(f"#/jobs/{endless_job.id}")
    step = page.locator("dl.facts div", has_text="Step").first
    expect(page.get_by_role("group", name="Plot of Loss", exact=True)).to_be_visible()
    for _ in range(2):
        seen = step.inner_text()
        expect(step).not_to_have_text(seen)
    markers = page.get_by_role("toolbar", name="Skipped steps").get_by_role("button")
    newest = markers.last.get_attribute("title")
    expect(markers.last).not_to_have_attribute("title", str(newest))
    page.get_by_role("link", name="Log").click()
    page.get_by_role("link", name="Events").click()
    expect(page.get_by_role("table", name="Events")).to_contain_text("overflow")
    page.get_by_role("button", name="Cancel live").click()
    expect(page.get_by_label("Why the job is in this state")).to_be_visible()


def test_the_plots_of_a_job_share_their_cursor(open_signed_in: Any, finished_jobs: Any) -> None:
    page = open_signed_in(f"#/jobs/{finished_jobs[1].id}")
    titles = ("Loss", "Loss scale", "Examples/s", "Gradient norm", "Learning rate")
    plots = [page.get_by_role("group", name=f"Plot of {title}", exact=True) for title in titles]
    for plot in plots:
        expect(plot.locator("canvas")).to_be_visible()
        expect(plot.locator(".readout")).to_contain_text("last:")
    plots[0].locator(".u-over").hover(position={"x": 200, "y": 40})
    places = {plot.locator(".readout").inner_text().partition(":")[0] for plot in plots}
    assert len(places) == 1
    assert places != {"last"}


def test_validation_metrics_are_plotted_at_their_steps(
    open_signed_in: Any, finished_jobs: Any
) -> None:
    job, _ = finished_jobs
    page = open_signed_in(f"#/jobs/{job.id}")
    loss = page.get_by_role("group", name="Plot of Loss", exact=True)
    expect(loss.locator("figcaption")).to_contain_text("validation")
    last = job.evaluations()[-1]
    readout = loss.locator(".readout")
    expect(readout).to_contain_text(f"validation {last['val_loss']:.3}"[:-1])
    accuracy = page.get_by_role("group", name="Plot of Validation accuracy", exact=True)
    expect(accuracy.locator("canvas")).to_be_visible()
    accuracy.locator(".u-over").hover(position={"x": 400, "y": 40})
    expect(readout).to_contain_text(re.compile(r"^\d.*loss \d.*validation \d"))


def test_the_time_of_a_training_is_shown_by_part(open_signed_in: Any, finished_jobs: Any) -> None:
    job, _ = finished_jobs
    times = [event.data for event in job.events() if event.type == "step_times"]
    assert sum(part["steps"] for part in times) == job.step
    page = open_signed_in(f"#/jobs/{job.id}")
    section = page.get_by_role("region", name="Where the time goes")
    parts = section.get_by_role("listitem")
    expect(parts).to_contain_text(
        ["compute", "input", "evaluation", "checkpoint", "telemetry", "other"]
    )
    expect(section.locator("svg title").first).to_contain_text("steps 0 to ")


def test_a_finished_job_is_extended_by_some_epochs(
    open_signed_in: Any, finished_jobs: Any, stack: Any
) -> None:
    job, _ = finished_jobs
    page = open_signed_in(f"#/jobs/{job.id}")
    page.get_by_role("button", name="Extend").click()
    dialog = page.get_by_role("dialog", name="Extend healthy")
    dialog.get_by_label("Further epochs").fill("2")
    dialog.get_by_role("button", name="Extend").click()
    link = page.get_by_role("link", name=f"extends {job.id}")
    expect(link).to_be_visible()
    extension = stack.client.jobs.get(urlsplit(page.url).fragment.rpartition("/")[2])
    steps_per_epoch = job.evaluations()[0]["step"] + 1
    assert extension.extends == job.id
    assert extension.spec["train"]["steps"] == 1500 + 2 * steps_per_epoch
    link.click()
    expect(page.get_by_role("button", name="Extend")).to_be_visible()
    stack.client.jobs.wait([extension], 2 * DEADLINE_S)[0].delete()


def test_every_skipped_step_has_a_marker_that_opens_its_event(
    open_signed_in: Any, finished_jobs: Any
) -> None:
    _, skipping = finished_jobs
    skipped = [event.step for event in skipping.events() if event.type == "overflow"]
    page = open_signed_in(f"#/jobs/{skipping.id}")
    markers = page.get_by_role("toolbar", name="Skipped steps").get_by_role("button")
    expect(markers.first).to_be_visible()
    counts = [counted(marker) for marker in markers.all()]
    assert sum(counts) == skipping.skipped == len(skipped) > 0
    markers.last.click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("overflow")
    expect(dialog).to_contain_text(f"{skipped[-1]:,}")
    dialog.get_by_role("button", name="Zoom to step").click()
    expect(dialog).to_be_hidden()
    expect(page.get_by_role("status", name="Plot range")).to_contain_text("Each point is one step")
    expect(page.get_by_role("button", name=f"Skipped step {skipped[-1]:,}")).to_be_visible()


def test_zooming_requests_finer_data(open_signed_in: Any, finished_jobs: Any) -> None:
    job, _ = finished_jobs
    page = open_signed_in(f"#/jobs/{job.id}")
    shown = page.get_by_role("status", name="Plot range")
    expect(shown).to_contain_text("Each point is the mean of 2 steps")
    with page.expect_response(re.compile(r"/steps\?.*start=")) as response:
        drag(page, page.get_by_role("group", name="Plot of Loss", exact=True), 0.25, 0.5)
    query = parse_qs(urlsplit(response.value.url).query)
    start, end = int(query["start"][0]), int(query["end"][0])
    assert 0 < start < 500 < end < 1000
    steps = response.value.json()
    assert steps["steps_per_point"] == 1
    assert steps["data"]["step"] == list(range(start, end))
    expect(shown).to_contain_text("Each point is one step")
    page.reload()  # the address says what is shown
    expect(shown).to_contain_text(f"Steps {start:,} to {end:,}")
    page.get_by_role("button", name="Reset zoom").click()
    expect(shown).to_contain_text("Each point is the mean of 2 steps")


def test_zooming_shows_the_loaded_steps_until_the_finer_ones_arrive(
    open_signed_in: Any, finished_jobs: Any
) -> None:
    page = open_signed_in(f"#/jobs/{finished_jobs[0].id}")
    shown = page.get_by_role("status", name="Plot range")
    expect(shown).to_contain_text("Each point is the mean of 2 steps")
    held_routes: list[Route] = []
    requested: list[str] = []

    def hold(route: Route) -> None:
        held_routes.append(route)

    page.route(re.compile(r"/steps\?.*start="), hold)
    page.on("request", lambda request: requested.append(request.url))
    before = shown.inner_text()
    page.get_by_role("button", name="Zoom in").click()
    expect(shown).not_to_have_text(before)
    expect(shown).to_contain_text("Each point is the mean of 2 steps")
    wait_until(lambda: shown.inner_text() and held_routes, "the request for the finer steps")
    held_routes[0].continue_()
    expect(shown).to_contain_text("Each point is one step")
    assert [url for url in requested if "/evaluations?" in url] == []


def test_zooming_requests_the_evaluations_in_view_if_only_a_sample_is_loaded(
    open_signed_in: Any, finished_jobs: Any
) -> None:
    sample = [{"epoch": 0, "step": step, "val_loss": 1} for step in range(501)]
    page = open_signed_in()
    page.route(
        re.compile(r"/evaluations\?max_points=1000$"),
        lambda route: route.fulfill(json={"items": sample, "next": 500, "more": False}),
    )
    page.goto(f"{page.url.partition('#')[0]}#/jobs/{finished_jobs[0].id}")
    with page.expect_response(re.compile(r"/evaluations\?.*after=\d+&end=\d+")) as response:
        page.get_by_role("button", name="Zoom in").click()
    assert response.value.ok


def test_the_settings_of_plots_are_kept_in_the_address(
    open_signed_in: Any, finished_jobs: Any
) -> None:
    page = open_signed_in(f"#/jobs/{finished_jobs[1].id}?from=100&to=900")
    controls = page.get_by_role("group", name="Plot settings")
    plots = page.get_by_role("group", name=re.compile("^Plot of"))
    controls.get_by_label("X axis").select_option("Epoch")
    controls.get_by_label("Smoothing").fill("0.9")
    controls.get_by_label("Add a panel").select_option("Step time (s)")
    page.get_by_label("Menu of the plot Loss", exact=True).click()
    page.get_by_label("Logarithmic y axis").check()
    page.get_by_label("Y to").fill("50")
    page.get_by_label("Y to").press("Enter")
    page.get_by_role("button", name="Move on").click()
    page.get_by_label("Menu of the plot Learning rate").click()
    page.get_by_role("button", name="Remove").click()
    titles = [plot.get_by_role("heading").inner_text() for plot in plots.all()]
    assert titles[1] == "Loss"
    assert titles[-1] == "Step time (s)"
    assert "Learning rate" not in titles
    page.reload()
    expect(plots).to_have_count(len(titles))
    assert [plot.get_by_role("heading").inner_text() for plot in plots.all()] == titles
    expect(plots.nth(1).locator(".readout")).to_contain_text("(raw ")
    expect(controls.get_by_label("X axis")).to_have_value("epoch")
    expect(controls.get_by_label("From step")).to_have_value("100")
    assert parse_qs(urlsplit(page.url).fragment.partition("?")[2])["y"] == [":50:loss"]
    page.get_by_label("Menu of the plot Loss", exact=True).click()
    for suffix, begin in (("png", b"\x89PNG"), ("svg", b"<svg "), ("csv", b"epoch,loss,loss raw,")):
        with page.expect_download() as download:
            page.get_by_role("button", name=suffix.upper(), exact=True).click()
        assert download.value.suggested_filename == f"skipping-loss.{suffix}"
        assert Path(download.value.path()).read_bytes().startswith(begin)
    page.keyboard.press("Escape")
    places = [plot.bounding_box() for plot in plots.all()[:2]]
    assert places[0]["y"] == places[1]["y"], "two plots beside each other"
    assert accessibility_violations(page) == []


def test_the_keyboard_zooms_and_reaches_each_marker(
    open_signed_in: Any, finished_jobs: Any
) -> None:
    page = open_signed_in(f"#/jobs/{finished_jobs[1].id}")
    shown = page.get_by_role("status", name="Plot range")
    page.get_by_role("button", name="Zoom in").focus()
    page.keyboard.press("Enter")
    expect(shown).to_contain_text("Each point is one step")
    page.get_by_role("button", name="Reset zoom").press("Enter")
    expect(shown).to_contain_text("Each point is the mean of 2 steps")  # with other markers
    markers = page.get_by_role("toolbar", name="Skipped steps").get_by_role("button")
    markers.first.focus()
    page.keyboard.press("End")
    expect(markers.last).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()


def test_each_tab_of_a_job_shows_its_content(open_signed_in: Any, finished_jobs: Any) -> None:
    _, skipping = finished_jobs
    page = open_signed_in(f"#/jobs/{skipping.id}")
    parts: dict[str, str | re.Pattern[str]] = {
        "Events": "overflow",
        # TensorFlow prints start-up messages on some machines only.
        "Log": re.compile("Follow|No output"),
        "Evaluation": re.compile("The most frequent mistakes.*The worst examples.*target", re.S),
        "Preflight": "Computed in 16 bits",
        "Profile": "No profile yet",
        "Attempts": "Wait",
        "Files": "report",
        "Spec": "growth_interval",
    }
    for name, words in parts.items():
        page.get_by_role("navigation", name="Job details").get_by_text(name).click()
        expect(page.get_by_role("main")).to_contain_text(words)


def test_a_profile_has_bars_sortable_tables_and_downloads(
    open_signed_in: Any, finished_jobs: Any
) -> None:
    healthy, _ = finished_jobs
    page = open_signed_in(f"#/jobs/{healthy.id}?tab=profile")
    expect(page.get_by_role("rowheader", name="backward")).to_be_visible()
    expect(page.get_by_role("rowheader", name="float32")).to_be_visible()
    table = page.get_by_role("region", name="Operations, per step")
    first = table.locator("tbody tr td").first
    heading = table.get_by_role("columnheader", name="Operation")
    heading.get_by_role("button").click()
    expect(heading).to_have_attribute("aria-sort", "descending")
    last_name = first.inner_text()
    heading.get_by_role("button").click()
    expect(heading).to_have_attribute("aria-sort", "ascending")
    assert first.inner_text() != last_name
    with page.expect_download() as download:
        page.get_by_role("link", name="Trace for Perfetto").click()
    assert download.value.suggested_filename.endswith("trace.json.gz")


def test_a_job_that_has_ended_is_profiled_by_a_short_copy(
    open_signed_in: Any, finished_jobs: Any, stack: Any
) -> None:
    _, skipping = finished_jobs
    page = open_signed_in(f"#/jobs/{skipping.id}?tab=profile")
    page.get_by_role("button", name="Profile 10 steps of a copy").click()
    expect(page.get_by_role("heading", name=f"{skipping.name} profile")).to_be_visible()
    expect(page.get_by_role("rowheader", name="backward")).to_be_visible()
    # Other tests count the jobs of this name.
    [copy] = stack.client.jobs.list(q=f"{skipping.name} profile")
    copy.wait(DEADLINE_S).delete()


def test_the_log_hides_what_tensorflow_prints_when_it_starts(
    open_signed_in: Any, finished_jobs: Any
) -> None:
    def logs(route: Route) -> None:
        texts = ["2026-01-05 12:00:00.1: I tensorflow/core/x.cc:1] Noise\n", "A line of the job\n"]
        entries = [{"seq": seq, "stream": "stderr", "text": one} for seq, one in enumerate(texts)]
        is_first = "before=" in route.request.url
        route.fulfill(json={"items": entries if is_first else [], "next": 1, "more": False})

    page = open_signed_in(f"#/jobs/{finished_jobs[0].id}")
    page.route("**/logs?*", logs)
    page.get_by_role("link", name="Log").click()
    log = page.get_by_role("log")
    expect(log).to_have_text("A line of the job")
    page.get_by_label("TensorFlow start-up messages (1)").check()
    expect(log).to_contain_text("Noise")


def counted(marker: Locator) -> int:
    """How many steps a marker stands for, according to its label."""
    words = marker.get_attribute("aria-label") or ""
    found = re.match(r"([\d,]+) skipped step", words)
    return int(found[1].replace(",", "")) if found else 1


def drag(page: Page, plot: Locator, start: float, end: float) -> None:
    """Select a part of a plot with the mouse."""
    over = plot.locator(".u-over")
    over.hover()  # waits until it is drawn, and stays where it is
    box = over.bounding_box()
    assert box is not None
    y = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + start * box["width"], y)
    page.mouse.down()
    page.mouse.move(box["x"] + end * box["width"], y, steps=5)
    page.mouse.up()


def test_the_custom_code_of_a_job_is_listed_and_downloaded(
    stack: Any, open_signed_in: Any, tmp_path: Path
) -> None:
    (tmp_path / "net.py").write_text("def build(options, signature):\n    return None\n")
    spec = {
        "model": {"kind": "bundle"},
        "data": {"kind": "digits"},
        "runtime": {"queue": "nobody"},  # no worker: it stays queued
    }
    job = stack.client.jobs.submit(spec, code=tmp_path)
    page = open_signed_in(f"#/jobs/{job.id}")
    sandbox = page.get_by_role("region", name="Sandbox")
    expect(sandbox).to_contain_text("without network")
    expect(sandbox).to_contain_text("Only workers with a sandbox take it")
    page.get_by_role("link", name="Files").click()
    code = page.get_by_role("region", name="Code")
    expect(code).to_contain_text("net:build")
    expect(code).to_contain_text(job.spec["model"]["bundle"].removeprefix("sha256:"))
    expect(code.get_by_role("list", name="Files of the code")).to_contain_text("net.py")
    with page.expect_download() as download:
        code.get_by_role("link", name="Download").click()
    assert download.value.suggested_filename.endswith(".zip")
    job.cancel()


def test_the_package_of_a_job_is_explained(stack: Any, open_signed_in: Any) -> None:
    spec = {
        "model": {"kind": "package", "package": "custom-package", "name": "two_towers"},
        "data": {"kind": "digits"},
        "runtime": {"queue": "nobody"},  # no worker: it stays queued
    }
    job = stack.client.jobs.submit(spec)
    page = open_signed_in(f"#/jobs/{job.id}")
    package = page.get_by_role("region", name="Package")
    expect(package).to_contain_text("model two_towers of the package custom-package")
    expect(package).to_contain_text("nobody/custom-package")
    job.cancel()


def test_a_skipped_step_is_explained_from_its_marker_for_reading(
    open_signed_in: Any, finished_jobs: Any, stack: Any
) -> None:
    """The answer names the cause, and its evidence is shown in tables."""
    _, skipping = finished_jobs
    page = open_signed_in(f"#/jobs/{skipping.id}")
    page.get_by_role("toolbar", name="Skipped steps").get_by_role("button").first.click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Explain step 0").click()
    expect(dialog).to_contain_text("0 steps are repeated first, from the first step")
    dialog.get_by_role("button", name="Repeat and explain").click()
    answer = dialog.locator(".explanation")
    expect(answer).to_contain_text("due to the loss scale")
    expect(answer).to_contain_text("every bit equal")
    expect(answer.get_by_role("table", name="What was tried")).to_contain_text("as in the run")
    expect(answer.locator("tr.marked")).to_have_count(1)
    [found] = skipping.explanations(step=0)
    assert found.attribution == "loss_scale"
    job = stack.client.jobs.wait([stack.client.jobs.get(found.job)], DEADLINE_S)[0]
    assert job.answer()["values"]["loss_scale"] == 2.0**24
    check_accessibility(page)
    # With examples: they are shown if the data is the cause.
    address = f"{stack.client.url}/api/v1/jobs/{skipping.id}/explanations/{job.id}"
    document = page.request.get(address).json()
    document["answer"]["attribution"] = "data"
    page.route(address, lambda route: route.fulfill(json=document))
    page.reload()
    page.get_by_role("toolbar", name="Skipped steps").get_by_role("button").first.click()
    dialog.get_by_role("button", name="Explain step 0").click()
    first = job.answer()["examples"]["shown"][0]
    expect(dialog.get_by_role("figure").first).to_contain_text(
        f"row {first['example'] + 1} of the data"
    )
    check_accessibility(page)
    page = open_signed_in("#/jobs?q=step+0+of+skipping")
    expect(page.get_by_text("No matching jobs")).to_be_visible()
    page.get_by_role("checkbox", name="explanations").check()
    page.get_by_role("row").get_by_role("link", name="explains step 0").click()
    expect(page.get_by_role("heading", name="skipping", level=1)).to_be_visible()
    job.delete()


def check_accessibility(page: Any) -> None:
    """Check the page in both themes, and on a phone."""
    window = page.viewport_size
    for scheme in ("dark", "light"):
        page.emulate_media(color_scheme=scheme)
        expect(page.locator("html")).to_have_attribute("data-theme", scheme)
        assert accessibility_violations(page) == []
    page.set_viewport_size(PHONE)
    page.wait_for_function(FITS_JS)
    assert accessibility_violations(page) == []
    page.set_viewport_size(window)


def test_the_page_of_a_job_says_what_it_trains_on(open_signed_in: Any, finished_jobs: Any) -> None:
    page = open_signed_in(f"#/jobs/{finished_jobs[0].id}")
    data = page.get_by_role("region", name="Data", exact=True)
    expect(data).to_contain_text(re.compile(r"Trains on [\d,]+ rows"))
    page.wait_for_function(FITS_JS)
