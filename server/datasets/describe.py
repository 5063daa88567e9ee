"""Describe an uploaded file in a child process: the server itself never parses it."""

import json
import logging
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, field_validator

from ampspec.data.file_formats import FormatOptions
from ampspec.telemetry.json_values import json_safe
from store.files.datasets import DESCRIBED, INVALID, UNDESCRIBED, Description

log = logging.getLogger(__name__)

PROGRAM: Final = (sys.executable, "-I", "-m", "server.child.inspect_upload")
"""Isolated mode: neither environment variables nor the current folder select what is imported."""
TIMEOUT_S: Final = 60.0
FORMAT_OPTIONS: Final[TypeAdapter[FormatOptions]] = TypeAdapter(FormatOptions)
MAX_OUTPUT_BYTES: Final = 2 * 2**20
ENVIRONMENT: Final = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "LC_ALL": "C.UTF-8"}
"""All that the child sees of the environment: the server's own contains passwords."""


class _Preview(BaseModel):
    """Rows by column name, and PNG files in base64."""

    model_config = ConfigDict(extra="ignore", strict=True)

    rows: list[dict[str, Any]]
    pictures: list[str]


class _DescriptionOutput(BaseModel):
    """What the child prints. Nothing in it is trusted."""

    model_config = ConfigDict(extra="ignore", strict=True)

    state: str = Field(pattern=f"^({DESCRIBED}|{UNDESCRIBED}|{INVALID})$")
    message: str | None = None
    kind: str | None = Field(None, max_length=32)
    rows: int | None = Field(None, ge=0, le=2**62)
    options: dict[str, Any] | None = None
    splits: dict[str, int] | None = None
    left_out: list[dict[str, str]] | None = None
    columns: list[dict[str, Any]] | None = None
    preview: _Preview | None = None

    @field_validator("options")
    @classmethod
    def _check_options(cls, options: dict[str, Any] | None) -> dict[str, Any] | None:
        if options is None:
            return None
        return FORMAT_OPTIONS.validate_python(options).model_dump(mode="json")


def describe(
    file: Path, *, program: tuple[str, ...] = PROGRAM, timeout_s: float = TIMEOUT_S
) -> Description:
    """The description of a file; without content if the child fails or takes too long.

    The child writes converted data into a folder beside the file, which is removed.

    Raises OSError if the folder cannot be created, or the child cannot be started.
    """
    with tempfile.TemporaryDirectory(dir=file.parent, prefix="describe-") as cache:
        output, exit_code = run_program((*program, str(file), cache), timeout_s)
    if output is None:
        return Description(message=f"The file could not be described within {timeout_s:g} s.")
    try:
        description = _DescriptionOutput.model_validate(json_safe(json.loads(output)))
    except (ValueError, RecursionError) as error:
        kind = "invalid output" if isinstance(error, ValidationError) else "no JSON"
        log.warning("describing a dataset failed: %s, exit code %s", kind, exit_code)
        return Description(message="The program that describes files failed on this file.")
    return Description(**description.model_dump())


def run_program(command: tuple[str, ...], timeout_s: float) -> tuple[bytes | None, int]:
    """The output of a program and its exit code; no output if it was killed after the timeout.

    Processes that it has started may keep the output open: they are killed, too, and nothing waits
    for one that has left the process group.
    """
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
    with process:
        try:
            assert process.stdout is not None  # noqa: S101 - it is a pipe
            output = _read(process.stdout.fileno(), time.monotonic() + timeout_s)
        finally:  # it has closed its output, printed too much, or is late
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    return output, process.returncode


def _read(pipe: int, deadline: float) -> bytes | None:
    """What a pipe contains, up to one byte too many; None if it is still open at the deadline."""
    output = b""
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        while len(output) <= MAX_OUTPUT_BYTES:
            if not selector.select(max(0.0, deadline - time.monotonic())):
                return None
            piece = os.read(pipe, MAX_OUTPUT_BYTES + 1 - len(output))
            if not piece:
                break
            output += piece
    return output
