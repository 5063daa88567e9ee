"""Modules of 0.5 by the names that they had."""

from typing import Final

NEW_NAMES: Final = {
    "ampcore.errors": "ampspec.errors",
    "ampcore.formats": "ampdata",
    "ampcore.formats.description": "ampdata.description",
    "ampcore.packages": "ampcore.plugins",
    "ampcore.spec": "ampspec.jobs",
    "ampcore.spec.file_formats": "ampspec.data.file_formats",
    "ampcore.telemetry": "ampspec.telemetry",
}
