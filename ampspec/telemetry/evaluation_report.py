"""Writes and reads `evaluation.json`: what a trained model gets right and wrong.

docs/reference/evaluation.md describes its fields. Numbers that are not finite are the texts "NaN",
"Infinity" and "-Infinity".
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from ampspec.telemetry.json_values import json_safe

EVALUATION_REPORT_FILE: Final = "evaluation.json"
MAX_REPORT_BYTES: Final = 8 * 2**20
"""Larger files are no such reports."""
VERSION: Final = 1


def write_report(folder: Path, report: Mapping[str, Any]) -> Path:
    """Write the report; returns its file. The folder is created if it does not exist."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / EVALUATION_REPORT_FILE
    partial = file.with_suffix(".partial")
    document = json_safe({"version": VERSION, **report})
    partial.write_text(json.dumps(document, allow_nan=False, ensure_ascii=False), encoding="utf-8")
    return partial.replace(file)


def read_report(content: bytes) -> dict[str, Any]:
    """The report in a file, which may be untrusted.

    Raises:
        ValueError: It is not such a report, or of a later version.
    """
    if len(content) > MAX_REPORT_BYTES:
        raise ValueError(f"Expected at most {MAX_REPORT_BYTES:,} bytes. Received: {len(content):,}")
    report = json.loads(content)
    version = report.get("version") if isinstance(report, dict) else None
    if version != VERSION:
        raise ValueError(f"Expected a report of version {VERSION}. Received: {version!r}")
    return dict(report)
