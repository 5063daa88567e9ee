"""Starts the analysis of a trace in a process of its own, and reads its report."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from ampcore.profile.analysis import CONTEXT, REPORT
from ampcore.profile.operations import ProfileContext

MODULE: Final = "ampcore.profile.analysis"
MAX_WALL_S: Final = 900.0
"""Longer than its CPU time allows, unless the machine is busy."""


class ProfileFailed(Exception):
    """There is no report, and why."""


class AnalysisProcess:
    """The process that analyses one trace.

    Args:
        folder: The folder with the trace, where the report is written.
        last_step: The last profiled step.
        context: What is known of the run.

    Raises:
        OSError: The process could not be started.
    """

    def __init__(self, folder: Path, last_step: int, context: ProfileContext) -> None:
        self.folder, self.last_step = folder, last_step
        (folder / CONTEXT).write_text(json.dumps(context.to_json()), encoding="utf-8")
        self._process = subprocess.Popen(
            [sys.executable, "-m", MODULE, str(folder)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )

    @property
    def has_ended(self) -> bool:
        """Whether the report is there, or never will be."""
        return self._process.poll() is not None

    def kill(self) -> None:
        """End it without a report."""
        self._process.kill()
        self._process.communicate()

    def wait(self) -> dict[str, Any]:
        """Wait for its end and return the report.

        A process that ended early may have written the report before.

        Raises:
            ProfileFailed: There is none.
        """
        try:
            _, log = self._process.communicate(timeout=MAX_WALL_S)
        except subprocess.TimeoutExpired:
            self.kill()
            log = b""
        (self.folder / CONTEXT).unlink(missing_ok=True)
        try:
            report: dict[str, Any] = json.loads((self.folder / REPORT).read_bytes())
        except (OSError, ValueError):
            lines = log.decode(errors="replace").strip().splitlines()
            cause = lines[-1] if lines else f"exit code {self._process.returncode}"
            raise ProfileFailed(f"the trace could not be analysed: {cause}") from None
        return report
