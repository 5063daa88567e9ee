"""Machines for the tests: network namespaces, each with its own addresses, ports and firewall.

Containers publish ports in the namespace of their machine, so nothing of the real machine's network
is touched, and everything disappears with the namespace.
"""

import ctypes
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.run_folder import registered_namespace
from tests.waiting import DEADLINE_S

NAMESPACES: Final = Path("/run/netns")
CLONE_NEWNET: Final = 0x40000000
# Of this process before `working_on`; kept open.
_REAL_NETWORK: Final = f"/proc/{os.getpid()}/fd/{os.open('/proc/self/ns/net', os.O_RDONLY)}"


@dataclass(frozen=True)
class Machine:
    """A network namespace; the empty name is the real network, also after `working_on`."""

    name: str = ""

    def command(self, *command: str) -> list[str]:
        """The command that runs another one on the machine."""
        network = str(NAMESPACES / self.name) if self.name else _REAL_NETWORK
        return ["nsenter", f"--net={network}", *command]

    def run(
        self,
        command: Sequence[str],
        environment: Mapping[str, str] | None = None,
        *,
        timeout_s: float = DEADLINE_S,
        check: bool = True,
        stdin: str = "",
        cwd: Path | None = None,
        both_streams: bool = False,
    ) -> str:
        """Run a command on the machine; returns its standard output.

        Raises:
            AssertionError: It failed; the message has all of its output.
        """
        done = subprocess.run(
            self.command(*command),
            env=environment,
            input=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if both_streams else subprocess.PIPE,
            text=True,
            timeout=timeout_s,
            check=False,
            cwd=cwd,
        )
        if check and done.returncode != 0:
            shown = f"{' '.join(command)} exited with {done.returncode}"
            raise AssertionError(f"{shown}:\n{done.stdout}\n{done.stderr or ''}")
        return done.stdout


THIS_MACHINE: Final = Machine()


def are_possible() -> bool:
    """Whether this process may make machines, and connect them."""
    if os.geteuid() != 0 or not all(map(shutil.which, ("ip", "nsenter"))):
        return False
    try:
        with created_machine(f"p{os.getpid()}-a") as first:
            ip("-n", first.name, "link", "add", "probe", "type", "veth", "peer", "other")
    except (AssertionError, OSError):
        return False
    return True


@contextmanager
def created_machine(name: str) -> Iterator[Machine]:
    """A new machine with a loopback interface only; removed at the end."""
    with registered_namespace(name):
        ip("netns", "add", name)
        try:
            ip("-n", name, "link", "set", "lo", "up")
            yield Machine(name)
        finally:
            ip("netns", "delete", name)


def connect(
    first: Machine, first_address: str, second: Machine, second_address: str, suffix: str = ""
) -> None:
    """Connect two machines by a cable; the addresses, without a mask, are in one /30 network.

    The interface of each machine has the name of the other one, followed by the suffix.
    """
    to_first, to_second = first.name + suffix, second.name + suffix
    ends = (first, first_address, to_second), (second, second_address, to_first)
    ip("link", "add", to_second, "netns", first.name, "type", "veth",
       "peer", to_first, "netns", second.name)  # fmt: skip
    for machine, address, interface in ends:
        ip("-n", machine.name, "address", "add", f"{address}/30", "dev", interface)
        ip("-n", machine.name, "link", "set", interface, "up")


@contextmanager
def working_on(machine: Machine) -> Iterator[None]:
    """Let this thread, and the threads that it starts, use the network of the machine."""
    before = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    try:
        _set_namespace(NAMESPACES / machine.name)
        try:
            yield
        finally:
            _set_namespace(Path(f"/proc/self/fd/{before}"))
    finally:
        os.close(before)


def _set_namespace(path: Path) -> None:
    with path.open("rb") as file:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.setns(file.fileno(), CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), f"setns({path})")


def ip(*arguments: str) -> None:
    """Run iproute2's `ip`."""
    THIS_MACHINE.run(["ip", *arguments])
