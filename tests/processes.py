"""Questions about processes that may end at any moment: each has an answer then, too."""

import psutil


def has_ended(process: psutil.Process) -> bool:
    """Whether nothing of a process is left but perhaps an entry that its parent has not removed."""
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def is_gone(pid: int) -> bool:
    """The same of a process id."""
    try:
        return has_ended(psutil.Process(pid))
    except psutil.NoSuchProcess:
        return True


def name_of(process: psutil.Process) -> str:
    """What `ps -o comm` calls it; empty when it has ended."""
    try:
        return str(process.name())
    except psutil.Error:
        return ""


def command_of(process: psutil.Process) -> str:
    """Its command line; empty when it has ended, and for a moment after its program was started."""
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def children_of(process: psutil.Process, *, recursive: bool = False) -> list[psutil.Process]:
    """Its children, and theirs where `recursive`; none when it has ended."""
    try:
        return list(process.children(recursive=recursive))
    except psutil.NoSuchProcess:
        return []
