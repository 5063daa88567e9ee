"""Free ports for servers, and checks of processes that may end at any moment."""

import random
import socket
from contextlib import ExitStack
from pathlib import Path

import psutil

EPHEMERAL_PORT_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
LOWEST_PORT = 10_000


def free_port() -> int:
    """A free port of 127.0.0.1, outside the range of ephemeral ports.

    The system assigns ephemeral ports to clients: one of those could be taken before the test
    uses it, or while its server restarts.
    """
    return free_ports(1).start


def free_ports(count: int) -> range:
    """Free ports one after the other, as `free_port`."""
    first_ephemeral = (
        int(EPHEMERAL_PORT_RANGE.read_text().split()[0])
        if EPHEMERAL_PORT_RANGE.exists()
        else 32_768
    )
    while True:
        first = random.SystemRandom().randrange(LOWEST_PORT, first_ephemeral - count)
        ports = range(first, first + count)
        try:
            with ExitStack() as servers:
                for port in ports:
                    servers.enter_context(socket.create_server(("127.0.0.1", port)))
            return ports
        except OSError:  # in use
            continue


def has_ended(process: psutil.Process) -> bool:
    """Whether a process has exited; a zombie counts as ended."""
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def is_gone(pid: int) -> bool:
    """Whether the process with this id has ended or does not exist."""
    try:
        return has_ended(psutil.Process(pid))
    except psutil.NoSuchProcess:
        return True


def name_of(process: psutil.Process) -> str:
    """Its name as in `ps -o comm`; empty when it has ended."""
    try:
        return str(process.name())
    except psutil.Error:
        return ""


def command_of(process: psutil.Process) -> str:
    """Its command line; empty when it has ended, and until exec(2) has run."""
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def children_of(process: psutil.Process, *, recursive: bool = False) -> list[psutil.Process]:
    """Its children, and their descendants with `recursive`; empty when it has ended."""
    try:
        return list(process.children(recursive=recursive))
    except psutil.NoSuchProcess:
        return []
