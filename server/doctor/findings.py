"""What a check has found: that a part is as it should be, or what is wrong and what mends it."""

from dataclasses import dataclass
from enum import StrEnum

MIB = 2**20
GIB = 2**30


class Level(StrEnum):
    """How bad a finding is."""

    OK = "ok"
    WARNING = "warning"
    """It works, and will not for long, or not for everybody."""
    PROBLEM = "problem"
    """It does not work."""


@dataclass(frozen=True)
class Finding:
    """The result of a check of one part of the service."""

    part: str
    """What was checked, such as `database`."""
    level: Level
    message: str
    remedy: str | None = None
    """What to do; None if there is nothing to do."""


def ok(part: str, message: str) -> Finding:
    """The part is as it should be."""
    return Finding(part, Level.OK, message)


def warning(part: str, message: str, remedy: str) -> Finding:
    """The part works, but for a limit that the message names."""
    return Finding(part, Level.WARNING, message, remedy)


def problem(part: str, message: str, remedy: str) -> Finding:
    """The part does not work."""
    return Finding(part, Level.PROBLEM, message, remedy)


def size(size_bytes: float) -> str:
    """A size in MiB or GiB."""
    if size_bytes < GIB:
        return f"{size_bytes / MIB:,.1f} MiB"
    return f"{size_bytes / GIB:,.1f} GiB"
