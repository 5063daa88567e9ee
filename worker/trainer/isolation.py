"""The isolation of each trainer: its own folder, its own user, Landlock rules and limits.

The trainer applies them to itself (`infra.isolation`); `worker.trainer.isolation_plan` finds out
which of them this machine supports.
"""

import logging
import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from infra.isolation import TEMP_FOLDER, Confinement, landlock
from worker.trainer.memory_cgroups import MemoryCgroup, MemoryCgroups
from worker.trainer.process_status import end_processes_of
from worker.trainer.trainer_users import TrainerUser, claim_user

log = logging.getLogger(__name__)

OPEN_TO_ENTER: Final = 0o711


@dataclass(frozen=True)
class TrainerFolder:
    """The only folder that a trainer may write to, and the user that it runs as, if any."""

    path: Path
    confinement: Confinement
    user: TrainerUser | None = None
    cgroup: MemoryCgroup | None = None
    """The cgroup that limits the memory of all its processes together, kernel memory included."""

    def move_in(self, path: Path) -> None:
        """Move a folder into it and make the trainer's user its owner."""
        _chown_tree(self.user, path)
        path.rename(self.path / path.name)

    def close(self) -> None:
        """End all processes of the user, remove the folder, and release the user."""
        if self.user is not None and not end_processes_of(self.user.number):
            # The user stays claimed: its processes must not meet those of another job.
            log.warning("processes of the user %d do not end", self.user.number)
            return
        shutil.rmtree(self.path, ignore_errors=True)
        if self.cgroup is not None:
            self.cgroup.close()
        if self.user is not None:
            self.user.release()


@dataclass(frozen=True)
class Isolation:
    """The isolation that every trainer of this worker gets."""

    parent: Path
    """Where trainer folders are created: this worker's folder in the scratch folder."""
    datasets: Path
    users: range | None = None
    """User ids for trainers; None: they run as the worker's user."""
    landlock_abi: int = 0
    processes: int | None = None
    memory_bytes: int | None = None
    cgroups: MemoryCgroups | None = None
    """Makes a memory cgroup for each trainer; None: none can be made here."""
    cgroup_bytes: int = 2**60
    """The limit of each cgroup."""
    missing: tuple[str, ...] = field(default=(), compare=False)
    """Sentences about the measures that this machine does not support."""

    def new_folder(self, *, tcp_ports: tuple[int, ...] | None = ()) -> TrainerFolder:
        """Create a folder for the next trainer and claim a user for it. Raises OSError.

        `tcp_ports` are the ports that it may use; None: all.
        """
        user = claim_user(self.users) if self.users is not None else None
        if user is not None:
            for above in (self.parent.parent, self.parent):
                above.chmod(OPEN_TO_ENTER)
        path = self.parent / f"trainer-{uuid4().hex}"
        path.mkdir(mode=0o700)
        (path / TEMP_FOLDER).mkdir(mode=0o700)
        cgroup = self._new_cgroup()
        confinement = Confinement(
            folder=path,
            datasets=self.datasets,
            user=user.number if user is not None else None,
            restrict_files=self.landlock_abi > 0,
            processes=self.processes,
            memory_bytes=self.memory_bytes,
            tcp_ports=tcp_ports,
            cgroup=cgroup.path if cgroup is not None else None,
        )
        _chown_tree(user, path)
        return TrainerFolder(path, confinement, user, cgroup)

    def _new_cgroup(self) -> MemoryCgroup | None:
        if self.cgroups is None:
            return None
        try:
            return self.cgroups.new(self.cgroup_bytes)
        except OSError as error:
            log.warning("a trainer has no memory cgroup: %s", error)
            return None

    def describe(self) -> dict[str, Any]:
        """Which measures apply, as reported with the worker's hardware."""
        return {
            "own_user": self.users is not None,
            "files": self.landlock_abi > 0,
            "processes": self.users is not None or self.landlock_abi >= landlock.SCOPES_ABI,
            "tcp": self.landlock_abi >= landlock.TCP_ABI,
            "landlock_abi": self.landlock_abi,
            "max_processes": self.processes,
            "memory_bytes": self.memory_bytes,
            "memory_cgroup": self.cgroups is not None,
            "missing": list(self.missing),
        }


def _chown_tree(user: TrainerUser | None, folder: Path) -> None:
    """Make a trainer's user the owner of a folder and everything in it."""
    if user is not None:
        for path in (folder, *folder.rglob("*")):
            os.chown(path, user.number, user.number, follow_symlinks=False)
