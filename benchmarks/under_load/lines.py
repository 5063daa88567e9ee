"""Processes that are talked with in lines of JSON; they end with their standard input."""

import json
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from contest import BENCHMARKS

STOP_S = 60.0


class Talk:
    """A module of the benchmarks that runs, and what it is told and says."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process
        self.pid = process.pid

    @classmethod
    @contextmanager
    def with_module(
        cls, python: str | Path, arguments: list[str], environment: Mapping[str, str] | None = None
    ) -> Iterator[Self]:
        """Start `python -m <arguments>`, and let it end afterwards by itself."""
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

    def ask(self, do: str, **about: Any) -> Any:
        """A command, and the answer."""
        self.say({"do": do, **about})
        return self.hear()

    def say(self, command: Any) -> None:
        """One line."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()

    def hear(self) -> Any:
        """The next line, once it has come."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self._process.args} ended with {self._process.wait()}")
        return json.loads(line)
