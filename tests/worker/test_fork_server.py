"""The worker's side of the fork server: slow, dead, frozen, unable to start."""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ampspec.jobs import Reason, State
from store.database import Database
from store.jobs import attempts, jobs
from tests.processes import has_ended, name_of
from tests.waiting import DEADLINE_S
from tests.worker.conftest import SCRIPT, Running, Start, fork_servers, program, scripted_trainers
from worker.trainer import fork_server
from worker.trainer.child.fork_server import JOB, REAP, SERVER_NAME, STANDBY, STANDBY_NAME
from worker.trainer.oom_kills import OomKillCounter
from worker.trainer.standby import Standby

Wait = Callable[..., Any]


@pytest.fixture
def database(sqlite_url: str) -> Iterator[Database]:
    """SQLite alone: differences between the databases are tested elsewhere."""
    database = Database(sqlite_url)
    yield database
    database.close()


def slow(gate: Any) -> tuple[str, ...]:
    """The command of a fork server that waits for a file before it loads."""
    code = (
        "import os, runpy, sys, time\n"
        f"while not os.path.exists({str(gate)!r}): time.sleep(0.01)\n"
        f"sys.argv[0] = {str(SCRIPT)!r}\n"
        f"runpy.run_path({str(SCRIPT)!r}, run_name='__main__')\n"
    )
    return (sys.executable, "-u", "-c", code, "saves")


def test_both_sides_define_the_same_requests() -> None:
    assert (fork_server.JOB, fork_server.STANDBY, fork_server.REAP) == (JOB, STANDBY, REAP)


def test_a_job_is_retried_on_a_new_fork_server_after_the_old_one_died(
    start: Start, until_running: Callable[[Running], None], wait_until: Wait
) -> None:
    running = start("saves", runtime={"max_attempts": 2}, memory_events=None)
    until_running(running)
    (server,) = fork_servers()
    trainer = running.process()
    server.kill()
    job = running.ended()
    assert has_ended(trainer)
    with running.database.read() as session:
        (first,) = attempts.listing(session, running.job_id)
    assert (job.state, first.reason) == (State.QUEUED, Reason.PROCESS_KILLED)
    # Restarted without a request: the next job finds a loaded fork server.
    (new,) = wait_until(
        lambda: [process for process in fork_servers() if process.pid != server.pid]
    )
    wait_until(lambda: name_of(new) == SERVER_NAME)


def test_an_oom_kill_of_the_fork_server_is_not_out_of_memory_for_the_job(
    start: Start,
    until_running: Callable[[Running], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(OomKillCounter, "has_increased", lambda _: True)
    running = start("ends_on_sigterm")
    until_running(running)
    fork_servers()[0].kill()
    assert running.ended().reason == Reason.PROCESS_KILLED


def test_a_job_waits_while_the_fork_server_loads(
    start: Start, tmp_path: Any, wait_until: Wait, until_running: Callable[[Running], None]
) -> None:
    running = start("good", standby=Standby(slow(tmp_path / "gate")))
    wait_until(lambda: running.job().state == State.STARTING)
    assert not scripted_trainers()
    (tmp_path / "gate").touch()
    until_running(running)
    running.ask(jobs.request_cancel)
    assert running.ended().state == State.CANCELLED


def test_a_job_cancelled_while_the_fork_server_loads_never_runs(
    start: Start, tmp_path: Any, wait_until: Wait
) -> None:
    running = start("good", standby=Standby(slow(tmp_path / "gate")), grace_s=600.0)
    wait_until(lambda: running.job().state == State.STARTING)
    running.ask(jobs.request_cancel)
    assert running.ended().state == State.CANCELLED
    (tmp_path / "gate").touch()
    assert running.steps() == []
    # The cancelled request leaves no trainer, and the server handles the next request.
    running.context.standby.prepare()
    wait_until(lambda: list(map(name_of, scripted_trainers())) == [STANDBY_NAME])


def test_a_fork_server_that_never_loads_fails_the_attempt(start: Start, tmp_path: Any) -> None:
    job = start("good", standby=Standby(slow(tmp_path / "never")), ready_timeout_s=0.5).ended()
    assert (job.state, job.reason) == (State.FAILED, Reason.INTERNAL_ERROR)
    assert "not ready after 0.5 s" in str(job.message)


def test_a_fork_server_that_cannot_load_gives_the_reason(start: Start) -> None:
    broken = (sys.executable, "-c", "import no_such_module_of_ours")
    running = start("good", standby=Standby(broken))
    job = running.ended()
    assert (job.state, job.reason) == (State.FAILED, Reason.INTERNAL_ERROR)
    assert "No module named 'no_such_module_of_ours'" in str(job.message)
    assert "exited with code 1" in str(job.message)
    assert "no_such_module_of_ours" in running.log("stderr")


def test_a_fork_server_killed_while_a_job_waits_fails_the_attempt(
    start: Start, tmp_path: Any, monkeypatch: pytest.MonkeyPatch, wait_until: Wait
) -> None:
    requested, request_trainer = threading.Event(), fork_server.ForkServerProcess.request_trainer

    def request_and_notify(*arguments: Any) -> None:
        request_trainer(*arguments)
        requested.set()

    monkeypatch.setattr(fork_server.ForkServerProcess, "request_trainer", request_and_notify)
    running = start("good", standby=Standby(slow(tmp_path / "gate")))
    assert requested.wait(DEADLINE_S)
    (server,) = wait_until(fork_servers)  # its command line shows a moment after exec
    server.kill()
    assert running.ended().reason == Reason.PROCESS_KILLED


def test_a_worker_retries_until_the_fork_server_starts(
    tmp_path: Any, wait_until: Wait, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As while its program file is being replaced."""
    monkeypatch.setattr("worker.trainer.fork_server.MAX_RESTART_DELAY_S", 0.05)
    command = tmp_path / SCRIPT.name
    standby = Standby([str(command), "good"])
    standby.prepare()
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -u {SCRIPT} "$@"\n')
    command.chmod(0o755)
    wait_until(
        lambda: [candidate for candidate in fork_servers() if name_of(candidate) == SERVER_NAME]
    )
    process = standby.take()
    wait_until(lambda: process.is_alive and process.pid)
    process.end(grace_s=0)
    standby.close()


def test_a_job_does_not_wait_for_a_standby_that_warms_up(wait_until: Wait) -> None:
    standby = Standby(program("hangs"))
    standby.prepare()
    (warming_up,) = wait_until(scripted_trainers)
    # It is there a moment before the fork server has reported it.
    process = standby._process
    wait_until(lambda: process.is_alive and process.pid == warming_up.pid)

    def taken() -> bool:
        process = standby.take()
        wait_until(lambda: process.is_alive and process.pid)
        is_another = process.pid != warming_up.pid
        process.end(grace_s=0)
        return is_another

    assert taken()
    assert not has_ended(warming_up)
    standby.close()
    assert has_ended(warming_up)


def test_the_peak_memory_of_ended_trainers_is_recorded(start: Start) -> None:
    running = start("good")
    running.ended()
    assert running.context.standby.peak_bytes > 2**20


def test_a_group_is_ended_after_its_fork_server_died(
    start: Start, until_running: Callable[[Running], None], wait_until: Wait
) -> None:
    """`ignores_sigterm` has a child that survives its trainer; the worker must kill it too."""
    running = start("ignores_sigterm")
    until_running(running)
    trainer = running.process()
    (child,) = wait_until(trainer.children)
    fork_servers()[0].kill()
    running.ended()
    wait_until(lambda: has_ended(child))
    wait_until(lambda: is_empty(trainer.pid), "no process is in the group")


def is_empty(group: int) -> bool:
    """Whether the group has no process, zombies included."""
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        return True
    return False


def test_a_frozen_fork_server_does_not_block_a_slot(
    start: Start,
    until_running: Callable[[Running], None],
    monkeypatch: pytest.MonkeyPatch,
    wait_until: Wait,
) -> None:
    monkeypatch.setattr("worker.trainer.trainer_status.REPORT_TIMEOUT_S", 0.2)
    running = start("ends_on_sigterm", grace_s=0.5)  # too short for the report of its exit
    until_running(running)
    (server,) = fork_servers()
    server.suspend()
    running.ask(jobs.request_cancel)
    assert running.ended().state == State.CANCELLED
    wait_until(lambda: [process for process in fork_servers() if process.pid != server.pid])
