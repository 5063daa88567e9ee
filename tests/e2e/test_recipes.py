"""The recipes, and the guide to mixed precision, run as they stand."""

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

pytestmark = pytest.mark.xdist_group("stack")


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
"""One for all tests: pandas never forgets a backend that it has seen."""


@pytest.fixture
def workdir(stack: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which `ampserver up` seems to run."""
    (tmp_path / "ampcore-data").symlink_to(stack.data)
    monkeypatch.chdir(tmp_path)
    for name in ("AMPCORE_URL", "AMPCORE_TOKEN", "AMPCORE_CONNECTION", "AMPCORE_DATA_DIR"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.fixture
def plots(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """What pandas would draw: the canvas is the one thing that is faked."""
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
    """The id of a job like those of the recipes, which has ended; its first steps were skipped."""
    namespace: dict[str, Any] = {"__name__": "recipe", "Client": None}
    code = SETUP.code.replace("client = Client()", "client = None")
    exec(compile(code, "beginning", "exec"), namespace)  # noqa: S102
    too_high = {"loss_scale": {"mode": "dynamic", "initial": 2.0**24}}
    return str(
        stack.client.jobs.submit({**namespace["spec"], **too_high}).wait(timeout=2 * DEADLINE_S).id
    )


def compared(namespace: dict[str, Any], workdir: Path, plots: list[Any]) -> None:
    assert namespace["comparison"].baseline == namespace["baseline"].id
    assert [job.state for job in namespace["jobs"]] == ["succeeded"] * 3
    pointers = {difference.pointer for difference in namespace["comparison"].spec}
    assert "/precision/policy" in pointers
    assert namespace["results"]["final_loss"].notna().all()


def went_on(namespace: dict[str, Any], workdir: Path, plots: list[Any]) -> None:
    assert namespace["job"].attempts()[-1].first_step > 0
    assert namespace["saved"].type == "checkpoint_saved"


def trained(namespace: dict[str, Any], workdir: Path, plots: list[Any]) -> None:
    assert namespace["network"].count_params() > 0


def exported(namespace: dict[str, Any], workdir: Path, plots: list[Any]) -> None:
    assert list((workdir / "runs").rglob("*tfevents*"))


def plotted(namespace: dict[str, Any], workdir: Path, plots: list[Any]) -> None:
    assert len(plots) == 2
    assert np.isfinite(plots[0]["smooth"].iloc[-1])


def submitted_once(namespace: dict[str, Any], workdir: Path, plots: list[Any]) -> None:
    assert namespace["again"].id == namespace["job"].id
    namespace["job"].cancel()


def heard_of_skips(namespace: dict[str, Any], workdir: Path, plots: list[Any]) -> None:
    events = namespace["job"].events()
    assert any(event.type == "overflow" for event in events)
    assert namespace["event"] == events[-1]


CHECKS: dict[str, Callable[[dict[str, Any], Path, list[Any]], None]] = {
    "Try every policy and compare": compared,
    "Get notified of skipped steps": heard_of_skips,
    "Plot with pandas": plotted,
    "Recover from a failure": went_on,
    "Download the trained model": trained,
    "Export to TensorBoard": exported,
    "Submit exactly once from a scheduler": submitted_once,
}
"""What is to be true behind a recipe, beside that it has run."""


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
    assert namespace["explained"], "a start that was far too high has its verdicts"
    assert namespace["explained"][0].data["verdict"] == "scale"
    assert namespace["sample"].skipped_steps.total == namespace["summary"].skipped > 0
