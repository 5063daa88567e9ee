"""Loops of two processes: the ranks decide together, and compute what one rank would."""

import json
import subprocess
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from ampcore.distributed.launcher import Launch, launch_ranks
from tests.ampcore.compat.accumulated_loops import LARGE_SCALE
from tests.ampcore.compat.overflowing_loops import FACTORS
from tests.waiting import DEADLINE_S

ROOT = Path(__file__).parents[3]
TAPE = Path(__file__).parent / "tape_loop.py"
OVERFLOWING = Path(__file__).parent / "overflowing_loops.py"
STEPS = 30
DECISIONS = ("loss_scale", "good_steps", "skipped")

pytestmark = pytest.mark.xdist_group("stack")  # which has the forked Python, too


@pytest.fixture(scope="module")
def launch(python_commands) -> Callable[..., int]:
    """Runs a program on two ranks."""

    def run(*command: str | Path) -> int:
        arguments = [str(python_commands / "python"), *map(str, command)]
        return launch_ranks(Launch(arguments, processes=2, timeout_s=DEADLINE_S, threads=1))

    return run


@pytest.fixture(scope="module")
def alone(python_commands) -> Callable[..., str]:
    """Runs a program as a single rank; returns what it prints."""

    def run(*arguments: str | Path) -> str:
        command = [python_commands / "python", *map(str, arguments)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.fixture(scope="module", params=["tf2", "tf1"])
def overflowing(request, launch, alone, tmp_path_factory) -> dict[str, list[Any]]:
    """For each loop of a form what it saw in every step: alone, on rank 0 and on rank 1."""
    single, ranks = tmp_path_factory.mktemp("single"), tmp_path_factory.mktemp("ranks")
    alone(OVERFLOWING, request.param, single)
    assert launch(OVERFLOWING, request.param, ranks) == 0
    files = [single / "0.json", ranks / "0.json", ranks / "1.json"]
    found = [json.loads(file.read_text()) for file in files]
    assert [each["ranks"] for each in found] == [1, 2, 2]
    return {loop: [each["loops"][loop] for each in found] for loop in found[0]["loops"]}


def test_infinities_of_one_group_of_one_rank_are_found_there_alone(overflowing):
    """What the next tests rely on."""
    for _, *ranks in overflowing.values():
        for rank, steps in enumerate(ranks):
            found = [step["finite"] for step in steps]
            assert found == [
                [(group, rank) not in factors for group in ("table", "weights")]
                for factors in FACTORS
            ]


def test_two_ranks_decide_in_every_step_as_one_process(overflowing):
    for single, *ranks in overflowing.values():
        assert [step["skipped"] for step in single] == [0, 1, 1, 1, 2, 2, 3, 4, 4, 4, 5, 5]
        assert [step["loss_scale"] for step in single] == [8, 4, 4, 8, 4, 4, 2, 1, 1, 2, 1, 1]
        for steps in ranks:
            for number, (step, expected) in enumerate(zip(steps, single, strict=True)):
                for name in DECISIONS:
                    assert step[name] == expected[name], (number, name)


def test_a_step_that_one_rank_cannot_apply_changes_no_group_of_any_rank(overflowing):
    for runs in overflowing.values():
        for steps in runs:
            for before, after in pairwise(steps):
                was_applied = after["skipped"] == before["skipped"]
                for group in ("table", "weights"):
                    assert (after[group] != before[group]) == was_applied


def test_two_ranks_have_the_rows_and_weights_of_one_process(overflowing):
    for single, *ranks in overflowing.values():
        for expected, first, second in zip(single, *ranks, strict=True):
            assert first["weights"] == second["weights"], "the same on both, bit for bit"
            np.testing.assert_allclose(first["weights"], expected["weights"], rtol=1e-6)
            rows = first["table"] + second["table"]
            np.testing.assert_allclose(rows, expected["table"], rtol=1e-6)


class Example(NamedTuple):
    """What a program has printed, and the weights that it has saved."""

    printed: dict[str, Any]
    weights: dict[str, Any]


@pytest.fixture
def on_two_ranks(launch, capfd, tmp_path) -> Callable[..., Example]:
    """Runs an example on two ranks."""

    def run(name: str, *options: str) -> Example:
        capfd.readouterr()
        command = [ROOT / f"examples/sok/{name}.py", "--steps", str(STEPS), *options]
        assert launch(*command, "--save", tmp_path / "ranks.npz") == 0
        return Example(json.loads(capfd.readouterr().out), read_weights(tmp_path / "ranks.npz"))

    return run


def read_weights(file: Path) -> dict[str, Any]:
    with np.load(file) as saved:
        return dict(saved)


def assert_same(found: Example, expected: Example, *, weights_atol: float) -> None:
    """The losses of all steps, the decisions, and the weights after the last step."""
    assert len(found.printed["losses"]) == STEPS
    np.testing.assert_allclose(found.printed["losses"], expected.printed["losses"], rtol=1e-6)
    for name in ("skipped", "loss_scale"):
        assert found.printed[name] == expected.printed[name]
    assert set(found.weights) == set(expected.weights) == {"table", "kernel", "bias"}
    for name, values in found.weights.items():
        np.testing.assert_allclose(values, expected.weights[name], rtol=1e-5, atol=weights_atol)


@pytest.mark.parametrize("name", ["amp_tf2", "amp_tf1"])
def test_in_float32_a_published_loop_computes_the_same_on_two_ranks(
    name, on_two_ranks, alone, tmp_path
):
    weights = tmp_path / "alone.npz"
    options = ["--dtype", "float32", "--save", weights]
    printed = alone(f"examples/sok/{name}.py", "--steps", str(STEPS), *options)
    expected = Example(json.loads(printed), read_weights(weights))
    found = on_two_ranks(name, "--dtype", "float32")
    assert (expected.printed["ranks"], found.printed["ranks"]) == (1, 2)
    assert found.printed["skipped"] == 0
    # One process adds up the batch in another order. Where a gradient is small, Adam turns the
    # difference into a part of its step of 0.1: here a thousandth of one step is allowed.
    assert_same(found, expected, weights_atol=1e-4)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("name", ["amp_tf2", "amp_tf1"])
def test_a_published_loop_computes_what_one_process_accumulates(
    *, name, dtype, on_two_ranks, alone, tmp_path
):
    """In float16 in TF 2, where the scale is dynamic, the first steps overflow."""
    weights = tmp_path / "alone.npz"
    printed = alone(
        "-m", "tests.ampcore.compat.accumulated_loops", name, str(STEPS), weights, dtype
    )
    expected = Example(json.loads(printed), read_weights(weights))
    is_dynamic = name == "amp_tf2"
    scale = ["--initial-scale", str(LARGE_SCALE)] if is_dynamic else []
    found = on_two_ranks(name, "--dtype", dtype, *scale)
    assert found.printed["ranks"] == 2
    assert (0 < found.printed["skipped"] < STEPS) == (is_dynamic and dtype == "float16")
    assert_same(found, expected, weights_atol=1e-5)


def test_a_distributed_tape_trains_two_ranks_as_one_process(launch, alone, tmp_path):
    single, ranks = tmp_path / "single", tmp_path / "ranks"
    single.mkdir()
    ranks.mkdir()
    alone(TAPE, single)
    assert launch(TAPE, ranks) == 0
    files = [single / "0.json", ranks / "0.json", ranks / "1.json"]
    expected, *reports = [json.loads(file.read_text()) for file in files]
    assert [step["skipped"] for step in expected["steps"]] == [0, 0, 1, 1]
    assert [step["scale"] for step in expected["steps"]] == [8, 8, 4, 4]
    for report in reports:
        assert report["size"] == 2
        # In the one trace: the dense gradient, the sparse one, and the flag; nothing twice.
        assert report["calls"] == ["all_reduce", "all_gather", "all_reduce"]
        for step, single_step in zip(report["steps"], expected["steps"], strict=True):
            assert (step["scale"], step["skipped"]) == (
                single_step["scale"],
                single_step["skipped"],
            )
            for values, expected_values in zip(step["values"], single_step["values"], strict=True):
                np.testing.assert_allclose(values, expected_values, rtol=1e-6)
