"""Describe uploaded files without a child process of the server."""

import json
from pathlib import Path

import pytest

from ampdata.description import describe
from server.child.inspect_upload import describe_file
from server.datasets.describe import PROGRAM


def describe_in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Describe uploaded files by the same code as the server's child process.

    Starting it takes 0.3 s for each file. tests/server/datasets/test_describe.py tests it.
    """

    def run(command: tuple[str, ...], timeout_s: float) -> tuple[bytes, int]:
        *program, file, cache = command
        assert tuple(program) == PROGRAM
        description = describe_file(Path(file), lambda file: describe(file, cache=Path(cache)))
        return json.dumps(description).encode(), 0

    monkeypatch.setattr("server.datasets.describe.run_program", run)
