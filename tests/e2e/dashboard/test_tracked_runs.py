"""The pages of a tracked run: its mark, its plots and skips, and a cancel that its program sees."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import expect

from tests.waiting import wait_until

pytestmark = pytest.mark.xdist_group("dashboard")


@pytest.fixture
def run(stack: Any) -> Iterator[Any]:
    """A tracked run with 200 steps, of which step 120 was skipped."""
    with stack.client.runs.track("tracked-run", policy="amp-fp16", model="net") as run:
        for step in range(200):
            scale = 1024.0 if step <= 120 else 512.0
            values = {"loss": 1 / (step + 1), "examples": 32, "accuracy": step / 200}
            run.log(step, loss_scale=scale, skipped=step == 120, learning_rate=0.1, **values)
        yield run


def test_a_tracked_run_is_watched_and_cancelled(open_signed_in: Any, run: Any) -> None:
    page = open_signed_in()
    row = page.get_by_role("row").filter(has=page.get_by_role("link", name="tracked-run"))
    expect(row.first.get_by_title("Trained elsewhere")).to_have_text("tracked")
    expect(row.first).to_contain_text("amp-fp16")
    expect(row.first).to_contain_text("running")
    expect(row.first.get_by_role("button", name="Pause tracked-run")).to_have_count(0)
    row.first.get_by_role("link", name="tracked-run").click()
    expect(page.get_by_text("tracked: a program elsewhere trains it")).to_be_visible()
    for name in ("Edit and resubmit", "Preflight", "Files"):
        expect(page.get_by_role("link", name=name)).to_have_count(0)
    expect(page.get_by_role("group", name="Plot of Gradient norm")).to_have_count(0)
    for title in ("Loss", "Loss scale", "Learning rate", "accuracy"):
        plot = page.get_by_role("group", name=f"Plot of {title}", exact=True)
        expect(plot.locator(".readout")).to_contain_text("last:")
    page.get_by_role("button", name="Skipped step 120").click()
    expect(page.get_by_role("dialog")).to_contain_text("overflow")
    page.get_by_role("button", name="Close").click()
    page.get_by_role("link", name="Attempts").click()
    expect(page.get_by_role("region", name="Attempts")).to_contain_text("–")
    page.get_by_role("link", name="Spec").click()
    expect(page.get_by_role("region", name="Spec as YAML")).to_contain_text("source: tracked")
    page.get_by_role("button", name="Cancel tracked-run").click()
    wait_until(lambda: run.cancel_requested, "the program learns that it is cancelled")
    run.finish()
    expect(page.locator(".job-head .badge").first).to_have_text("cancelled")
    expect(page.get_by_role("button", name="Retry tracked-run")).to_have_count(0)
    page.get_by_text("More", exact=True).click()
    expect(page.get_by_role("button", name="Delete")).to_be_visible()


def test_pictures_are_a_grid_with_a_slider_over_their_steps(
    open_signed_in: Any, stack: Any
) -> None:
    with stack.client.runs.track("pictures") as run:
        for step in (0, 50, 100):
            run.log(step, loss=1.0)
            for number in range(2):
                values = np.full((40, 60, 3), 0.25 * number, np.float32)
                values[: 10 + step // 4] = step / 100
                run.log_image("val/samples", values)
        run.log_image("confusion", np.eye(8), step=50)
    page = open_signed_in()
    page.goto(f"{page.url.split('#')[0]}#/jobs/{run.id}?tab=pictures")
    pictures = page.get_by_role("img", name="val/samples at step 100")
    expect(pictures).to_have_count(2)
    expect(page.get_by_role("img", name="confusion at step 50")).to_have_count(1)
    natural = (
        "picture => picture.decode().then(() => [picture.naturalWidth, picture.naturalHeight])"
    )
    assert pictures.first.evaluate(natural) == [60, 40]
    slider = page.get_by_role("slider")
    expect(slider).to_have_attribute("aria-valuetext", "step 100")
    slider.fill("0")
    expect(page.get_by_role("img", name="val/samples at step 0")).to_have_count(2)
    expect(page.get_by_role("img", name="confusion at step 50")).to_have_count(0)
    slider.fill("1")
    expect(page.get_by_role("img", name="val/samples at step 50")).to_have_count(2)
    page.set_viewport_size({"width": 375, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 375
