import logging
import os
import signal
import subprocess
import sys

import psutil
import pytest

from server.embedded.child_process import ChildProcess
from server.embedded.supervisor import SupervisedChild, Supervisor
from tests.processes import has_ended

WAIT = "import signal, sys; print('ready', flush=True); signal.pause()"
STUBBORN = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {WAIT}"


@pytest.fixture
def make_child(tmp_path):
    """Create children that run Python code; they are stopped after the test."""
    made = []

    def make(code, **options):
        number = len(made)
        command = [sys.executable, "-c", code]
        made.append(ChildProcess("it", command, log_file=tmp_path / f"{number}.log", **options))
        return made[-1]

    yield make
    for child in made:
        child.stop(grace_s=0)


def ready(tmp_path, number=0, times=1):
    return lambda: (tmp_path / f"{number}.log").read_text().count("ready") >= times


def test_a_child_has_its_own_session_and_ends_on_sigterm(make_child, tmp_path, wait_until):
    child = make_child(WAIT)
    child.start()
    wait_until(ready(tmp_path))
    assert os.getsid(child.pid) == child.pid != os.getsid(0)
    child.stop(grace_s=20)
    assert (child.running, child.exit_code, child.pid) == (False, -signal.SIGTERM, None)


def test_a_child_that_ignores_sigterm_is_killed(make_child, tmp_path, wait_until):
    child = make_child(STUBBORN)
    child.start()
    wait_until(ready(tmp_path))
    child.stop(grace_s=0.05)
    assert child.exit_code == -signal.SIGKILL


def test_a_child_reads_its_stdin_to_the_end(make_child, tmp_path):
    child = make_child("import sys; print(sys.stdin.read(), 'end')", stdin=b"password")
    child.start()
    assert child.wait() == 0
    assert (tmp_path / "0.log").read_text() == "password end\n"


def test_stopping_a_child_that_does_not_run_does_nothing(make_child):
    child = make_child("pass")
    child.stop(grace_s=1)
    child.start()
    child.wait()
    child.stop(grace_s=1)
    assert child.exit_code == 0


PARENT = """
import sys, signal
from pathlib import Path
from server.embedded.child_process import ChildProcess
from tests.processes import has_ended
child = ChildProcess("it", [sys.executable, "-c", sys.argv[1]], log_file=Path(sys.argv[2]))
child.start()
print(child.pid, flush=True)
signal.pause()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the death signal is Linux's")
def test_a_child_ends_when_its_parent_is_killed(tmp_path, wait_until):
    command = [sys.executable, "-c", PARENT, STUBBORN, str(tmp_path / "0.log")]
    parent = subprocess.Popen(command, stdout=subprocess.PIPE)
    child = psutil.Process(int(parent.stdout.readline()))
    wait_until(ready(tmp_path))
    parent.kill()
    parent.wait()
    parent.stdout.close()
    wait_until(lambda: has_ended(child))


def test_a_child_that_ends_is_restarted(make_child, tmp_path, wait_until, caplog):
    child = make_child(WAIT)
    child.start()
    supervisor = Supervisor([SupervisedChild(child, grace_s=1, delay_s=0.01)])
    supervisor.start()
    wait_until(ready(tmp_path))
    with caplog.at_level(logging.WARNING):
        os.kill(child.pid, signal.SIGKILL)
        wait_until(ready(tmp_path, times=2))
    assert child.running
    assert "it exited (-9)" in caplog.text
    supervisor.stop()
    assert not child.running


def test_on_end_is_called_once_before_a_child_is_restarted(make_child, wait_until):
    running_at_end = []
    child = make_child("pass")
    supervised = SupervisedChild(
        child, grace_s=1, on_end=lambda: running_at_end.append(child.running), delay_s=60
    )
    child.start()
    supervisor = Supervisor([supervised])
    supervisor.start()
    wait_until(lambda: supervised.restart_at is not None and running_at_end)
    supervisor.stop()
    assert running_at_end == [False]


def test_the_restart_delay_of_a_child_that_keeps_ending_grows(make_child, wait_until):
    child = make_child("pass")
    supervised = SupervisedChild(child, grace_s=1, delay_s=0.01)
    child.start()
    supervisor = Supervisor([supervised])
    supervisor.start()
    wait_until(lambda: supervised.delay_s >= 0.04)
    supervisor.stop()


def test_children_are_stopped_in_reverse_order(make_child):
    stopped = []
    children = [make_child("pass") for _ in range(3)]
    for number, child in enumerate(children):
        child.stop = lambda grace_s, number=number: stopped.append(number)
    supervisor = Supervisor([SupervisedChild(child, grace_s=1, delay_s=60) for child in children])
    supervisor.start()
    supervisor.stop()
    assert stopped == [2, 1, 0]


@pytest.mark.parametrize(("code", "starts"), [(0, 1), (3, 2)])
def test_a_drained_worker_is_not_restarted_and_a_failed_one_is(
    make_child, wait_until, caplog, code, starts
):
    child = make_child(f"print('started', flush=True); raise SystemExit({code})")
    ended = []
    supervised = SupervisedChild(
        child, grace_s=1, drains=True, delay_s=0.01, on_end=lambda: ended.append(1)
    )
    supervisor = Supervisor([supervised])
    child.start()
    with caplog.at_level(logging.WARNING):
        supervisor.start()
        wait_until(lambda: len(ended) >= starts)
        supervisor.stop()
    assert ("was drained; it is not restarted" in caplog.text) == (code == 0)
    assert supervised.is_down == (code == 0)
