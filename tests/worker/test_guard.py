import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.processes import command_of, has_ended, is_gone
from worker.guard import Guard, stand_guard

PARENT = """
import subprocess, sys, time
from worker.guard import Guard
guard = Guard()
def start():
    sleep = [sys.executable, "-c", "import time; time.sleep(120)"]
    process = subprocess.Popen(sleep, start_new_session=True)
    guard.watch(process.pid)
    return process.pid
kept, released = start(), start()
guard.release(released)
print(kept, released, flush=True)
time.sleep(120)
"""


def guards() -> list[psutil.Process]:
    return [child for child in psutil.Process().children() if "guard.py" in command_of(child)]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_what_is_watched_dies_with_us_however_we_die(
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


def test_nothing_is_started_before_there_is_something_to_watch() -> None:
    guard = Guard()
    guard.release(1)
    guard.close()
    assert not guards()


def test_a_group_that_is_gone_already_is_no_error() -> None:
    with subprocess.Popen([sys.executable, "-c", ""], start_new_session=True) as gone:
        gone.wait()
    stand_guard([f"+{gone.pid}\n", f"+{gone.pid}\n"])


def test_a_guard_that_was_killed_is_done_without(wait_until: Callable[..., Any]) -> None:
    guard = Guard()
    guard.watch(2**22)
    (process,) = wait_until(guards)  # its command line shows a moment after exec
    process.kill()
    wait_until(lambda: has_ended(process))
    guard.watch(2**22 - 1)
    guard.close()


def test_it_needs_nothing_of_ours(tmp_path: Path) -> None:
    from worker import guard

    program = [*guard.PROGRAM[:-1], str(guard.PROGRAM[-1])]
    done = subprocess.run(program, input=b"", cwd=tmp_path, check=False, capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")
