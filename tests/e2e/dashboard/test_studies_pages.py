"""The pages of studies, with a study whose jobs are trained by the real trainer."""

import re
from typing import Any

import pytest
from playwright.sync_api import expect

from ampspec.jobs import Reason
from tests.ampspec.studies.test_search import Searching, accuracy
from tests.e2e.dashboard.test_accessibility import PHONE, accessibility_violations
from tests.waiting import DEADLINE_S

pytestmark = pytest.mark.xdist_group("dashboard")

SPEC = {
    "name": "asked",
    "model": {"kind": "mlp", "hidden": [8]},
    "data": {"kind": "digits", "batch_size": 128},
    "train": {"steps": 33, "seed": 4},
    "runtime": {"engine": "graph"},
}


@pytest.fixture(scope="module")
def study(stack: Any) -> Any:
    lab = stack.client.studies
    made = lab.precision(SPEC, seeds=2, policies=["mixed_bfloat16"])
    return lab.wait(made, timeout_s=2 * DEADLINE_S)


def test_a_study_trains_pairs_of_jobs_that_differ_in_the_policy_alone(
    stack: Any, study: Any
) -> None:
    assert (study.state, study.message) == ("succeeded", None)
    float32, other = study.answer.policies
    assert float32.verdict == "equal"
    assert other.verdict in ("equal", "worse", "better", "cannot tell")
    assert other.speedup > 0
    assert study.answer.seeds == [4, 5]
    specs = {one.key: stack.client.jobs.get(one.job).spec for one in study.jobs}
    ours, theirs = specs["mixed_bfloat16/seed-5"], specs["float32/seed-5"]
    for section in ("model", "data", "train", "optimizer"):
        assert ours[section] == theirs[section]
    # A copy of 16-bit casts can change the loss only a little: the weights and batches are equal.
    losses = [stack.client.jobs.get(one.job).steps()["loss"][0] for one in study.jobs]
    by_key = dict(zip(specs, losses, strict=True))
    first, second = by_key["float32/seed-4"], by_key["mixed_bfloat16/seed-4"]
    assert first == pytest.approx(second, rel=0.02)
    assert by_key["float32/seed-5"] != first


def test_the_answer_is_shown_with_intervals_jobs_and_what_to_write(
    open_signed_in: Any, study: Any
) -> None:
    page = open_signed_in("#/studies")
    page.get_by_role("link", name="asked", exact=True).last.click()
    expect(page.get_by_role("heading", name="asked", level=1)).to_be_visible()
    expect(page.get_by_text(study.answer.summary)).to_be_visible()
    row = page.get_by_role("row", name=re.compile("^mixed_bfloat16 "))
    expect(row).to_contain_text(study.answer.policies[1].verdict)
    expect(row.get_by_role("img", name=re.compile("noise band"))).to_be_visible()
    expect(page.get_by_role("region", name="Write into the spec")).to_contain_text("precision")
    page.get_by_role("link", name="mixed_bfloat16/seed-4", exact=True).click()
    expect(page.get_by_role("heading", name="asked mixed_bfloat16/seed-4")).to_be_visible()


@pytest.mark.parametrize("place", ["#/studies", "#/studies/{study}"])
def test_the_pages_are_accessible_also_on_a_phone(
    open_signed_in: Any, study: Any, place: str
) -> None:
    for window in ({"scheme": "light"}, {"scheme": "dark", "width": PHONE["width"]}):
        page = open_signed_in(place.format(study=study.id), **window)
        expect(page.get_by_text("Loading")).to_have_count(0)
        expect(page.get_by_role("table").first).to_be_visible()
        assert accessibility_violations(page) == []
        width = window.get("width", 1280)
        assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize(
    ("button", "cost"),
    [
        ("Which layers?", "At least 4 jobs .float32, mixed_float16., 800 steps"),
        ("How large a batch?", "At least .* jobs .float32, .* steps"),
    ],
)
def test_the_cost_of_every_question_is_shown_before_it_is_asked(
    open_signed_in: Any, study: Any, button: str, cost: str
) -> None:
    page = open_signed_in(f"#/jobs/{study.jobs[0].job}")
    page.get_by_text("More", exact=True).click()
    page.get_by_role("button", name=button).click()
    dialog = page.get_by_role("dialog", name=button)
    expect(dialog.get_by_role("status")).to_contain_text(re.compile(cost))


def test_a_job_is_asked_about_in_three_clicks_and_the_study_cancelled(
    open_signed_in: Any, stack: Any, study: Any
) -> None:
    job = study.jobs[0].job
    page = open_signed_in(f"#/jobs/{job}")
    page.get_by_text("More", exact=True).click()
    page.get_by_role("button", name="Which policy?").click()
    dialog = page.get_by_role("dialog", name="Which policy?")
    expect(dialog.get_by_role("status")).to_contain_text(re.compile("9 jobs .*297 steps.* about"))
    assert accessibility_violations(page) == []
    dialog.get_by_role("button", name="Start the study").click()
    expect(page.get_by_role("heading", name="asked float32/seed-4", level=1)).to_be_visible()
    page.get_by_role("button", name="Cancel study").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel study").click()
    expect(page.get_by_text("Cancelled on request.")).to_be_visible()
    [newest, *_] = stack.client.studies.list()
    assert stack.client.studies.wait(newest.id, timeout_s=DEADLINE_S).state == "cancelled"
    page.get_by_role("button", name="Delete study").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete study").click()
    expect(page.get_by_role("heading", name="Studies", level=1)).to_be_visible()
    assert newest.id not in [one.id for one in stack.client.studies.list()]


@pytest.fixture(scope="module")
def searched(study: Any) -> Any:
    """A study as the API returns it, with the answer of a search whose runs needed no training."""

    def end(spec: Any) -> Any:
        rate = spec.optimizer.learning_rate
        return Reason.NON_FINITE_LOSS if rate > 0.2 else {"val_accuracy": accuracy(spec)}

    asha = {"min_steps": 30, "reduction_factor": 3}
    answer = Searching(runs=24, end=end, asha=asha, seed=1).run().answer()
    document = {**study.to_json(), "kind": "search", "name": "searched"}
    return document | {"answer": answer.model_dump(mode="json")}


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", PHONE["width"])])
def test_a_search_has_a_line_for_each_run_and_the_same_values_in_a_table(
    open_signed_in: Any, searched: Any, scheme: str, width: int
) -> None:
    page = open_signed_in("#/studies", scheme=scheme, width=width)
    page.route(f"**/api/v1/studies/{searched['id']}", lambda route: route.fulfill(json=searched))
    page.evaluate("hash => { location.hash = hash; }", f"#/studies/{searched['id']}")
    answer = searched["answer"]
    expect(page.get_by_text(answer["summary"])).to_be_visible()
    plot = page.get_by_role("img", name=re.compile("^Parallel coordinates of 24 runs"))
    expect(plot.locator("polyline")).to_have_count(24)
    expect(plot.locator("polyline.best title")).to_contain_text(f"Run {answer['best']}, finished")
    table = page.get_by_role("table", name="Runs of the search")
    expect(table.get_by_role("row")).to_have_count(25)
    best = table.get_by_role("row").nth(1)
    expect(best).to_contain_text(f"{answer['best']}")
    importance = page.get_by_role("table", name="Importance of the parameters")
    expect(importance.get_by_role("row").nth(1)).to_contain_text("optimizer.learning_rate")
    assert accessibility_violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
