"""Descriptions from a child process that may fail in any way."""

import os
import signal
import sys
from contextlib import suppress

import pytest

from server.datasets.describe import MAX_OUTPUT_BYTES, describe
from tests.processes import is_gone
from tests.tables import every_row
from tests.waiting import DEADLINE_S, wait_until

FULL = {
    "state": "described",
    "kind": "npz",
    "rows": 3,
    "options": {"kind": "npz", "x": None, "y": "label"},
    "splits": {"train": 2, "test": 1},
    "left_out": [{"name": "README.md", "reason": "no image"}],
    "columns": [{"name": "x", "shape": [2], "dtype": "float32"}],
    "preview": {"rows": [{"x": [1, 2]}], "pictures": []},
}


@pytest.fixture
def run(tmp_path):
    """Describe a file with a program that is Python code."""
    (tmp_path / "file").write_bytes(b"content")

    def run(code, timeout_s=DEADLINE_S):
        program = (sys.executable, "-I", "-c", f"import json, os, sys\n{code}")
        return describe(tmp_path / "file", program=program, timeout_s=timeout_s)

    return run


def test_the_output_of_the_program_is_the_description(run):
    found = run(f"print(json.dumps({FULL}))")
    assert vars(found) == {**FULL, "message": None}


def test_the_program_gets_the_path_and_no_secret(run, monkeypatch):
    monkeypatch.setenv("AMPCORE_DATABASE_URL", "postgresql://u:hush@h/d")
    code = (
        "seen = open(sys.argv[1]).read() + ' ' + str('AMPCORE_DATABASE_URL' in os.environ)\n"
        "print(json.dumps({'state': 'invalid', 'message': seen}))"
    )
    assert run(code).message == "content False"


@every_row(
    "code",
    [
        "",
        "print('no JSON')",
        "print('[' * 100000)",
        'print(\'{"state": "other"}\')',
        'print(\'{"state": "described", "rows": -1}\')',
        'print(\'{"state": "described", "preview": {"rows": [[1]], "pictures": []}}\')',
        'print(\'{"state": "described", "options": {"kind": "npz", "x": 3}}\')',
        "os.kill(os.getpid(), 9)",
        f"sys.stdout.write('x' * {MAX_OUTPUT_BYTES * 4})",
    ],
)
def test_a_program_that_fails_leaves_the_file_undescribed(run, code):
    found = run(code)
    assert (found.state, found.columns) == ("undescribed", None)
    assert "failed on this file" in found.message


def test_a_program_that_hangs_is_killed(run):
    found = run("os.kill(os.getpid(), 19)", 0.01)  # SIGSTOP
    assert found.state == "undescribed"
    assert "within 0.01 s" in found.message


def start_child(code="pass"):
    """Code that starts a process, which keeps the output open and stops itself."""
    return f"""
import pathlib, signal
if (child := os.fork()) == 0:
    {code}
    pathlib.Path(sys.argv[1]).with_name("child").write_text(str(os.getpid()))
    os.kill(os.getpid(), signal.SIGSTOP)
os.waitpid(child, os.WUNTRACED)
"""


@pytest.fixture
def child_of(tmp_path):
    """The id of the process that the program has started; it is killed after the test."""
    yield lambda: int((tmp_path / "child").read_text())
    with suppress(FileNotFoundError, ProcessLookupError):
        os.kill(int((tmp_path / "child").read_text()), signal.SIGKILL)


def test_a_process_that_the_program_has_started_is_killed_with_it(run, child_of):
    flood = f"sys.stdout.write('x' * {MAX_OUTPUT_BYTES * 4})"
    assert "failed on this file" in run(start_child() + flood).message
    wait_until(lambda: is_gone(child_of()), "the process is killed")


@pytest.mark.usefixtures("child_of")
def test_a_process_that_has_left_its_group_is_not_waited_for(run):
    assert "within 0.5 s" in run(start_child("os.setsid()"), 0.5).message


def test_text_that_no_database_stores_is_replaced(run):
    found = run(r"""print('{"state": "invalid", "message": "a\\u0000b\\ud800"}')""")
    assert found.message == "a\N{REPLACEMENT CHARACTER}b?"


def test_the_real_program_describes_a_table(tmp_path):
    (tmp_path / "a.csv").write_text("a,b\n1,2\n3,4\n")
    found = describe(tmp_path / "a.csv")
    assert (found.state, found.kind, found.rows) == ("described", "csv", 2), found.message
