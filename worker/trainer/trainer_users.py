"""User ids for trainers of a root worker: each trainer on this machine has its own.

A trainer with its own user cannot signal or trace other processes, has its own limit on processes,
and every process that it started can be found and ended.
"""

import errno
import fcntl
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

FOLDERS: Final = (Path("/run/ampcore-trainer-users"), Path("/tmp/ampcore-trainer-users"))  # noqa: S108
"""Where claims are kept: the second, where the first is read-only, as in a container."""


class TrainerUser:
    """A user id that no other trainer on this machine runs as until it is released."""

    def __init__(self, number: int, lock: int) -> None:
        self.number = number
        self._lock = lock

    def release(self) -> None:
        """Make the id available again, after all of its processes have ended."""
        os.close(self._lock)


def claim_user(numbers: Iterable[int]) -> TrainerUser:
    """Claim the first free user id.

    A claim is a lock on a file, which the kernel releases when this worker ends, however that
    happens. Who ends the processes of a user ends them in all network namespaces of the machine,
    so that a claim must be seen in all of them; an abstract socket is not. Files are never removed:
    two workers could hold locks on two files of one name.

    Args:
        numbers: The ids of AMPCORE_TRAINER_USERS.

    Raises:
        OSError: None is free, or locks cannot be kept.
    """
    folder = _open_folder(FOLDERS)
    for number in numbers:
        lock = os.open(folder / str(number), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
        else:
            return TrainerUser(number, lock)
    raise OSError(errno.EAGAIN, "all users of AMPCORE_TRAINER_USERS are in use")


def _open_folder(folders: Sequence[Path]) -> Path:
    *preferred, last = folders
    for folder in preferred:
        try:
            return _own_folder(folder)
        except OSError:  # read-only
            continue
    return _own_folder(last)


def _own_folder(folder: Path) -> Path:
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.lstat().st_uid != os.geteuid():
        raise PermissionError(errno.EPERM, "the folder belongs to another user", str(folder))
    return folder
