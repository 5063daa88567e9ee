"""Run `ampctl` against the fake server, over a real socket."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ampclient.cli import main

SPEC = """
name: digits-fp16
model: {kind: cnn, filters: [16, 32]}
data: {kind: digits}
precision: {policy: mixed_float16}
"""


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str

    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def configured(address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The connection file of the fake server, which the environment names."""
    for name in ("AMPCORE_URL", "AMPCORE_TOKEN", "AMPCORE_DATA_DIR"):
        monkeypatch.delenv(name, raising=False)
    path = tmp_path / "connection.json"
    path.write_text(json.dumps({"url": address, "token": "a-secret-token"}))
    monkeypatch.setenv("AMPCORE_CONNECTION", str(path))
    # The user who runs the tests may have a login file.
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    # The tests check the words, independent of the terminal's width.
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("NO_COLOR", "1")
    return path


@pytest.fixture
def ampctl(
    configured: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Result]:
    """Run one command line in this process."""

    def run(*arguments: str) -> Result:
        capsys.readouterr()
        with pytest.raises(SystemExit) as exit_:
            main(arguments)
        captured = capsys.readouterr()
        return Result(int(exit_.value.code or 0), captured.out, captured.err)

    return run


@pytest.fixture
def start_ampctl(configured: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts a command line in its own process."""
    with ExitStack() as started:

        def start(
            *arguments: str, stdout: int = subprocess.PIPE, stderr: int = subprocess.PIPE
        ) -> subprocess.Popen[str]:
            program = "from ampclient.cli import main; main()"
            process = subprocess.Popen(
                [sys.executable, "-c", program, *arguments],
                stdin=subprocess.PIPE,
                stdout=stdout,
                stderr=stderr,
                text=True,
                env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
            )
            started.enter_context(process)
            started.callback(process.kill)  # one that a failed test left
            return process

        yield start


@pytest.fixture
def spec_file(tmp_path: Path) -> str:
    path = tmp_path / "job.yaml"
    path.write_text(SPEC)
    return str(path)
