"""Which measures of isolation a machine allows, beside those that the settings ask for.

docs/adr/0034 says why they are these.
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

import ampcore
from ampcore.isolation import landlock
from worker.isolation import Isolation
from worker.memory_kills import events_file

log = logging.getLogger(__name__)

DEFAULT_USERS: Final = range(60_800, 61_000)
"""Numbers that no distribution gives to anybody (systemd's UIDs-GIDs.md)."""
DEFAULT_PROCESSES: Final = 4096
RESERVED_BYTES: Final = 4 * 2**30
"""What a trainer asks for and hardly touches: stacks of threads, room of the allocator. It has
asked for 1.5 GB when it uses a third of that, and for 8 MB more with each thread."""
NEEDED_CAPABILITIES: Final = {
    "CHOWN": 0, "DAC_OVERRIDE": 1, "FOWNER": 3, "KILL": 5, "SETGID": 6, "SETUID": 7,
}  # fmt: skip
"""To run a trainer as another user, to read what it writes, and to end it (linux/capability.h)."""


class IsolationMode(StrEnum):
    """What AMPCORE_TRAINER_ISOLATION says."""

    AUTO = "auto"
    REQUIRED = "required"
    OFF = "off"


@dataclass(frozen=True)
class IsolationSettings:
    """What the settings say of it."""

    mode: IsolationMode = IsolationMode.AUTO
    users: range = DEFAULT_USERS
    processes: int = DEFAULT_PROCESSES
    memory_bytes: int | None = None
    """None: the memory of this machine or container, and what is only reserved."""


class IsolationImpossible(Exception):
    """It is required, and this machine does not allow it; the message says what is missing."""


def plan(settings: IsolationSettings, *, parent: Path, datasets: Path) -> Isolation | None:
    """What of the settings this machine allows; None when trainers are not to be isolated.

    Raises IsolationImpossible when it must be complete, and cannot be.
    """
    if settings.mode is IsolationMode.OFF:
        return None
    abi = landlock.abi()
    scratch = parent.parent  # it is ours to open
    closed = _closed_to_others([*_program_folders(), scratch.parent, datasets])
    is_root, may_switch = os.geteuid() == 0, may_use(settings.users)
    missing = tuple(_missing(abi, is_root=is_root, may_switch=may_switch, closed=closed))
    if settings.mode is IsolationMode.REQUIRED and missing:
        raise IsolationImpossible(
            "AMPCORE_TRAINER_ISOLATION is required, and cannot be had here: " + " ".join(missing)
        )
    return Isolation(
        parent=parent,
        datasets=datasets,
        users=settings.users if may_switch and closed is None else None,
        landlock_abi=abi,
        processes=settings.processes,
        memory_bytes=settings.memory_bytes or _memory_here() + RESERVED_BYTES,
        missing=missing,
    )


def log_isolation(isolation: Isolation | None) -> None:
    """Write into the log what applies, and what does not and why."""
    if isolation is None:
        log.warning("trainers are not isolated, as AMPCORE_TRAINER_ISOLATION says")
        return
    log.info("trainers are isolated: %s", isolation.describe())
    for sentence in isolation.missing:
        log.warning("trainers are not fully isolated: %s", sentence)


def may_use(users: range, proc: Path = Path("/proc/self")) -> bool:
    """Whether this process can run others as these users.

    Root can; in a container it may have no capabilities, or there may be no such users.
    """
    if os.geteuid() != 0:
        return False
    try:
        status = (proc / "status").read_text(encoding="ascii", errors="replace")
        maps = [(proc / name).read_text(encoding="ascii") for name in ("uid_map", "gid_map")]
    except OSError:
        return False
    (held,) = (int(line.split()[1], 16) for line in status.splitlines() if line[:7] == "CapEff:")
    are_there = all(_maps(text, users) for text in maps)
    return are_there and all(held >> number & 1 for number in NEEDED_CAPABILITIES.values())


def _maps(text: str, users: range) -> bool:
    """Whether one line of a user namespace's map, `first outside count`, holds all of them."""
    ranges = [tuple(map(int, line.split())) for line in text.splitlines()]
    return any(first <= users[0] and users[-1] < first + count for first, _, count in ranges)


def _missing(abi: int, *, is_root: bool, may_switch: bool, closed: Path | None) -> Iterator[str]:
    if abi == 0:
        yield (
            "This kernel has no Landlock (Linux 5.13 has): "
            "a trainer can read what its user can read, the data folder too."
        )
    if is_root and (closed is not None or not may_switch):
        why = (
            f"{closed} is closed to other users"
            if may_switch
            else "this root lacks capabilities ("
            + ", ".join(NEEDED_CAPABILITIES)
            + ") or the users of AMPCORE_TRAINER_USERS"
        )
        yield (
            f"A trainer has no user of its own, since {why}: "
            "it runs as root without root's capabilities."
        )
    elif not is_root and abi < landlock.SCOPES_ABI:
        yield (
            "This worker is not root, and its kernel has no Landlock 6 (Linux 6.12 has): "
            "a trainer can end the processes of this worker's user."
        )


def _program_folders() -> list[Path]:
    """What a trainer imports from."""
    return [Path(sys.prefix), Path(sys.base_prefix), Path(ampcore.__file__).parent]


def _closed_to_others(folders: list[Path]) -> Path | None:
    """A folder, of these or above them, that other users cannot enter; None: there is none.

    A folder that does not exist will be made as open as those above it.
    """
    for folder in folders:
        target = folder.resolve()
        for path in (target, *target.parents):
            if path.exists() and not path.stat().st_mode & stat.S_IXOTH:
                return path
    return None


def _memory_here() -> int:
    """The bytes of memory of this machine, or of this container where that has less."""
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if (events := events_file()) is None:
        return machine
    try:
        return min(machine, int(events.with_name("memory.max").read_text(encoding="ascii")))
    except (OSError, ValueError):  # "max": there is no limit
        return machine
