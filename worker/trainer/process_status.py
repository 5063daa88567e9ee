"""Reads what the processes of one job use, from /proc, also if they belong to another user.

Source: Linux, proc_pid_status(5).
"""

import os
import signal
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

KIB: Final = 1024
POLL_S: Final = 0.02
MEMORY_FIELDS: Final = ("RssAnon", "RssShmem", "VmSwap", "VmPTE")
END_TIMEOUT_S: Final = 10.0
"""How long the processes of a user may take to end after a SIGKILL."""


@dataclass(frozen=True)
class ProcessStatus:
    """One process: its owner, and the resources that it uses."""

    pid: int
    parent: int
    user: int
    threads: int
    memory_bytes: int
    """Its private and shared memory, also in swap, and its page tables; without mapped files. Forks
    count shared pages again."""


def all_processes() -> Iterator[ProcessStatus]:
    """The processes of this machine, except any that end during the call."""
    for name in os.listdir("/proc"):
        if name.isdecimal():
            # A process without memory is a zombie or belongs to the kernel.
            with suppress(OSError, KeyError, ValueError):
                yield _read_status(int(name))


def of_user(user: int) -> list[ProcessStatus]:
    """The processes that run as this user."""
    return [process for process in all_processes() if process.user == user]


def descendants_of(pid: int) -> list[ProcessStatus]:
    """A process, its children, their children, and so on."""
    return _with_descendants(pid, list(all_processes()))


def available_memory_bytes() -> int:
    """The memory that processes can still get without swapping; proc_meminfo(5)."""
    lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    [available] = [line for line in lines if line.startswith("MemAvailable:")]
    return int(available.split()[1]) * KIB


def count_sockets(process: ProcessStatus) -> int:
    """The sockets that a process has open; 0 if this process may not see them."""
    folder, count = f"/proc/{process.pid}/fd", 0
    with suppress(OSError):
        for name in os.listdir(folder):
            with suppress(OSError):
                count += os.readlink(f"{folder}/{name}").startswith("socket:")
    return count


def count_sockets_in_namespace(process: ProcessStatus) -> int:
    """All sockets of the network namespace of a process, also those that no process has open.

    0 if it shares the namespace, or if this process may not see it.
    """
    with suppress(OSError, ValueError, IndexError):
        if not os.path.samefile(f"/proc/{process.pid}/ns/net", "/proc/self/ns/net"):
            text = Path(f"/proc/{process.pid}/net/sockstat").read_text(encoding="ascii")
            return int(text.split()[2])  # sockets: used 3
    return 0


def end_processes_of(user: int) -> bool:
    """Kill the processes of a user until none is left; needs root. False if some remain.

    Processes whose parent has ended are children of this process where it is a subreaper, and stay
    zombies until it waits for them.
    """
    deadline = time.monotonic() + END_TIMEOUT_S
    while processes := of_user(user):
        for process in processes:
            with suppress(OSError):
                os.kill(process.pid, signal.SIGKILL)
            with suppress(ChildProcessError):
                os.waitpid(process.pid, os.WNOHANG)
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_S)
    return True


def _with_descendants(pid: int, processes: Iterable[ProcessStatus]) -> list[ProcessStatus]:
    by_parent: dict[int, list[ProcessStatus]] = {}
    subtree = []
    for process in processes:
        by_parent.setdefault(process.parent, []).append(process)
        if process.pid == pid:
            subtree.append(process)
    for process in subtree:  # grows while it is read
        subtree += by_parent.get(process.pid, [])
    return subtree


def _read_status(pid: int) -> ProcessStatus:
    text = Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace")
    values = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    memory = (values.get(name, "0 kB") for name in MEMORY_FIELDS)
    return ProcessStatus(
        pid=pid,
        parent=int(values["PPid"]),
        user=int(values["Uid"].split()[0]),
        threads=int(values["Threads"]),
        memory_bytes=sum(int(size.split()[0]) for size in memory) * KIB,
    )
