"""Confine a trainer: own folder, own user, no other process, bounded memory and processes.

Standard library only: it runs between the fork of a trainer and its first line of TensorFlow.
"""

from ampcore.isolation.confine import (
    TEMPORARY,
    Confinement,
    confine,
    end_all_of,
    hide_memory,
)
from ampcore.isolation.files import imported_files

__all__ = [
    "TEMPORARY",
    "Confinement",
    "confine",
    "end_all_of",
    "hide_memory",
    "imported_files",
]
