"""The code of the recipes and of the guide to mixed precision runs as written."""

import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tests.waiting import DEADLINE_S

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)

pytestmark = pytest.mark.xdist_group("stack-documents")


@dataclass(frozen=True)
class Snippet:
    """The Python below a heading."""

    page: str
    heading: str
    code: str

    def run(self, namespace: dict[str, Any]) -> None:
        exec(compile(self.code, f"{self.page}: {self.heading}", "exec"), namespace)  # noqa: S102


def snippets(page: str) -> list[Snippet]:
    """The sections of a page that have Python in them."""
    _, *parts = re.split(r"^#+ ", (ROOT / page).read_text(encoding="utf-8"), flags=re.MULTILINE)
    found = []
    for part in parts:
        heading, _, text = part.partition("\n")
        if blocks := BLOCK.findall(text):
            found.append(Snippet(page, heading, "\n".join(blocks)))
    return found


SETUP, *RECIPES = snippets("docs/recipes.md")
GUIDE = snippets("docs/guides/mixed-precision.md")
CANVAS = ModuleType("canvas")
"""The fake plotting backend, shared by all tests because pandas caches backends."""


@pytest.fixture
def workdir(stack: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that looks as if `ampserver up` ran there."""
    (tmp_path / "ampcore-data").symlink_to(stack.data)
    monkeypatch.chdir(tmp_path)
    for name in ("AMPCORE_URL", "AMPCORE_TOKEN", "AMPCORE_CONNECTION", "AMPCORE_DATA_DIR"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.fixture
def plots(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """The data that pandas would plot; only the plotting backend is faked."""
    import pandas

    drawn: list[Any] = []
    monkeypatch.setattr(
        CANVAS, "plot", lambda data, kind, **named: drawn.append(data), raising=False
    )
    monkeypatch.setitem(sys.modules, "canvas", CANVAS)
    with pandas.option_context("plotting.backend", "canvas"):
        yield drawn


@pytest.fixture(scope="module")
def ended(stack: Any) -> str:
    """The id of an ended job like those of the recipes, whose first steps were skipped."""
    namespace: dict[str, Any] = {"__name__": "recipe", "Client": None}
    code = SETUP.code.replace("client = Client()", "client = None")
    exec(compile(code, "beginning", "exec"), namespace)  # noqa: S102
    too_high = {"loss_scale": {"mode": "dynamic", "initial": 2.0**24}}
    return str(
        stack.client.jobs.submit({**namespace["spec"], **too_high})
        .wait(timeout_s=2 * DEADLINE_S)
        .id
    )


def check_comparison(namespace: dict[str, Any], workdir: Path, plots: list[Any]) -> None:
    assert namespace["comparison"].baseline == namespace["baseline"].id
    assert [job.state for job in namespace["jobs"]] == ["succeeded"] * 3
    pointers = {difference.pointer for difference in namespace["comparison"].spec}
    assert "/precision/policy" in pointers
    assert namespace["results"]["final_loss"].notna().all()


def check_resumed(namespace: dict[str, Any], workdir: Path, plots: list[Any]) -> None:
    assert namespace["job"].attempts()[-1].first_step > 0
    assert namespace["saved"].type == "checkpoint_saved"


def check_extension(namespace: dict[str, Any], workdir: Path, plots: list[Any]) -> None:
    [first] = namespace["longer"].attempts()
    assert (namespace["longer"].extends, first.first_step) == (
        namespace["job"].id,
        namespace["job"].step,
    )
    assert namespace["row"]["epoch"] == 3


def check_best(namespace: dict[str, Any], workdir: Path, plots: list[Any]) -> None:
    assert namespace["found"].metrics["val_accuracy"] > 0


def check_model(namespace: dict[str, Any], workdir: Path, plots: list[Any]) -> None:
    assert namespace["network"].count_params() > 0


def check_export(namespace: dict[str, Any], workdir: Path, plots: list[Any]) -> None:
    assert list((workdir / "runs").rglob("*tfevents*"))


def check_plots(namespace: dict[str, Any], workdir: Path, plots: list[Any]) -> None:
    assert len(plots) == 2
    assert np.isfinite(plots[0]["smooth"].iloc[-1])


def check_single_submission(namespace: dict[str, Any], workdir: Path, plots: list[Any]) -> None:
    assert namespace["again"].id == namespace["job"].id
    namespace["job"].cancel()


def check_skip_events(namespace: dict[str, Any], workdir: Path, plots: list[Any]) -> None:
    events = namespace["job"].events()
    assert any(event.type == "overflow" for event in events)
    assert namespace["event"] == events[-1]


CHECKS: dict[str, Callable[[dict[str, Any], Path, list[Any]], None]] = {
    "Try every policy and compare": check_comparison,
    "Get notified of skipped steps": check_skip_events,
    "Plot with pandas": check_plots,
    "Recover from a failure": check_resumed,
    "Train a finished job for more epochs": check_extension,
    "Find the best jobs": check_best,
    "Download the trained model": check_model,
    "Export to TensorBoard": check_export,
    "Submit exactly once from a scheduler": check_single_submission,
}
"""What must hold after a recipe has run."""


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.heading)
def test_a_recipe_runs(recipe: Snippet, ended: str, workdir: Path, plots: list[Any]) -> None:
    namespace: dict[str, Any] = {"__name__": "recipe"}
    SETUP.run(namespace)
    with namespace["client"] as client:
        namespace["job"] = client.jobs.get(ended)
        recipe.run(namespace)
        CHECKS.get(recipe.heading, lambda *_: None)(namespace, workdir, plots)


def test_every_check_belongs_to_a_recipe() -> None:
    assert set(CHECKS) <= {recipe.heading for recipe in RECIPES}


def test_the_mixed_precision_guide_runs_completely(workdir: Path) -> None:
    namespace: dict[str, Any] = {"__name__": "guide"}
    for section in GUIDE:
        section.run(namespace)
    namespace["client"].close()
    assert namespace["explained"], "the overflows of a too high initial scale have no cause"
    assert namespace["explained"][0].data["diagnosis"] == "scale"
    assert namespace["sample"].skipped_steps.total == namespace["summary"].skipped > 0
