"""A whole embedded stack, started once: `ampserver up` on a temporary folder."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from ampclient import Client
from tests.processes import has_ended, name_of
from tests.waiting import DEADLINE_S, wait_until
from worker.trainer.child.fork_server import TRAINER_NAME

HAS_FAILED = pytest.StashKey[bool]()


@dataclass(frozen=True)
class Terminal:
    """Runs commands in a folder, as a user of a running stack does."""

    folder: Path
    connection: Path
    """The stack's connection file."""
    commands: Path
    """The folder with `python` and `ampctl`."""

    def run(self, program: str | Path, *arguments: str) -> str:
        """Run a program, which must succeed; returns its output."""
        done = subprocess.run(
            [str(program), *arguments],
            cwd=self.folder,
            env={
                **os.environ,
                "AMPCORE_CONNECTION": str(self.connection),
                "KERAS_BACKEND": "tensorflow",
            },
            capture_output=True,
            text=True,
            timeout=2 * DEADLINE_S,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def python(self, script: str | Path, *arguments: str) -> str:
        """Run a Python script."""
        return self.run(self.commands / "python", str(script), *arguments)

    def ampctl(self, *arguments: str) -> str:
        """Run an `ampctl` command."""
        return self.run(self.commands / "ampctl", *arguments)


@dataclass
class Stack:
    """A running `ampserver up` and a client that is signed in."""

    data: Path
    process: subprocess.Popen[bytes]
    client: Client

    def all_processes(self) -> list[psutil.Process]:
        """The stack's processes, the first one included."""
        return [psutil.Process(self.process.pid), *psutil.Process(self.process.pid).children(True)]

    def trainer(self) -> psutil.Process:
        """The trainer process; its process name differs from a standby's."""
        (trainer,) = (
            process for process in self.all_processes() if name_of(process) == TRAINER_NAME
        )
        return trainer

    def stop(self) -> int:
        """Send SIGTERM and wait for the process to end; returns the exit code."""
        self.client.close()
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(DEADLINE_S)


def start_stack(data: Path, port: int = 0, **settings: str) -> Stack:
    """Start `ampserver up` in this folder, on a free port unless one is given."""
    log = data.with_suffix(".log")
    environment = {key: value for key, value in os.environ.items() if "AMPCORE" not in key}
    environment |= settings
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "server", "up", "--data", str(data), "--port", str(port)],
            stdout=output,
            stderr=output,
            env=environment,
        )
    connection = data / "connection.json"
    try:
        wait_until(
            lambda: connection.exists() or process.poll() is not None,
            "the stack has started",
            show=log.read_text,
        )
        assert process.poll() is None, f"the stack did not start:\n{log.read_text()}"
    except AssertionError:
        process.kill()
        raise
    return Stack(data, process, Client.from_file(connection, timeout_s=DEADLINE_S))


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    stack = start_stack(tmp_path_factory.mktemp("stack") / "data")
    all_processes = stack.all_processes()
    yield stack
    all_processes += stack.all_processes()
    assert stack.stop() == 0
    wait_until(lambda: all(map(has_ended, all_processes)), "nothing of the stack is left")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    item.stash[HAS_FAILED] = report.failed
    return report


@pytest.fixture(autouse=True)
def no_job_of_a_failed_test_goes_on(request: pytest.FixtureRequest) -> Iterator[None]:
    """The stack has one worker: a job without an end would fail all later tests as well."""
    yield
    if request.node.stash.get(HAS_FAILED, False) and "stack" in request.fixturenames:
        stack = request.getfixturevalue("stack")
        open_jobs = [job for job in stack.client.jobs.list() if not job.state.is_terminal]
        for job in open_jobs:
            job.cancel()


@pytest.fixture(scope="session")
def start() -> Callable[..., Stack]:
    return start_stack


@pytest.fixture
def terminal(stack: Stack, python_commands: Path, tmp_path: Path) -> Terminal:
    """A terminal in an empty folder."""
    return Terminal(tmp_path, stack.data / "connection.json", python_commands)
