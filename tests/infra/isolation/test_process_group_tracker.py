import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from infra.isolation.process_group_tracker import ProcessGroupTracker, kill_groups_at_eof
from tests.processes import command_of, has_ended, is_gone

PARENT = """
import subprocess, sys, time
from infra.isolation.process_group_tracker import ProcessGroupTracker
tracker = ProcessGroupTracker()
def start():
    sleep = [sys.executable, "-c", "import time; time.sleep(120)"]
    process = subprocess.Popen(sleep, start_new_session=True)
    tracker.register(process.pid)
    return process.pid
kept, released = start(), start()
tracker.unregister(released)
print(kept, released, flush=True)
time.sleep(120)
"""


def trackers() -> list[psutil.Process]:
    return [child for child in psutil.Process().children() if "tracker.py" in command_of(child)]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_registered_groups_die_with_their_parent(
    number: signal.Signals, wait_until: Callable[..., Any]
) -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        kept, released = map(int, parent.stdout.readline().split())
        process = psutil.Process(kept)
        parent.send_signal(number)
    wait_until(lambda: has_ended(process))
    assert not is_gone(released)
    os.kill(released, signal.SIGKILL)


def test_the_child_starts_with_the_first_registration() -> None:
    tracker = ProcessGroupTracker()
    tracker.unregister(1)
    tracker.close()
    assert not trackers()


def test_a_group_that_has_ended_is_no_error() -> None:
    with subprocess.Popen([sys.executable, "-c", ""], start_new_session=True) as gone:
        gone.wait()
    kill_groups_at_eof([f"+{gone.pid}\n", f"+{gone.pid}\n"])


def test_a_killed_tracker_is_no_error(wait_until: Callable[..., Any]) -> None:
    tracker = ProcessGroupTracker()
    tracker.register(2**22)
    (process,) = wait_until(trackers)  # its command line shows a moment after exec
    process.kill()
    wait_until(lambda: has_ended(process))
    tracker.register(2**22 - 1)
    tracker.close()


def test_the_script_needs_the_standard_library_only(tmp_path: Path) -> None:
    from infra.isolation import process_group_tracker

    program = [*process_group_tracker.PROGRAM[:-1], str(process_group_tracker.PROGRAM[-1])]
    done = subprocess.run(program, input=b"", cwd=tmp_path, check=False, capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")
