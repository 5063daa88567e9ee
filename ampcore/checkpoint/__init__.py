"""Checkpoints: all that a run has to know in order to go on as if nothing had happened."""

from ampcore.checkpoint.finite import all_finite, not_finite
from ampcore.checkpoint.fit import Difference, compatible, matched
from ampcore.checkpoint.folder import Found, newest, prune, save
from ampcore.checkpoint.layout import Checkpoint
from ampcore.checkpoint.manifest import Manifest
from ampcore.checkpoint.reading import load

__all__ = [
    "Checkpoint",
    "Difference",
    "Found",
    "Manifest",
    "all_finite",
    "compatible",
    "load",
    "matched",
    "newest",
    "not_finite",
    "prune",
    "save",
]
