"""Decides when to save a checkpoint of a run, and saves it."""

import platform
import time
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Final

from ampcore import checkpoint
from ampcore.checkpoint import Checkpoint
from ampspec import __version__
from ampspec.errors import CheckpointFailed
from ampspec.telemetry import Event, EventType

FOLDER: Final = "checkpoints"
"""The checkpoint folder, in a job's output folder."""

KEEP_CHECKPOINTS: Final = 2
"""How many complete checkpoints are kept: the newest two."""

LIBRARIES: Final = ("keras", "numpy", "tensorflow-cpu", "tensorflow")


class CheckpointSaver:
    """Saves a run at intervals; if a checkpoint cannot be saved, the run continues.

    Args:
        folder: The folder of the checkpoints; None: none are saved.
        every_s: The seconds between two checkpoints; None: only one at the end.
    """

    def __init__(self, folder: Path | None, every_s: float | None) -> None:
        self._folder, self._every_s = folder, every_s
        self._saved_at = time.monotonic()
        self.saved_steps: int | None = None
        """The number of steps in the newest checkpoint; None without one."""

    @property
    def is_enabled(self) -> bool:
        """Whether there is a folder to save to."""
        return self._folder is not None

    def is_due(self) -> bool:
        """Whether the interval has passed since the last True, or since the start."""
        if self._every_s is None or time.monotonic() - self._saved_at < self._every_s:
            return False
        self._saved_at = time.monotonic()
        return True

    def save(self, new_checkpoint: Checkpoint) -> Event:
        """Save it, and remove all but the newest `KEEP_CHECKPOINTS`.

        Returns:
            The event that it was saved, or a warning with the error.
        """
        start, folder = time.perf_counter(), self._folder or Path()
        last = new_checkpoint.manifest.step - 1 if new_checkpoint.manifest.step else None
        try:
            file = checkpoint.save(folder, new_checkpoint)
            checkpoint.prune(folder, keep=KEEP_CHECKPOINTS)
        except (CheckpointFailed, OSError) as error:
            message = f"{error} Training continues; earlier checkpoints are untouched."
            return Event.warning("checkpoint_failed", message, last)
        data = {
            "file": f"{FOLDER}/{file.name}",
            "size_bytes": file.stat().st_size,
            "seconds": time.perf_counter() - start,
        }
        self.saved_steps = new_checkpoint.manifest.step
        return Event(EventType.CHECKPOINT_SAVED, last, data)


@cache
def versions() -> dict[str, str]:
    """The versions of ampcore, Python and the libraries that decide what a step computes."""
    by_name = {"ampcore": __version__, "python": platform.python_version()}
    for name in LIBRARIES:
        try:
            by_name[name] = version(name)
        except ModuleNotFoundError:
            continue
    return by_name
