"""The example of a custom loop on several ranks runs as the guide says."""

import json
import os
from pathlib import Path

import pytest

from ampcore.distributed.launcher import Launch, launch_ranks
from tests.waiting import DEADLINE_S

ROOT = Path(__file__).parents[2]


@pytest.mark.xdist_group("python_commands")
def test_an_own_loop_trains_on_two_ranks(python_commands, capfd):
    program = ROOT / "examples" / "several-ranks" / "train.py"
    environ = {"PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    command = [str(python_commands / "python"), str(program)]
    code = launch_ranks(Launch(command, 2, timeout_s=DEADLINE_S, environ=environ))
    printed, errors = capfd.readouterr()
    assert code == 0, errors
    one, other = json.loads(printed.splitlines()[-1])
    assert (one["ranks"], one["rank"], other["rank"]) == (2, 0, 1)
    assert one["last_loss"] < one["first_loss"]
    assert 0 < one["skipped"] < 40
    assert one | {"rank": 1} == other
