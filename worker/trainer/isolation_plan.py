"""Plans trainer isolation: the configured measures, as far as this machine supports them.

docs/adr/0034 gives the reasons for each measure.
"""

import logging
import os
import stat
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from infra.isolation import landlock
from infra.isolation.files import package_folders
from worker.trainer.isolation import Isolation
from worker.trainer.memory_cgroups import MOUNT, MemoryCgroups
from worker.trainer.oom_kills import memory_events_file

log = logging.getLogger(__name__)

PACKAGES: Final = ("ampspec", "ampdata", "ampcore", "infra", "worker")
"""The packages of ours that a trainer imports."""
DEFAULT_USERS: Final = range(60_800, 61_000)
"""User ids that no distribution assigns (systemd's UIDs-GIDs.md)."""
DEFAULT_PROCESSES: Final = 4096
RESERVED_BYTES: Final = 4 * 2**30
"""Address space that a trainer reserves but hardly uses: thread stacks and the allocator's arenas.
Measured: 1.5 GB reserved when a third of that is used, and 8 MB more for each thread."""
NEEDED_CAPABILITIES: Final = {
    "CHOWN": 0, "DAC_OVERRIDE": 1, "FOWNER": 3, "KILL": 5, "SETGID": 6, "SETUID": 7,
}  # fmt: skip
"""To run a trainer as another user, to read what it writes, and to end it (linux/capability.h)."""


class IsolationMode(StrEnum):
    """The values of AMPCORE_TRAINER_ISOLATION."""

    AUTO = "auto"
    REQUIRED = "required"
    OFF = "off"


@dataclass(frozen=True)
class IsolationSettings:
    """The settings about trainer isolation."""

    mode: IsolationMode = IsolationMode.AUTO
    users: range = DEFAULT_USERS
    processes: int = DEFAULT_PROCESSES
    memory_bytes: int | None = None
    """Limit on a trainer's address space; None: the machine's or container's memory plus
    `RESERVED_BYTES`."""


class IsolationUnavailable(Exception):
    """Isolation is required, but this machine cannot provide it; the message says why."""


def plan_isolation(
    settings: IsolationSettings,
    *,
    parent: Path,
    datasets: Path,
    cgroups: MemoryCgroups | None = None,
) -> Isolation | None:
    """The measures that this machine supports; None when isolation is off.

    Raises IsolationUnavailable when isolation is required and a measure is missing.
    """
    if settings.mode is IsolationMode.OFF:
        return None
    abi = landlock.abi()
    scratch = parent.parent  # not checked: the worker opens it to other users itself
    closed = closed_to_others([*program_folders(), scratch.parent, datasets])
    is_root, may_switch = os.geteuid() == 0, can_run_as(settings.users)
    missing = tuple(_missing(abi, is_root=is_root, may_switch=may_switch, closed=closed))
    if settings.mode is IsolationMode.REQUIRED and missing:
        raise IsolationUnavailable(
            "AMPCORE_TRAINER_ISOLATION=required, but this machine cannot provide it: "
            + " ".join(missing)
        )
    return Isolation(
        parent=parent,
        datasets=datasets,
        users=settings.users if may_switch and closed is None else None,
        landlock_abi=abi,
        processes=settings.processes,
        memory_bytes=settings.memory_bytes or available_memory_bytes() + RESERVED_BYTES,
        cgroups=cgroups,
        cgroup_bytes=settings.memory_bytes or available_memory_bytes(),
        missing=missing,
    )


def log_isolation(isolation: Isolation | None) -> None:
    """Log which measures apply, and which do not and why."""
    if isolation is None:
        log.warning("trainers are not isolated (AMPCORE_TRAINER_ISOLATION=off)")
        return
    log.info("trainers are isolated: %s", isolation.describe())
    for sentence in isolation.missing:
        log.warning("trainers are not fully isolated: %s", sentence)


def can_run_as(users: range, proc: Path = Path("/proc/self")) -> bool:
    """Whether this process can start processes as these users.

    It needs root. In a container, root may lack capabilities or the user ids may not be mapped.
    """
    if os.geteuid() != 0:
        return False
    try:
        status = (proc / "status").read_text(encoding="ascii", errors="replace")
        maps = [(proc / name).read_text(encoding="ascii") for name in ("uid_map", "gid_map")]
    except OSError:
        return False
    (held,) = (int(line.split()[1], 16) for line in status.splitlines() if line[:7] == "CapEff:")
    are_there = all(_is_mapped(text, users) for text in maps)
    return are_there and all(held >> number & 1 for number in NEEDED_CAPABILITIES.values())


def _is_mapped(text: str, users: range) -> bool:
    """Whether one line `first outside count` of a uid_map or gid_map contains all of them."""
    ranges = [tuple(map(int, line.split())) for line in text.splitlines()]
    return any(first <= users[0] and users[-1] < first + count for first, _, count in ranges)


def _missing(abi: int, *, is_root: bool, may_switch: bool, closed: Path | None) -> Iterator[str]:
    if abi == 0:
        yield (
            "This kernel has no Landlock (added in Linux 5.13): "
            "a trainer can read whatever its user can read, including the data folder."
        )
    if is_root and (closed is not None or not may_switch):
        why = (
            f"other users cannot enter {closed}"
            if may_switch
            else "root lacks some of the capabilities "
            + ", ".join(NEEDED_CAPABILITIES)
            + ", or the user ids of AMPCORE_TRAINER_USERS are not mapped"
        )
        yield (
            f"A trainer has no separate user, because {why}: it runs as root without capabilities."
        )
    elif not is_root and abi < landlock.SCOPES_ABI:
        yield (
            "This worker is not root, and its kernel has no Landlock 6 (added in Linux 6.12): "
            "a trainer can kill other processes of this worker's user."
        )


def program_folders() -> list[Path]:
    """The folders that a trainer imports from."""
    return [Path(sys.prefix), Path(sys.base_prefix), *package_folders(*PACKAGES)]


def closed_to_others(folders: list[Path]) -> Path | None:
    """The first of these folders, or of their parents, that other users cannot enter.

    None: there is none. Folders that do not exist yet are skipped.
    """
    for folder in folders:
        target = folder.resolve()
        for path in (target, *target.parents):
            if path.exists() and not path.stat().st_mode & stat.S_IXOTH:
                return path
    return None


def available_memory_bytes(events: Path | None = None, mount: Path = MOUNT) -> int:
    """The bytes of memory of this machine, or of this container where that has less.

    Args:
        events: The `memory.events` file of this process's cgroup; None: it is looked for.
        mount: Where the cgroups are mounted.
    """
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    events = events or memory_events_file()
    if events is None:
        return machine
    # Each cgroup above has a limit, too: the worker's processes may be in a leaf of a container's.
    above = [folder for folder in events.parents if folder == mount or mount in folder.parents]
    limits = [limit for folder in above if (limit := _limit_of(folder)) is not None]
    return min(machine, *limits) if limits else machine


def _limit_of(cgroup: Path) -> int | None:
    try:
        return int((cgroup / "memory.max").read_text(encoding="ascii"))
    except (OSError, ValueError):  # "max": there is no limit
        return None
