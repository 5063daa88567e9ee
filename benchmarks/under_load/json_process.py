"""Processes that exchange lines of JSON over stdin and stdout; they exit when stdin closes."""

import json
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from compare import BENCHMARKS

STOP_S = 60.0


class JsonProcess:
    """A running module of the benchmarks, with its stdin and stdout."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process
        self.pid = process.pid

    @classmethod
    @contextmanager
    def with_module(
        cls, python: str | Path, arguments: list[str], environment: Mapping[str, str] | None = None
    ) -> Iterator[Self]:
        """Start `python -m <arguments>`; it exits when its stdin is closed."""
        process = subprocess.Popen(
            [str(python), "-m", *arguments],
            cwd=BENCHMARKS,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            yield cls(process)
        finally:
            # Killed, it could leave processes of its own behind.
            process.communicate(timeout=STOP_S)

    def call(self, do: str, **about: Any) -> Any:
        """Send a command; returns its answer."""
        self.send({"do": do, **about})
        return self.receive()

    def send(self, command: Any) -> None:
        """Write one line."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()

    def receive(self) -> Any:
        """Wait for the next line."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self._process.args} ended with {self._process.wait()}")
        return json.loads(line)
