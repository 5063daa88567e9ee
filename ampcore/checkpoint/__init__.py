"""Checkpoints: everything that a run needs to continue as if it had not been interrupted."""

from typing import TYPE_CHECKING

from ampcore.checkpoint.compatibility import FieldChange, check_compatible, match_arrays
from ampcore.checkpoint.file_format import Checkpoint
from ampcore.checkpoint.finite import array_is_finite, nonfinite_names
from ampcore.checkpoint.folder import StoredCheckpoint, newest, prune, save
from ampcore.checkpoint.manifest import Manifest
from ampcore.checkpoint.reader import load
from ampspec.old_names import old_attributes

__all__ = [
    "Checkpoint",
    "FieldChange",
    "Manifest",
    "StoredCheckpoint",
    "array_is_finite",
    "check_compatible",
    "load",
    "match_arrays",
    "newest",
    "nonfinite_names",
    "prune",
    "save",
]

if not TYPE_CHECKING:
    __getattr__ = old_attributes(__name__, {"Difference": "FieldChange"})
