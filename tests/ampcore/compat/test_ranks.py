"""Loops of two processes: the ranks decide together, and compute what one rank would."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ampcore.distributed.launcher import Launch, launch_ranks
from tests.waiting import DEADLINE_S

ROOT = Path(__file__).parents[3]
PROGRAM = Path(__file__).parent / "two_ranks.py"
STEPS = 4

pytestmark = pytest.mark.xdist_group("stack")  # which has the forked Python, too


@pytest.fixture(scope="module")
def launch(python_commands) -> Callable[..., int]:
    """Runs a program on two ranks."""

    def run(*command: str | Path) -> int:
        arguments = [str(python_commands / "python"), *map(str, command)]
        return launch_ranks(Launch(arguments, processes=2, timeout_s=DEADLINE_S, threads=1))

    return run


@pytest.fixture(scope="module")
def alone(python_commands) -> Callable[[str], Any]:
    """The JSON that an example prints as a single rank."""

    def run(example: str) -> Any:
        command = [python_commands / "python", f"examples/sok/{example}.py", "--steps", str(STEPS)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        return json.loads(done.stdout)

    return run


@pytest.mark.parametrize("form", ["tf2", "tf1"])
def test_an_overflow_in_the_embeddings_of_one_rank_skips_on_both(form, launch, tmp_path):
    assert launch(PROGRAM, form, tmp_path) == 0
    ranks = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in (0, 1)]
    assert [rank["ranks"] for rank in ranks] == [2, 2]
    for rank in ranks:
        scales, skipped, tables, weights = zip(*rank["steps"], strict=True)
        assert scales == (8.0, 4.0, 4.0, 2.0, 2.0)
        assert skipped == (0, 1, 1, 2, 2)
        for number in (1, 3):
            assert tables[number] == tables[number - 1]
            assert weights[number] == weights[number - 1]
    first, second = (rank["steps"] for rank in ranks)
    for step, other in zip(first, second, strict=True):
        assert step[3] == other[3], "the replicated weights are the same, bit for bit"
        assert step[2] != other[2], "each rank has rows of its own"
    # The gradient is the mean of 1 × and 2 × the derivative 2 w.
    np.testing.assert_allclose(first[0][3], np.array([0.5, -2.0]) * (1 - 0.125 * 3), rtol=1e-6)


@pytest.mark.parametrize("example", ["amp_tf2", "amp_tf1"])
def test_a_published_loop_has_the_same_losses_on_two_ranks(example, launch, alone, capfd):
    expected = alone(example)
    capfd.readouterr()
    assert launch(ROOT / "examples" / "sok" / f"{example}.py", "--steps", STEPS) == 0
    found = json.loads(capfd.readouterr().out)
    assert (expected["ranks"], found["ranks"]) == (1, 2)
    assert found["skipped"] == expected["skipped"] == 0
    assert found["loss_scale"] == expected["loss_scale"]
    assert len(found["losses"]) == STEPS
    # The products are in float16, and Adam's first steps have the size of the learning rate.
    np.testing.assert_allclose(found["losses"], expected["losses"], atol=1e-3)
