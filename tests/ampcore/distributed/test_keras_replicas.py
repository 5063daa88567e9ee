"""Keras's own LossScaleOptimizer decides by the gradients of replica 0; ours by those of all."""

import subprocess

import numpy as np
import pytest

from tests.ampcore.distributed import keras_program
from tests.waiting import DEADLINE_S

pytestmark = pytest.mark.xdist_group("python_commands")


@pytest.mark.parametrize(
    ("bad_replica", "weight"),
    [("none", 0.0), ("0", 1.0), ("1", -np.inf)],
    ids=["finite", "replica 0: skipped", "replica 1: applied"],
)
def test_keras_applies_an_infinity_of_another_replica(python_commands, bad_replica, weight):
    command = [str(python_commands / "python"), keras_program.__file__, bad_replica]
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S, check=True)
    assert float(done.stdout) == weight
