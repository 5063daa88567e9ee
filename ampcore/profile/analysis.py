"""`python -m ampcore.profile.analysis FOLDER`: turn a recorded trace into a report.

It runs in a process of its own: a trace may be large, and the converter of TensorFlow may abort the
process that calls it (openxla/xprof#1267). The report is written before the converter starts, so
that an abort loses only the trace for Perfetto. TensorFlow itself is not imported.
"""

import gzip
import json
import os
import sys
from pathlib import Path
from typing import Final

from ampcore.profile.operations import ProfileContext
from ampcore.profile.protos import converter
from ampcore.profile.report import build_report
from ampcore.profile.trace import read_trace
from infra.isolation.process_limits import limit_resources

TRACE: Final = "profile.xplane.pb"
"""The trace as TensorFlow's profiler records it, for TensorBoard (XProf)."""
CONTEXT: Final = "context.json"
REPORT: Final = "report.json"
PERFETTO: Final = "trace.json.gz"
"""The trace in the format of Chrome, for ui.perfetto.dev."""

STARTED: Final = "started"
"""What the process prints first: before, it could not be started or import its modules."""

MAX_MEMORY_BYTES: Final = 4 * 2**30
MAX_CPU_S: Final = 600
MAX_FILE_BYTES: Final = 2**30
NICENESS: Final = 10
"""Training has priority."""


def write_report(folder: Path) -> None:
    """Write the report of the trace in a folder.

    Raises:
        ValueError: The trace cannot be read.
    """
    document = json.loads((folder / CONTEXT).read_text(encoding="utf-8"))
    report = build_report(read_trace(folder / TRACE), ProfileContext.from_json(document))
    _replace(folder / REPORT, json.dumps(report).encode())


def write_perfetto_trace(folder: Path) -> None:
    """Convert the trace for Perfetto; leaves no file if the converter rejects it."""
    data, is_valid = converter().xspace_to_tools_data([str(folder / TRACE)], "trace_viewer@", {})
    for file in folder.glob("*.SSTABLE"):
        file.unlink()  # an index that the converter leaves behind
    if is_valid:
        _replace(folder / PERFETTO, gzip.compress(_bytes(data), mtime=0))


def _bytes(data: bytes | str) -> bytes:
    return data.encode() if isinstance(data, str) else data


def _replace(file: Path, data: bytes) -> None:
    """Write a file that is either complete or absent."""
    part = file.with_name(f"{file.name}.part")
    part.write_bytes(data)
    part.replace(file)


def main() -> int:
    """Analyse the folder in the first argument; returns the exit code."""
    folder = Path(sys.argv[1])
    sys.stdout.write(STARTED)
    sys.stdout.flush()
    limit_resources(MAX_MEMORY_BYTES, MAX_CPU_S, MAX_FILE_BYTES)
    os.nice(NICENESS)
    write_report(folder)
    write_perfetto_trace(folder)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
