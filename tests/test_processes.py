"""The helpers of tests/processes.py, also when a process ends between two calls."""

import subprocess
import sys

import psutil
import pytest

from tests.processes import (
    EPHEMERAL_PORT_RANGE,
    children_of,
    command_of,
    free_port,
    has_ended,
    is_gone,
    name_of,
)


@pytest.fixture
def program():
    """A process that runs until it is ended."""
    command = [sys.executable, "-c", "input()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        yield process
        process.kill()


def test_has_ended_holds_before_and_after_the_process_is_reaped(program, wait_until):
    process = psutil.Process(program.pid)
    assert not has_ended(process)
    assert not is_gone(program.pid)
    program.kill()
    wait_until(lambda: has_ended(process))  # it is a zombie
    assert is_gone(program.pid)
    program.wait()
    assert has_ended(process)
    assert is_gone(program.pid)
    assert (name_of(process), command_of(process), children_of(process)) == ("", "", [])


def test_a_process_may_end_between_two_calls(program, monkeypatch):
    """Fails when NoSuchProcess from `status` is not handled."""
    process = psutil.Process(program.pid)
    program.kill()
    program.wait()
    monkeypatch.setattr(process, "is_running", lambda: True)
    assert has_ended(process)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_free_port_is_outside_the_ephemeral_range():
    first_ephemeral = int(EPHEMERAL_PORT_RANGE.read_text().split()[0])
    assert all(free_port() < first_ephemeral for _ in range(20))
