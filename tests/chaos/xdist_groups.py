"""Groups of tests that share a stack in a parallel run, and the trainers of their workers."""

import pytest

from tests.chaos.cluster import PACED
from tests.chaos.cluster import SCRIPTED as SCRIPTED_TRAINER

TENSORFLOW = pytest.mark.xdist_group("chaos-real")
"""With TensorFlow: tests of what a trainer computes, or how it fails."""
SCRIPTED = pytest.mark.xdist_group("chaos-scripted")
"""Without TensorFlow: all other tests, because these trainers start and end much faster."""
RANKS_AND_RUNS = pytest.mark.xdist_group("chaos-ranks-and-runs")
"""As SCRIPTED, on a stack of its own: in one process, these tests were the last to end."""
SLURM = pytest.mark.xdist_group("chaos-slurm")
"""Without TensorFlow, on a Slurm that runs beside the stack: these tests mostly wait."""

with_each_trainer = pytest.mark.parametrize(
    "trainer",
    [
        pytest.param(SCRIPTED_TRAINER, marks=[SCRIPTED, pytest.mark.quick], id="scripted"),
        pytest.param(PACED, marks=TENSORFLOW, id="tensorflow"),
    ],
)
"""The test runs without TensorFlow, which is the cheapest proof, and with it."""
