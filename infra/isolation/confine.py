"""Irrevocably drops all rights of this process that a trainer does not need."""

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

from infra.isolation import files, landlock, seccomp

SET_DUMPABLE: Final = 4  # linux/prctl.h
CAPBSET_DROP: Final = 24
CAPABILITY_VERSION_3: Final = 0x20080522  # linux/capability.h
TEMP_FOLDER: Final = "tmp"
"""The folder for temporary files, in a trainer's folder."""


@dataclass(frozen=True)
class Confinement:
    """The rights that a trainer keeps; its worker sends them as JSON."""

    folder: Path
    """The only folder that it may write to; its temporary files are there too."""
    datasets: Path
    """The folder of the data that jobs read."""
    user: int | None = None
    """Become this user, and its group of the same number; needs root."""
    restrict_files: bool = False
    """Restrict files by Landlock, and signals and connections where the kernel supports it."""
    processes: int | None = None
    """How many processes and threads its user may have besides the existing ones."""
    memory_bytes: int | None = None
    """How much private memory each of its processes may allocate."""
    file_bytes: int | None = None
    """How large a file that it writes may become."""
    open_files: int | None = None
    """How many files each of its processes may have open."""
    tcp_ports: tuple[int, ...] | None = ()
    """The TCP ports that it may listen on and connect to, with `restrict_files`; None: all."""
    is_sandbox: bool = False
    """Run code of users: filter system calls, and hide other processes and CUDA MPS."""
    bubblewrap: Path | None = None
    """Start the trainer with this program, in separate namespaces, instead of by a fork."""
    cgroup: Path | None = None
    """The cgroup of the trainer, which its process joins first."""

    def to_json(self) -> dict[str, Any]:
        """The JSON values that are sent to the fork server."""
        return {
            name: str(value) if isinstance(value, Path) else value
            for name, value in vars(self).items()
        }

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "Confinement":
        """The confinement that `to_json` wrote."""
        paths = {
            name: Path(values[name])
            for name in ("folder", "datasets", "bubblewrap", "cgroup")
            if values[name] is not None
        }
        ports = values["tcp_ports"]
        return cls(**values | paths | {"tcp_ports": None if ports is None else tuple(ports)})

    def join_cgroup(self) -> None:
        """Move this process into its cgroup, if it has one. Raises OSError."""
        if self.cgroup is not None:
            (self.cgroup / "cgroup.procs").write_text("0", encoding="ascii")  # 0: the writer


def confine(
    confinement: Confinement, imported: Sequence[Path], extra_writable: Sequence[Path] = ()
) -> None:
    """Confine this process, which must have a single thread, and all processes that it starts.

    Args:
        confinement: The rights that it keeps.
        imported: What `imported_files` found.
        extra_writable: Further paths that it may write.

    Raises:
        OSError: A system call failed. The process must exit: it may be partly confined.
        RuntimeError: It has another thread, which would not be confined.
    """
    if confinement.restrict_files and (threads := len(os.listdir("/proc/self/task"))) > 1:
        raise RuntimeError(f"Expected a process with one thread. Received: {threads} threads.")
    _set_home_and_tmpdir(confinement.folder)
    _set_limits(confinement)
    if confinement.user is not None:
        _switch_user(confinement.user)
    elif os.geteuid() == 0:
        _give_up_capabilities()
    os.chdir(confinement.folder)  # as its owner: root may lack the right to enter it
    if confinement.restrict_files:
        _restrict_files(confinement, imported, extra_writable)
    if confinement.is_sandbox:
        seccomp.restrict()
    hide_memory()


def hide_memory(*, hidden: bool = True) -> None:
    """Prevent other processes of this user from reading this one's memory or tracing it.

    It also disables core dumps. A program that this process executes later is not protected.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(SET_DUMPABLE, int(not hidden), 0, 0, 0)


def _restrict_files(
    confinement: Confinement, imported: Sequence[Path], extra_writable: Sequence[Path]
) -> None:
    system, shared = files.system_files(), [files.mps_folder()]
    if confinement.is_sandbox:
        shared = []
        # In a sandbox of bubblewrap, /proc shows its own processes only.
        system = system if confinement.bubblewrap else files.without_processes(system)
    landlock.restrict(
        readable=[*system, *imported, confinement.datasets],
        usable=[*files.devices(), *shared, Path(f"/proc/{os.getpid()}")],
        writable=[confinement.folder, *extra_writable],
        tcp_ports=confinement.tcp_ports,
    )


def _set_home_and_tmpdir(folder: Path) -> None:
    """Point temporary files, caches and the home folder to this folder."""
    os.environ["HOME"] = str(folder)
    os.environ["TMPDIR"] = str(folder / TEMP_FOLDER)
    tempfile.tempdir = None  # so that Python looks it up again


def _set_limits(confinement: Confinement) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if confinement.processes is not None:
        # A trainer's own user has no processes yet; Linux does not count those of root.
        existing = count_threads(os.getuid()) if confinement.user is None and os.getuid() else 0
        _limit(resource.RLIMIT_NPROC, existing + confinement.processes)
    if confinement.memory_bytes is not None:
        _limit(resource.RLIMIT_DATA, confinement.memory_bytes)
    if confinement.file_bytes is not None:
        _limit(resource.RLIMIT_FSIZE, confinement.file_bytes)
    if confinement.open_files is not None:
        _limit(resource.RLIMIT_NOFILE, confinement.open_files)


def _limit(kind: int, maximum: int) -> None:
    """Lower a limit; a limit that is already lower stays."""
    _, hard = resource.getrlimit(kind)
    maximum = maximum if hard == resource.RLIM_INFINITY else min(maximum, hard)
    resource.setrlimit(kind, (maximum, maximum))


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


def kill_all_processes_of(user: int) -> None:
    """Kill every process of a user, from a process that switches to that user; needs root."""
    _switch_user(user)
    with suppress(ProcessLookupError):
        os.kill(-1, signal.SIGKILL)  # all but this one


def _switch_user(user: int) -> None:
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)


def _give_up_capabilities() -> None:
    """Drop the capabilities of root; root's files remain accessible by ownership."""
    libc = ctypes.CDLL(None, use_errno=True)
    for number in range(64):
        libc.prctl(
            CAPBSET_DROP, number, 0, 0, 0
        )  # fails at the first unknown capability, which ends the loop
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0)
    data = (ctypes.c_uint32 * 6)()
    if libc.capset(header, data):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
