"""Confine a trainer: own folder, own user, no access to other processes, resource limits.

Standard library only: it runs between the fork of a trainer and its first line of TensorFlow.
"""

from infra.isolation.confine import (
    TEMP_FOLDER,
    Confinement,
    confine,
    hide_memory,
    kill_all_processes_of,
)
from infra.isolation.files import imported_files

__all__ = [
    "TEMP_FOLDER",
    "Confinement",
    "confine",
    "hide_memory",
    "imported_files",
    "kill_all_processes_of",
]
