"""Runs a program on several ranks; each writes what it has seen as JSON, and its arrays."""

import json
import os
from pathlib import Path

import numpy as np

from ampcore.distributed.launcher import Launch, launch_ranks
from tests.waiting import DEADLINE_S

ROOT = Path(__file__).parents[3]


def run_program(python, program, folder, *arguments, ranks=2):
    """Run a module as a program whose first argument is the folder.

    Returns:
        What each rank has seen.
    """
    command = [str(python), program.__file__, str(folder), *arguments]
    environ = {"PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    with (folder / "stderr").open("w+") as stderr:
        code = launch_ranks(Launch(command, ranks, timeout_s=DEADLINE_S, environ=environ), stderr)
        stderr.seek(0)
        assert (folder / "rank-0.json").exists(), (code, stderr.read())
    return [json.loads((folder / f"rank-{rank}.json").read_text()) for rank in range(ranks)]


def parts_for(request):
    """The further arguments of a program for the tests of a module that were selected."""
    tests = [item for item in request.session.items if item.path == request.path]
    is_whole = any(item.get_closest_marker("slow") for item in tests)
    return () if is_whole else ("promises",)


def arrays_of(folder, name, ranks=2):
    """The arrays that each rank has written under a name."""
    return [dict(np.load(folder / f"{name}-{rank}.npz")) for rank in range(ranks)]
