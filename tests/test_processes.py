"""What is asked of a process that may end between two questions."""

import subprocess
import sys

import psutil
import pytest

from tests.ports import GIVEN, free_port
from tests.processes import children_of, command_of, has_ended, is_gone, name_of


@pytest.fixture
def program():
    """A process that waits for its end."""
    command = [sys.executable, "-c", "input()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        yield process
        process.kill()


def test_a_process_has_ended_before_and_after_its_parent_asks_how(program, wait_until):
    process = psutil.Process(program.pid)
    assert not has_ended(process)
    assert not is_gone(program.pid)
    program.kill()
    wait_until(lambda: has_ended(process))  # its entry is still there
    assert is_gone(program.pid)
    program.wait()
    assert has_ended(process)
    assert is_gone(program.pid)
    assert (name_of(process), command_of(process), children_of(process)) == ("", "", [])


def test_a_process_may_end_between_two_questions(program, monkeypatch):
    """Fails where its status is asked for as if it were still there."""
    process = psutil.Process(program.pid)
    program.kill()
    program.wait()
    monkeypatch.setattr(process, "is_running", lambda: True)
    assert has_ended(process)


def test_a_free_port_is_none_that_the_system_gives_away():
    if not GIVEN.exists():
        pytest.skip("needs Linux")
    first_given = int(GIVEN.read_text().split()[0])
    assert all(free_port() < first_given for _ in range(20))
