"""Give up, in this process and for ever, what a trainer does not need."""

import ctypes
import os
import resource
import signal
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ampcore.isolation import files, landlock

SET_DUMPABLE: Final = 4  # linux/prctl.h
CAPBSET_DROP: Final = 24
CAPABILITY_VERSION_3: Final = 0x20080522  # linux/capability.h
TEMPORARY: Final = "tmp"
"""In a trainer's folder."""


@dataclass(frozen=True)
class Confinement:
    """What a trainer is left with; comes from its worker as JSON."""

    folder: Path
    """The only one that it may change; there it also finds room for temporary files."""
    datasets: Path
    """The folder of the data that jobs read."""
    user: int | None = None
    """Become this user, and its group of the same number; needs root."""
    restrict_files: bool = False
    """By Landlock, and with them signals and connections as far as the kernel can."""
    processes: int | None = None
    """How many processes and threads its user may have, beside those that are there already."""
    memory_bytes: int | None = None
    """How much memory of its own each of its processes may ask for."""

    def to_json(self) -> dict[str, Any]:
        """As it is sent to the process that forks trainers."""
        return vars(self) | {"folder": str(self.folder), "datasets": str(self.datasets)}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "Confinement":
        """What `to_json` made."""
        paths = {name: Path(values[name]) for name in ("folder", "datasets")}
        return cls(**values | paths)


def confine(
    rules: Confinement, imported: Sequence[Path], also_writable: Sequence[Path] = ()
) -> None:
    """Confine this process, which must have one thread only; everything after it is confined too.

    Args:
        rules: What it is left with.
        imported: What `imported_files` found.
        also_writable: More that may be changed.

    Raises:
        OSError: The system does not do it. The process must not go on: it may be half confined.
        RuntimeError: It has another thread, which would not be confined.
    """
    if rules.restrict_files and (threads := len(os.listdir("/proc/self/task"))) > 1:
        raise RuntimeError(f"A process is confined before it has threads; this one has {threads}.")
    os.chdir(rules.folder)
    _use_folder(rules.folder)
    _set_limits(rules)
    if rules.user is not None:
        _become(rules.user)
    elif os.geteuid() == 0:
        _give_up_capabilities()
    if rules.restrict_files:
        landlock.restrict(
            readable=[*files.system_files(), *imported, rules.datasets],
            usable=[*files.devices(), Path(f"/proc/{os.getpid()}")],
            changeable=[rules.folder, *also_writable],
        )
    hide_memory()


def hide_memory(*, hidden: bool = True) -> None:
    """Let no other process of this user read this one's memory and environment, or trace it.

    No core is dumped either. A program that is executed later is not protected by it.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(SET_DUMPABLE, int(not hidden), 0, 0, 0)


def _use_folder(folder: Path) -> None:
    """Let everything that looks for a place to write find one in this folder."""
    os.environ["HOME"] = str(folder)
    os.environ["TMPDIR"] = str(folder / TEMPORARY)
    tempfile.tempdir = None  # it is looked for again


def _set_limits(rules: Confinement) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if rules.processes is not None:
        # A user of its own has none yet; of root Linux does not count them.
        there = count_threads(os.getuid()) if rules.user is None and os.getuid() else 0
        _limit(resource.RLIMIT_NPROC, there + rules.processes)
    if rules.memory_bytes is not None:
        _limit(resource.RLIMIT_DATA, rules.memory_bytes)


def _limit(kind: int, most: int) -> None:
    """Lower a limit; one that is lower already stays."""
    _, hard = resource.getrlimit(kind)
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(kind, (most, most))


def count_threads(user: int) -> int:
    """The threads of a user's processes, which the limit of processes counts.

    Kernel threads and what ends in the meantime do not matter.
    """
    count = 0
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, ValueError):
            text = (folder / "status").read_text(encoding="utf-8", errors="replace")
            values = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
            if int(values["Uid"].split()[0]) == user:
                count += int(values["Threads"])
    return count


def end_all_of(user: int) -> None:
    """Kill every process of a user, from a process that is then one of them; needs root."""
    _become(user)
    with suppress(ProcessLookupError):
        os.kill(-1, signal.SIGKILL)  # all but this one


def _become(user: int) -> None:
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)


def _give_up_capabilities() -> None:
    """Root without its rights; files of root are still its own."""
    libc = ctypes.CDLL(None, use_errno=True)
    for number in range(64):
        libc.prctl(CAPBSET_DROP, number, 0, 0, 0)  # an unknown one is an error, and the last
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0)
    data = (ctypes.c_uint32 * 6)()
    if libc.capset(header, data):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
