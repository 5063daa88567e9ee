"""Every example trains through the server, and its steps come back whole."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ampcore.spec import JobSpec, State
from tests.waiting import DEADLINE_S

pytestmark = pytest.mark.xdist_group("stack")

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted(ROOT.glob("examples/*.yaml"))
STEPS = 4
# Their own scale begins so high that all of these few steps would be skipped.
LOWER = {"loss_scale": {"mode": "dynamic", "initial": 1024}}
# The example's own architecture takes half a minute to build.
SMALLER = {
    "digits-float16": LOWER,
    "keras-application": {"model": {"kind": "keras_application", "name": "MobileNet"}},
    "resnet": LOWER,
}


@pytest.fixture(scope="module")
def submitted(stack: Any) -> dict[str, Any]:
    """All of them, queued at once; the paths in them lead into the server's data sets."""
    datasets = stack.data / "datasets" / "examples"
    shutil.copytree(ROOT / "examples" / "data", datasets / "data", dirs_exist_ok=True)
    jobs = {}
    for file in EXAMPLES:
        spec = JobSpec.from_file(file).to_json()
        small = SMALLER.get(file.stem, {}) | {"train": {"steps": STEPS}}
        jobs[file.stem] = stack.client.jobs.submit(spec | small)
    return jobs


@pytest.mark.parametrize("name", [file.stem for file in EXAMPLES])
def test_an_example_trains_through_the_server(submitted: dict[str, Any], name: str) -> None:
    job = submitted[name].wait(timeout=2 * DEADLINE_S)
    assert (job.state, job.message) == (State.SUCCEEDED, None)
    steps = job.steps()
    assert steps["step"].tolist() == list(range(STEPS))
    assert np.isfinite(steps["loss"]).all()
    assert job.summary.steps == STEPS
    assert job.summary.parameters > 0
    assert {"started", "engine", "epoch", "model_saved"} <= {event.type for event in job.events()}


def test_every_network_has_its_columns(submitted: dict[str, Any]) -> None:
    steps = submitted["gan"].wait(timeout=2 * DEADLINE_S).steps()
    losses = [steps[f"loss/{network}"] for network in ("generator", "discriminator")]
    np.testing.assert_allclose(steps["loss"], sum(losses), rtol=1e-6)
