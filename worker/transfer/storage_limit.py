"""StorageLimit: how much a job with custom code may store, in bytes and in files."""

from collections import deque
from dataclasses import dataclass, field
from typing import Final

from store.files.artifacts import CHECKPOINT, CHECKPOINTS_KEPT
from worker.transfer.named_files import ArtifactUpload

MAX_FILES: Final = 10_000
"""Each named file takes memory, and lines of the log."""


class TooMuchStored(Exception):
    """A job stores more than it may."""


@dataclass
class StorageLimit:
    """Counts what a job has stored; the worker's own files do not count.

    Args:
        max_bytes: The maximum, with the checkpoints that are kept; None: no limit, of files either.
    """

    max_bytes: int | None = None
    _stored_bytes: int = field(default=0, init=False)
    _checkpoint_bytes: deque[int] = field(
        default_factory=lambda: deque(maxlen=CHECKPOINTS_KEPT), init=False
    )
    """The sizes of the checkpoints that are kept."""
    _files: int = field(default=0, init=False)

    def check_files(self) -> None:
        """Count an event that names files. Raises TooMuchStored."""
        self._files += 1
        if self.max_bytes is not None and self._files > MAX_FILES:
            raise TooMuchStored(f"a job may store {MAX_FILES:,} files.")

    def check(self, upload: ArtifactUpload, size_bytes: int) -> None:
        """Raise TooMuchStored if the job may not store so much more."""
        if self.max_bytes is None or upload.folder is not None:
            return
        checkpoints = list(self._checkpoint_bytes)
        if upload.kind == CHECKPOINT:
            checkpoints = checkpoints[1 - CHECKPOINTS_KEPT :]  # it replaces the oldest one
        if self._stored_bytes + sum(checkpoints) + size_bytes > self.max_bytes:
            raise TooMuchStored(
                f"the job may store {self.max_bytes:,} bytes, {CHECKPOINTS_KEPT} checkpoints "
                "included."
            )

    def add(self, upload: ArtifactUpload, size_bytes: int) -> None:
        """Count a file that was stored."""
        if upload.folder is not None:
            return
        if upload.kind == CHECKPOINT:
            self._checkpoint_bytes.append(size_bytes)
        else:
            self._stored_bytes += size_bytes
