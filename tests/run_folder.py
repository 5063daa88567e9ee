"""The folder of a test run: all temporary files are in it, and all processes inherit its path."""

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import psutil
import pytest

from tests import cleanup, waiting
from tests.processes import command_of


class RunFolder:
    """A plugin of the process that starts the others: nothing is left when pytest has ended."""

    def __init__(self, config: pytest.Config) -> None:
        # A short name, because paths of sockets are limited; trainers of other users enter it.
        self.path: Final = Path(tempfile.mkdtemp(prefix="ampcore-tests-"))
        self.path.chmod(0o755)
        (self.path / cleanup.NAMESPACES).mkdir()
        self._cleanup = subprocess.Popen(
            [sys.executable, "-I", cleanup.__file__, str(self.path)],
            stdin=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C in the terminal is not for it
            env={key: value for key, value in os.environ.items() if key != cleanup.RUN_FOLDER},
        )
        os.environ[cleanup.RUN_FOLDER] = os.environ["TMPDIR"] = str(self.path)
        tempfile.tempdir = None  # read TMPDIR again
        config.option.basetemp = config.option.basetemp or self.path / "pytest"

    def pytest_keyboard_interrupt(self) -> None:
        """Find the processes while they have their parents."""
        self._send(cleanup.INTERRUPTED)

    @pytest.hookimpl(wrapper=True, tryfirst=True)  # after all fixtures and test processes
    def pytest_sessionfinish(self, session: pytest.Session) -> Iterator[None]:
        """Fail if a test has left a process; keep the files if a test has failed."""
        yield
        if session.exitstatus != pytest.ExitCode.INTERRUPTED and (left := self._wait_for_end()):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
            commands = [f"{process.pid}: {command_of(process)}" for process in left]
            print("\nThe tests left these processes behind:", *commands, sep="\n  ")
        if session.exitstatus == pytest.ExitCode.TESTS_FAILED:
            print(f"\nThe files of this run are in {self.path}")
            self._send(cleanup.KEEP_FILES)
        self._cleanup.communicate()

    def _wait_for_end(self) -> list[psutil.Process]:
        """The processes of the run that do not end by themselves."""
        with contextlib.suppress(AssertionError):
            waiting.wait_until(lambda: not any(cleanup.processes_of(self.path)))
        return list(cleanup.processes_of(self.path))

    def _send(self, message: bytes) -> None:
        assert self._cleanup.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._cleanup.stdin.write(message)
            self._cleanup.stdin.flush()


@contextlib.contextmanager
def registered_namespace(name: str) -> Iterator[None]:
    """Have a network namespace removed also if the run is killed."""
    file = Path(os.environ[cleanup.RUN_FOLDER]) / cleanup.NAMESPACES / name
    file.touch()
    try:
        yield
    finally:
        file.unlink(missing_ok=True)
