"""Describe an uploaded file in a child process: the server itself never parses it."""

import json
import logging
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ampcore.telemetry.json_values import json_safe
from store.datasets import DESCRIBED, INVALID, UNDESCRIBED, Description

log = logging.getLogger(__name__)

PROGRAM: Final = (sys.executable, "-I", "-m", "ampcore.file_description")
"""Isolated mode: neither environment variables nor the current folder select what is imported."""
TIMEOUT_S: Final = 60.0
MAX_OUTPUT_BYTES: Final = 2 * 2**20
ENVIRONMENT: Final = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "LC_ALL": "C.UTF-8"}
"""All that the child sees of the environment: the server's own contains passwords."""


class _Output(BaseModel):
    """What the child prints. Nothing in it is trusted."""

    model_config = ConfigDict(extra="ignore", strict=True)

    state: str = Field(pattern=f"^({DESCRIBED}|{UNDESCRIBED}|{INVALID})$")
    message: str | None = None
    kind: str | None = Field(None, max_length=32)
    rows: int | None = Field(None, ge=0, le=2**62)
    columns: list[dict[str, Any]] | None = None
    preview: dict[str, Any] | None = None


def describe(
    file: Path, *, program: tuple[str, ...] = PROGRAM, timeout_s: float = TIMEOUT_S
) -> Description:
    """The description of a file; without content if the child fails or takes too long.

    The child writes converted data into a folder beside the file, which is removed.
    """
    with tempfile.TemporaryDirectory(dir=file.parent, prefix="describe-") as cache:
        output, exit_code = _run((*program, str(file), cache), timeout_s)
    if output is None:
        return Description(message=f"The file could not be described within {timeout_s:g} s.")
    try:
        found = _Output.model_validate(json_safe(json.loads(output)))
    except (ValueError, RecursionError) as error:
        kind = "invalid output" if isinstance(error, ValidationError) else "no JSON"
        log.warning("describing a dataset failed: %s, exit code %s", kind, exit_code)
        return Description(message="The program that describes files failed on this file.")
    return Description(**found.model_dump())


def _run(command: tuple[str, ...], timeout_s: float) -> tuple[bytes | None, int]:
    """The output of a program and its exit code; no output if it was killed after the timeout."""
    environment = {name: os.environ[name] for name in ("PATH",) if name in os.environ}
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=ENVIRONMENT | environment,
        cwd="/",
        start_new_session=True,
    )
    is_late = threading.Event()

    def kill() -> None:
        is_late.set()
        process.kill()

    timer = threading.Timer(timeout_s, kill)
    timer.start()
    with process:
        try:
            assert process.stdout is not None  # noqa: S101 - it is a pipe
            output = process.stdout.read(MAX_OUTPUT_BYTES + 1)
        finally:
            timer.cancel()
            process.kill()  # it has closed its output, printed too much, or is late
    return None if is_late.is_set() else output, process.returncode
