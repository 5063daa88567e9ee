"""Every example trains through the server, and all its steps are stored."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ampspec.jobs import JobSpec, State
from tests.waiting import DEADLINE_S

pytestmark = pytest.mark.xdist_group("stack")

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted(ROOT.glob("examples/*.yaml"))
STEPS = 4
# With the initial scales of the examples all of these few steps would be skipped.
LOW_INITIAL_SCALE = {"loss_scale": {"mode": "dynamic", "initial": 1024}}
# The architecture of the example takes half a minute to build.
CHANGES = {
    "digits-float16": LOW_INITIAL_SCALE,
    "keras-application": {"model": {"kind": "keras_application", "name": "MobileNet"}},
    "resnet": LOW_INITIAL_SCALE,
}


@pytest.fixture(scope="module")
def submitted(stack: Any) -> dict[str, Any]:
    """The jobs of all examples, queued at once; their data is in the server's dataset folder."""
    datasets = stack.data / "datasets" / "examples"
    shutil.copytree(ROOT / "examples" / "data", datasets / "data", dirs_exist_ok=True)
    jobs = {}
    for file in EXAMPLES:
        spec = JobSpec.from_file(file).to_json()
        small = CHANGES.get(file.stem, {}) | {"train": {"steps": STEPS}}
        jobs[file.stem] = stack.client.jobs.submit(spec | small)
    return jobs


@pytest.mark.parametrize("name", [file.stem for file in EXAMPLES])
def test_an_example_trains_through_the_server(submitted: dict[str, Any], name: str) -> None:
    job = submitted[name].wait(timeout_s=2 * DEADLINE_S)
    assert (job.state, job.message) == (State.SUCCEEDED, None)
    steps = job.steps()
    assert steps["step"].tolist() == list(range(STEPS))
    assert np.isfinite(steps["loss"]).all()
    assert job.summary.steps == STEPS
    assert job.summary.parameters > 0
    assert {"started", "engine", "epoch", "model_saved"} <= {event.type for event in job.events()}


def test_the_loss_of_a_gan_is_the_sum_of_the_losses_of_its_networks(
    submitted: dict[str, Any],
) -> None:
    steps = submitted["gan"].wait(timeout_s=2 * DEADLINE_S).steps()
    losses = [steps[f"loss/{network}"] for network in ("generator", "discriminator")]
    np.testing.assert_allclose(steps["loss"], sum(losses), rtol=1e-6)
