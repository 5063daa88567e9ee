"""A trainer of the same user cannot read the memory of server or worker."""

import subprocess
import sys

import pytest

from tests.waiting import DEADLINE_S

RUN = """
import ctypes, runpy, sys
PR_GET_DUMPABLE = 3
dumpable = lambda: ctypes.CDLL(None).prctl(PR_GET_DUMPABLE, 0, 0, 0, 0)
before = dumpable()
module = sys.argv.pop(1)
try:
    runpy.run_module(module, run_name="__main__")
except SystemExit as end:
    print(before, dumpable(), end.code)
"""
"""Run a program; print whether it was dumpable before and after, and its exit code."""


@pytest.mark.parametrize(
    "program",
    [("worker",), ("server", "api"), ("server", "up", "--host", "no such host")],
    ids=lambda program: "-".join(program[:2]),
)
def test_server_and_worker_are_not_dumpable(program, tmp_path):
    """Invalid settings end each program at its start, when it must not be dumpable any more."""
    done = subprocess.run(
        [sys.executable, "-c", RUN, *program],
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "AMPCORE_PORT": "none"},
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    dumpable_at_start, dumpable_at_end, code = done.stdout.split()
    assert (dumpable_at_start, dumpable_at_end) == ("1", "0"), done.stderr
    assert code != "0"
