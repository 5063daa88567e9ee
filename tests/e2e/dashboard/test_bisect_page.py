"""A study that bisects, with the real trainer: one layer that overflows in float16 at any scale."""

import re
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.e2e.dashboard.test_accessibility import accessibility_violations
from tests.waiting import DEADLINE_S

pytestmark = pytest.mark.xdist_group("dashboard")

LARGE = {"name": "random_normal", "stddev": 200}
SPEC = {
    "name": "planted",
    "model": {
        "kind": "layers",
        "layers": [
            {"layer": "Flatten"},
            {"layer": "Dense", "name": "large", "units": 16, "kernel_initializer": LARGE},
            # Not the largest values that are computed in float16, but their squares overflow.
            {"layer": "Multiply", "name": "square", "inputs": ["large", "large"]},
            {"layer": "LayerNormalization", "name": "norm"},
            {"layer": "Dense", "name": "hidden", "units": 16, "activation": "relu"},
            {"layer": "Dense", "name": "logits", "units": "classes"},
        ],
    },
    "data": {"kind": "digits", "batch_size": 128},
    "train": {"steps": 24, "seed": 4},
    "runtime": {"engine": "graph"},
}


@pytest.fixture(scope="module")
def study(stack: Any) -> Any:
    lab = stack.client.studies
    made = lab.bisect(SPEC, seeds=2, steps=None)
    return lab.wait(made, timeout_s=2 * DEADLINE_S)


def test_exactly_the_planted_layer_is_found_with_its_evidence(stack: Any, study: Any) -> None:
    assert (study.state, study.message) == ("succeeded", None)
    [layer] = study.answer.layers
    assert (layer.path, layer.kind) == ("square", "Multiply")
    assert "100 % of the steps were skipped" in layer.explanation
    assert re.search(r"In float16 [\d.]+ % of the outputs overflow", layer.explanation)
    assert study.answer.overrides == [{"layers": r"^square(/|$)", "dtype": "float32"}]
    # The range samples of the failed job name the layer: all layers in float32 is not tried.
    assert len(study.answer.tried) == 3
    passed = next(one.job for one in study.answer.tried if one.float32 == ["square"])
    assert stack.client.jobs.get(passed).steps()["skipped"].sum() == 0


def test_the_answer_is_shown_with_what_to_write_and_links_to_the_evidence(
    open_signed_in: Any, study: Any
) -> None:
    page = open_signed_in(f"#/studies/{study.id}")
    expect(page.get_by_text(study.answer.summary)).to_be_visible()
    needed = page.get_by_role("table", name="Layers that need float32")
    expect(needed.get_by_role("row", name=re.compile("square"))).to_contain_text("whole layer")
    expect(page.get_by_role("region", name="Write into the spec")).to_contain_text("square")
    runs = page.get_by_role("table", name="Runs of the search")
    expect(runs.get_by_role("row")).to_have_count(4)
    assert accessibility_violations(page) == []
    needed.get_by_role("link", name=study.answer.layers[0].job).click()
    expect(page.get_by_role("heading", name="planted float32-in/none")).to_be_visible()
