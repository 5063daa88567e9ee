"""A memory cgroup for each trainer: the kernel bounds what all its processes use together.

It counts what no limit of a process does: memory of the kernel, such as the buffers of sockets, and
memory that processes share. Version 2 is used where this worker's cgroup is delegated to it, and
version 1 where its memory hierarchy is writable (docs/adr/0076).

Source: Linux, Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst.
"""

import errno
import logging
import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from uuid import uuid4

log = logging.getLogger(__name__)

MOUNT: Final = Path("/sys/fs/cgroup")
PREFIX: Final = "ampcore-trainer"
SERVICE: Final = "ampcore-service"
"""Where the processes of a delegated cgroup move: beside the trainers' cgroups, none may remain."""
DELEGATED: Final = ("user.delegate", "trusted.delegate")
"""The extended attributes by which systemd marks a delegated cgroup."""
MOVE_ROUNDS: Final = 20
"""Processes that start others while they are moved; those of other namespaces cannot be moved."""
CLOSE_S: Final = 5.0
POLL_S: Final = 0.02


@dataclass(frozen=True)
class MemoryCgroup:
    """The cgroup of one trainer."""

    path: Path
    events: Path
    """The file that counts the processes that the kernel killed for exceeding the limit."""

    def close(self) -> None:
        """Kill what is left in it, and remove it."""
        deadline = time.monotonic() + CLOSE_S
        while time.monotonic() < deadline:
            try:
                self.path.rmdir()
            except FileNotFoundError:
                return
            except OSError:  # a process of it has not ended yet
                self._kill_all()
                time.sleep(POLL_S)
            else:
                return
        log.warning("the cgroup %s cannot be removed: it has processes", self.path)

    def _kill_all(self) -> None:
        with suppress(OSError):
            for pid in _words(self.path / "cgroup.procs"):
                with suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)


@dataclass(frozen=True)
class MemoryCgroups:
    """Makes the cgroups of this worker's trainers."""

    parent: Path
    version: int

    def new(self, limit_bytes: int) -> MemoryCgroup:
        """Make a cgroup whose processes may use `limit_bytes` together. Raises OSError."""
        path = self.parent / f"{PREFIX}-{os.getpid()}-{uuid4().hex}"
        path.mkdir()
        events = path / ("memory.events" if self.version == 2 else "memory.oom_control")
        cgroup = MemoryCgroup(path, events)
        try:
            self._limit(path, limit_bytes)
        except OSError:
            cgroup.close()
            raise
        return cgroup

    def _limit(self, path: Path, limit_bytes: int) -> None:
        files = {
            1: {"memory.limit_in_bytes": limit_bytes},
            2: {"memory.max": limit_bytes, "memory.oom.group": 1},
        }
        without_swap = {1: {"memory.memsw.limit_in_bytes": limit_bytes}, 2: {"memory.swap.max": 0}}
        for name, value in files[self.version].items():
            (path / name).write_text(str(value), encoding="ascii")
        for name, value in without_swap[self.version].items():
            if (path / name).exists():
                (path / name).write_text(str(value), encoding="ascii")


class CgroupsMissing(Exception):
    """No memory cgroups can be made here; the message says why."""


def find_memory_cgroups() -> MemoryCgroups:
    """The memory cgroups of this machine, tested by creating one. Raises CgroupsMissing."""
    cgroups = locate()
    try:
        cgroups.new(2**30).close()
    except OSError as error:
        raise CgroupsMissing(f"this worker may not make cgroups ({error})") from error
    _remove_left(cgroups.parent)
    return cgroups


def locate(proc: Path = Path("/proc"), mount: Path = MOUNT) -> MemoryCgroups:
    """Where trainers' cgroups belong, with the memory controller enabled. Raises CgroupsMissing."""
    try:
        lines = (proc / "self" / "cgroup").read_text(encoding="utf-8").splitlines()
        paths = {
            controllers: path for _, controllers, path in (line.split(":", 2) for line in lines)
        }
        if "memory" in paths:
            return MemoryCgroups(mount / "memory" / paths["memory"].lstrip("/"), version=1)
        return _version_2(mount, paths.get("", "/"))
    except OSError as error:
        raise CgroupsMissing(f"this worker may not make cgroups ({error})") from error


def _version_2(mount: Path, path: str) -> MemoryCgroups:
    parent = mount / path.lstrip("/")
    if parent.name == SERVICE:
        parent = parent.parent
    if "memory" not in _words(parent / "cgroup.controllers"):
        raise CgroupsMissing("the controller memory is not available in this worker's cgroup")
    if parent != mount and not _is_delegated(parent):
        raise CgroupsMissing(
            f"the cgroup {path} is not delegated to this worker; with systemd, set Delegate=memory "
            "in the unit of the worker"
        )
    control = parent / "cgroup.subtree_control"
    if "memory" not in _words(control):
        try:
            control.write_text("+memory", encoding="ascii")
        except OSError as error:
            if error.errno != errno.EBUSY:
                raise
            _move_processes(parent, parent / SERVICE)
            control.write_text("+memory", encoding="ascii")
    return MemoryCgroups(parent, version=2)


def _is_delegated(cgroup: Path) -> bool:
    for name in DELEGATED:
        with suppress(OSError):
            if os.getxattr(cgroup, name) == b"1":
                return True
    return False


def _move_processes(cgroup: Path, leaf: Path) -> None:
    """Move all processes of a cgroup into one below it. Raises OSError."""
    leaf.mkdir(exist_ok=True)
    for _ in range(MOVE_ROUNDS):
        if not (pids := _words(cgroup / "cgroup.procs")):
            return
        for pid in pids:
            with suppress(ProcessLookupError):
                (leaf / "cgroup.procs").write_text(pid, encoding="ascii")
    raise OSError(errno.EBUSY, f"processes of {cgroup} cannot be moved into a leaf")


def _remove_left(parent: Path) -> None:
    """Remove the empty cgroups of workers that were killed."""
    for path, worker in _cgroups_below(parent):
        if not Path(f"/proc/{worker}").exists():
            with suppress(OSError):
                path.rmdir()


def _cgroups_below(parent: Path) -> Iterator[tuple[Path, int]]:
    for path in parent.glob(f"{PREFIX}-*"):
        worker = path.name.removeprefix(f"{PREFIX}-").partition("-")[0]
        if worker.isdecimal():
            yield path, int(worker)


def _words(file: Path) -> list[str]:
    return file.read_text(encoding="ascii").split()
