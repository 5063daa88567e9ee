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

from ampcore.series.frames import Frame, FrameType
from store.ingest import LogChunk
from tests.processes import has_ended
from tests.waiting import DEADLINE_S
from tests.worker.conftest import fork_servers, program, scripted_trainers
from worker.fork_server import ForkServer, environment
from worker.guard import Guard
from worker.standby import Standby
from worker.supervisor import TrainerProcess

JOB = {"attempt": 1, "output_dir": "none", "resume": False}

Make = Callable[..., TrainerProcess]


@pytest.fixture
def make() -> Iterator[Make]:
    guard, servers, made = Guard(), [], []

    def start(*command: str) -> TrainerProcess:
        servers.append(ForkServer(command, guard))
        made.append(TrainerProcess(servers[-1], guard))
        return made[-1]

    yield start
    for process in made:
        process.end(grace_s=0)
    for server in servers:
        server.close()
    guard.close()


def forked(body: str) -> tuple[str, ...]:
    """A fork server whose trainers do this."""
    text = textwrap.dedent(body)
    train = f"def train(frames, is_standby):\n{textwrap.indent(text, '    ')}\n    return 0\n"
    imports = "import os, signal, sys, time\nfrom ampcore import fork_server\n"
    code = f"{imports}{train}fork_server.serve(int(sys.argv[2]), train)"
    return (sys.executable, "-u", "-c", code)


def heard(process: TrainerProcess) -> list[Frame]:
    frames: list[Frame] = []
    while process.tells_more:
        frames += process.hear(timeout_s=DEADLINE_S)
    return frames + process.end(grace_s=DEADLINE_S)


def test_secrets_stay_out_of_the_trainers_environment() -> None:
    inherited = {
        "PATH": "/bin",
        "CUDA_VISIBLE_DEVICES": "0",
        "AMPCORE_DATABASE_URL": "postgresql://secret",
        "AMPCORE_TOKEN": "secret",
        "AWS_SECRET_ACCESS_KEY": "secret",
    }
    assert environment(inherited) == {"PATH": "/bin", "CUDA_VISIBLE_DEVICES": "0"}


def test_frames_end_with_the_process(make: Make) -> None:
    process = make(*program("crash"))
    process.assign(JOB)
    assert [frame.type for frame in heard(process)] == [
        FrameType.READY,
        FrameType.RUNNING,
        FrameType.EVENT,
        FrameType.STEPS,
    ]
    assert process.exit_code == 3


def test_what_it_prints_is_heard_beside_the_frames(make: Make) -> None:
    process = make(*program("crash"))
    process.assign(JOB)
    heard(process)
    assert process.printed.take(now=True) == [
        LogChunk("stdout", "ready for crash\nthe last words\n")
    ]


def test_a_frame_that_does_not_come_in_time_is_not_waited_for(make: Make) -> None:
    process = make(*program("good"))
    while process.ready is None:
        process.hear(timeout_s=DEADLINE_S)
    assert process.ready["hardware"] == {"device": "script"}
    assert process.hear(timeout_s=0.05) == []


def test_frames_that_nobody_has_heard_are_there_at_the_end(make: Make) -> None:
    process = make(*program("killed"))
    process.assign(JOB)
    late = process.end(grace_s=DEADLINE_S)
    assert late[-1].type is FrameType.STEPS
    assert process.exit_code == -signal.SIGKILL
    assert process.end(grace_s=DEADLINE_S) == []


def test_a_spec_of_any_size_is_handed_over_without_waiting(
    make: Make, wait_until: Callable[..., Any]
) -> None:
    process = make(*forked("time.sleep(60)"))
    wait_until(lambda: process.is_alive and process.pid)
    process.assign({"labels": "x" * 900_000})
    assert process.is_alive


def test_a_user_whose_pipes_may_not_grow_any_more_can_train_all_the_same(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Linux answers a user who is not root, from about his twentieth trainer on."""

    def refuse(_file: Any, command: int, *_: Any) -> int:
        assert command == fcntl.F_SETPIPE_SZ
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr("fcntl.fcntl", refuse)
    process = make(*program("crash"))
    process.assign(JOB)
    assert heard(process)[0].type is FrameType.READY


HOLDS_THE_PIPES = """
if os.fork() == 0:
    os.setsid()
    print(os.getpid(), flush=True)
    time.sleep(600)
"""


def test_pipes_that_somebody_else_holds_open_are_left_alone(make: Make) -> None:
    process = make(*forked(HOLDS_THE_PIPES))
    while process.tells_more:
        process.hear(timeout_s=0.1)
    process.end(grace_s=DEADLINE_S)
    holder = psutil.Process(int(process.printed.last_line()))
    assert holder.is_running(), "its end was waited for"
    holder.kill()


def test_a_process_that_cannot_be_started_leaves_no_pipe() -> None:
    before = open_pipes()
    guard = Guard()
    server = ForkServer(["/no/such/program"], guard)
    with pytest.raises(FileNotFoundError):
        TrainerProcess(server, guard)
    server.close()
    guard.close()
    assert open_pipes() <= before


def open_pipes() -> set[str]:
    """The pipes and sockets of this process, also those of tests before that close them by now."""
    found = set()
    for number in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # closed in between
            found.add(os.readlink(f"/proc/self/fd/{number}"))
    return {name for name in found if name.startswith(("pipe:", "socket:"))}


@pytest.fixture
def standby() -> Iterator[Standby]:
    standby = Standby(program("good"))
    yield standby
    standby.close()


def test_a_prepared_process_is_given_out_once(
    standby: Standby, wait_until: Callable[..., Any]
) -> None:
    standby.prepare()
    standby.prepare()
    taken = [standby.take(), standby.take()]
    wait_until(lambda: all(process.is_alive and process.pid for process in taken))
    assert taken[0].pid != taken[1].pid
    for process in taken:
        process.end(grace_s=0)


def test_a_standby_that_died_is_replaced(standby: Standby, wait_until: Callable[..., Any]) -> None:
    standby.prepare()
    (first,) = wait_until(scripted_trainers)
    first.kill()
    wait_until(lambda: has_ended(first))
    second = standby.take()
    assert second.is_alive
    second.end(grace_s=0)


def test_a_standby_reports_the_hardware_it_has_found(
    standby: Standby, wait_until: Callable[..., None]
) -> None:
    assert standby.hardware() is None
    standby.prepare()
    wait_until(lambda: standby.hardware() == {"device": "script"})


def test_what_a_standby_prints_belongs_to_the_job_that_gets_it(
    standby: Standby, wait_until: Callable[..., None]
) -> None:
    standby.prepare()
    wait_until(lambda: standby.hardware() is not None)
    process = standby.take()
    wait_until(lambda: process.hear(0) or process.printed.last_line())
    assert process.printed.last_line() == "ready for good"
    process.end(grace_s=0)


def test_a_standby_that_cannot_start_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    standby = Standby(["/no/such/program"])
    standby.prepare()
    with pytest.raises(FileNotFoundError):
        standby.take()
    standby.close()
    assert "no trainer can stand by" in caplog.text


def test_closing_leaves_no_process_and_lets_none_come(standby: Standby) -> None:
    standby.prepare()
    standby.close()
    standby.prepare()
    assert fork_servers() == []
