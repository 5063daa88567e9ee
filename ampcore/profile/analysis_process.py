"""Starts the analysis of a trace in a process of its own, and reads its report."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from ampcore.profile.analysis import CONTEXT, REPORT, STARTED, write_report
from ampcore.profile.operations import ProfileContext
from infra.isolation.files import package_folders

MODULE: Final = "ampcore.profile.analysis"
PROGRAM: Final = """
import importlib.util, runpy, sys
_, ampspec, infra, ampcore, module, *arguments = sys.argv
for name, folder in (("ampspec", ampspec), ("infra", infra), ("ampcore", ampcore)):
    spec = importlib.util.spec_from_file_location(
        name, folder + "/__init__.py", submodule_search_locations=[folder]
    )
    sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sys.modules[name])
sys.argv[1:] = arguments
runpy.run_module(module, run_name="__main__", alter_sys=True)
"""
"""Runs a module of these packages. An isolated trainer may read them, but not the folder around
them, in which Python would look for them."""
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
        self._process = _start(folder)

    @property
    def has_ended(self) -> bool:
        """Whether the report is there, or never will be."""
        return self._process is None or self._process.poll() is not None

    def kill(self) -> None:
        """End it without a report."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()

    def wait(self) -> dict[str, Any]:
        """Wait for its end and return the report.

        A process that ended early may have written the report before. Where no process can be
        started, as in a sandbox, the report is written here, without the trace for Perfetto, whose
        converter may abort the process that calls it.

        Raises:
            ProfileFailed: There is none.
        """
        try:
            return self._read_report(*self._output())
        except (OSError, ValueError) as error:
            raise ProfileFailed(f"the trace could not be analysed: {error}") from None
        finally:
            (self.folder / CONTEXT).unlink(missing_ok=True)

    def _output(self) -> tuple[bytes, bytes]:
        """What the process has printed: STARTED unless it could not start, and its errors."""
        if self._process is None:
            return b"", b""
        try:
            return self._process.communicate(timeout=MAX_WALL_S)
        except subprocess.TimeoutExpired:
            self.kill()
            return STARTED.encode(), f"it took longer than {MAX_WALL_S:g} s".encode()

    def _read_report(self, output: bytes, log: bytes) -> dict[str, Any]:
        if self._process is not None and self._process.returncode:
            sys.stderr.write(log.decode(errors="replace"))
        if STARTED.encode() not in output:
            write_report(self.folder)
        if not (self.folder / REPORT).exists():
            lines = log.decode(errors="replace").strip().splitlines()
            raise ValueError(lines[-1] if lines else "its process ended without a message")
        report: dict[str, Any] = json.loads((self.folder / REPORT).read_bytes())
        return report


def _start(folder: Path) -> subprocess.Popen[bytes] | None:
    """The process; None where no process may be started."""
    folders = map(str, package_folders("ampspec", "infra", "ampcore"))
    try:
        return subprocess.Popen(
            [sys.executable, "-P", "-c", PROGRAM, *folders, MODULE, str(folder)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
    except OSError:
        return None
