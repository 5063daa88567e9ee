import errno
import fcntl
import os
import signal
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import psutil
import pytest

from ampspec.telemetry.frames import Frame, FrameType
from infra.isolation.process_group_tracker import ProcessGroupTracker
from store.telemetry.ingest import LogChunk
from tests.processes import has_ended
from tests.waiting import DEADLINE_S
from tests.worker.conftest import fork_servers, program, scripted_trainers
from worker.trainer.fork_server import ForkServer, trainer_environment
from worker.trainer.standby import Standby
from worker.trainer.trainer_process import TrainerProcess

JOB = {"attempt": 1, "output_dir": "none", "resume": False}

Make = Callable[..., TrainerProcess]


@pytest.fixture
def make() -> Iterator[Make]:
    tracker, servers, processes = ProcessGroupTracker(), [], []

    def start(*command: str) -> TrainerProcess:
        servers.append(ForkServer(command, tracker))
        processes.append(TrainerProcess(servers[-1], tracker))
        return processes[-1]

    yield start
    for process in processes:
        process.end(grace_s=0)
    for server in servers:
        server.close()
    tracker.close()


def forked(body: str) -> tuple[str, ...]:
    """A fork server whose trainers do this."""
    text = textwrap.dedent(body)
    train = f"def train(frames, is_standby):\n{textwrap.indent(text, '    ')}\n    return 0\n"
    imports = "import os, signal, sys, time\nfrom worker.trainer.child import fork_server\n"
    code = f"{imports}{train}fork_server.serve(int(sys.argv[2]), train)"
    return (sys.executable, "-u", "-c", code)


def all_frames(process: TrainerProcess) -> list[Frame]:
    frames: list[Frame] = []
    while process.has_more_frames:
        frames += process.read_frames(timeout_s=DEADLINE_S)
    return frames + process.end(grace_s=DEADLINE_S)


def test_the_trainers_environment_is_an_allow_list() -> None:
    inherited = {
        "PATH": "/bin",
        "CUDA_VISIBLE_DEVICES": "0",
        "AMPCORE_DATABASE_URL": "postgresql://secret",
        "AMPCORE_TOKEN": "secret",
        "AWS_SECRET_ACCESS_KEY": "secret",
    }
    assert trainer_environment(inherited) == {"PATH": "/bin", "CUDA_VISIBLE_DEVICES": "0"}


def test_frames_end_with_the_process(make: Make) -> None:
    process = make(*program("crash"))
    process.assign(JOB)
    assert [frame.type for frame in all_frames(process)] == [
        FrameType.READY,
        FrameType.RUNNING,
        FrameType.EVENT,
        FrameType.STEPS,
    ]
    assert process.exit_code == 3


def test_log_output_is_captured_beside_the_frames(make: Make) -> None:
    process = make(*program("crash"))
    process.assign(JOB)
    all_frames(process)
    assert process.log_capture.take(now=True) == [
        LogChunk("stdout", "ready for crash\nthe last words\n")
    ]


def test_read_frames_returns_after_its_timeout(make: Make) -> None:
    process = make(*program("good"))
    while process.ready is None:
        process.read_frames(timeout_s=DEADLINE_S)
    assert process.ready["hardware"] == {"device": "script"}
    assert process.read_frames(timeout_s=0.05) == []


def test_end_returns_unread_frames(make: Make) -> None:
    process = make(*program("killed"))
    process.assign(JOB)
    remaining_frames = process.end(grace_s=DEADLINE_S)
    assert remaining_frames[-1].type is FrameType.STEPS
    assert process.exit_code == -signal.SIGKILL
    assert process.end(grace_s=DEADLINE_S) == []


def test_a_large_spec_is_sent_without_blocking(make: Make, wait_until: Callable[..., Any]) -> None:
    process = make(*forked("time.sleep(60)"))
    wait_until(lambda: process.is_alive and process.pid)
    process.assign({"labels": "x" * 900_000})
    assert process.is_alive


def test_a_pipe_that_cannot_be_enlarged_is_no_error(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Linux refuses it to users other than root, from about the twentieth trainer on."""

    def refuse(_file: Any, command: int, *_: Any) -> int:
        assert command == fcntl.F_SETPIPE_SZ
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr("fcntl.fcntl", refuse)
    process = make(*program("crash"))
    process.assign(JOB)
    assert all_frames(process)[0].type is FrameType.READY


HOLDS_THE_PIPES = """
if os.fork() == 0:
    os.setsid()
    print(os.getpid(), flush=True)
    time.sleep(600)
"""


def test_pipes_held_open_by_an_orphan_are_not_waited_for(make: Make) -> None:
    process = make(*forked(HOLDS_THE_PIPES))
    while process.has_more_frames:
        process.read_frames(timeout_s=0.1)
    process.end(grace_s=DEADLINE_S)
    holder = psutil.Process(int(process.log_capture.last_line()))
    assert holder.is_running(), "the end of the orphan was waited for"
    holder.kill()


def test_a_failed_start_leaves_no_pipe() -> None:
    pipes = open_pipes()
    tracker = ProcessGroupTracker()
    server = ForkServer(["/no/such/program"], tracker)
    with pytest.raises(FileNotFoundError):
        TrainerProcess(server, tracker)
    server.close()
    tracker.close()
    assert open_pipes() <= pipes


def open_pipes() -> set[str]:
    """The pipes and sockets of this process, also those that earlier tests are still closing."""
    targets = set()
    for number in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # closed in between
            targets.add(os.readlink(f"/proc/self/fd/{number}"))
    return {name for name in targets if name.startswith(("pipe:", "socket:"))}


@pytest.fixture
def standby() -> Iterator[Standby]:
    standby = Standby(program("good"))
    yield standby
    standby.close()


def test_a_standby_process_is_taken_once(standby: Standby, wait_until: Callable[..., Any]) -> None:
    standby.prepare()
    standby.prepare()
    taken = [standby.take(), standby.take()]
    wait_until(lambda: all(process.is_alive and process.pid for process in taken))
    assert taken[0].pid != taken[1].pid
    for process in taken:
        process.end(grace_s=0)


def test_a_dead_standby_is_replaced(standby: Standby, wait_until: Callable[..., Any]) -> None:
    standby.prepare()
    (first,) = wait_until(scripted_trainers)
    first.kill()
    wait_until(lambda: has_ended(first))
    second = standby.take()
    assert second.is_alive
    second.end(grace_s=0)


def test_a_standby_reports_the_hardware(standby: Standby, wait_until: Callable[..., None]) -> None:
    assert standby.hardware() is None
    standby.prepare()
    wait_until(lambda: standby.hardware() == {"device": "script"})


def test_a_standbys_output_goes_to_the_log_of_its_job(
    standby: Standby, wait_until: Callable[..., None]
) -> None:
    standby.prepare()
    wait_until(lambda: standby.hardware() is not None)
    process = standby.take()
    wait_until(lambda: process.read_frames(0) or process.log_capture.last_line())
    assert process.log_capture.last_line() == "ready for good"
    process.end(grace_s=0)


def test_a_standby_that_cannot_start_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    standby = Standby(["/no/such/program"])
    standby.prepare()
    with pytest.raises(FileNotFoundError):
        standby.take()
    standby.close()
    assert "cannot start a standby trainer process" in caplog.text


def test_a_closed_standby_starts_no_process(standby: Standby) -> None:
    standby.prepare()
    standby.close()
    standby.prepare()
    assert fork_servers() == []
