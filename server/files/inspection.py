"""Check an uploaded bundle in a child process: the server itself never parses it."""

import json
import sys
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ampspec.api.files import BundledFile
from ampspec.jobs import Problem
from server.datasets.describe import run_program
from server.errors import RequestInvalid, Unavailable

PROGRAM: Final = (sys.executable, "-I", "-m", "ampcore.user_code", "check")
TIMEOUT_S: Final = 60.0


class _InspectionOutput(BaseModel):
    """What the child prints. Nothing in it is trusted."""

    model_config = ConfigDict(extra="forbid")

    files: list[BundledFile] | None = None
    message: str | None = Field(None, max_length=2000)


def inspect_bundle(
    file: Path, *, program: tuple[str, ...] = PROGRAM, timeout_s: float = TIMEOUT_S
) -> list[dict[str, Any]]:
    """The files of a bundle.

    Raises:
        RequestInvalid: It is not a bundle, or cannot be checked in time.
        Unavailable: The program that checks it fails.
    """
    output, exit_code = run_program((*program, str(file)), timeout_s)
    if output is None:
        raise _invalid(f"The bundle could not be checked within {timeout_s:g} s.")
    try:
        inspection = _InspectionOutput.model_validate(json.loads(output))
    except (ValidationError, ValueError, RecursionError):
        message = f"The program that checks bundles failed with exit code {exit_code}; try again."
        raise Unavailable(message) from None
    if inspection.files is None:
        raise _invalid(inspection.message or "The bundle is not valid.")
    return [file.model_dump() for file in inspection.files]


def _invalid(message: str) -> RequestInvalid:
    return RequestInvalid([Problem("/body", "invalid_bundle", "a bundle of code", message)])
