"""What confines each trainer of this worker: its folder, its user, and what it must give up.

A trainer does that itself (`ampcore.isolation`); `worker.isolation_plan` says what applies on this
machine.
"""

import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from ampcore.isolation import TEMPORARY, Confinement, landlock
from worker.trainer_users import TrainerUser, claim_user

OPEN_TO_ENTER: Final = 0o711


@dataclass(frozen=True)
class TrainerFolder:
    """The one folder that a trainer may change, made before its process; and its user, if any."""

    path: Path
    rules: Confinement
    user: TrainerUser | None = None

    def bring(self, path: Path) -> None:
        """Move a folder of ours into it, with all that is in it, before the trainer has a job."""
        _give(self.user, path)
        path.rename(self.path / path.name)

    def close(self) -> None:
        """Remove the folder; the trainer, and what it started, has ended."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self.user is not None:
            self.user.release()


@dataclass(frozen=True)
class Isolation:
    """What every trainer of this worker is confined to."""

    parent: Path
    """Where their folders are made: this worker's folder in scratch."""
    datasets: Path
    users: range | None = None
    """None: they run as the worker's user."""
    landlock_abi: int = 0
    processes: int | None = None
    memory_bytes: int | None = None
    missing: tuple[str, ...] = field(default=(), compare=False)
    """Sentences about what this machine does not allow."""

    def new_folder(self) -> TrainerFolder:
        """A folder for the next trainer. Raises OSError."""
        user = claim_user(self.users) if self.users is not None else None
        if user is not None:
            for above in (self.parent.parent, self.parent):
                above.chmod(OPEN_TO_ENTER)
        path = self.parent / f"trainer-{uuid4().hex}"
        path.mkdir(mode=0o700)
        (path / TEMPORARY).mkdir(mode=0o700)
        rules = Confinement(
            folder=path,
            datasets=self.datasets,
            user=user.number if user is not None else None,
            restrict_files=self.landlock_abi > 0,
            processes=self.processes,
            memory_bytes=self.memory_bytes,
        )
        _give(user, path)
        return TrainerFolder(path, rules, user)

    def describe(self) -> dict[str, Any]:
        """For the registry of workers: which measures apply."""
        return {
            "own_user": self.users is not None,
            "files": self.landlock_abi > 0,
            "processes": self.users is not None or self.landlock_abi >= landlock.SCOPES_ABI,
            "tcp": self.landlock_abi >= landlock.TCP_ABI,
            "landlock_abi": self.landlock_abi,
            "max_processes": self.processes,
            "memory_bytes": self.memory_bytes,
            "missing": list(self.missing),
        }


def _give(user: TrainerUser | None, folder: Path) -> None:
    """Make a trainer's user the owner of a folder, with all that is in it."""
    if user is not None:
        for path in (folder, *folder.rglob("*")):
            os.chown(path, user.number, user.number, follow_symlinks=False)
