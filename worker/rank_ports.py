"""The addresses of a worker's ranks: its host as the other workers reach it, and free ports."""

import errno
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import islice
from typing import Any, Final
from urllib.parse import urlsplit

LOOPBACK: Final = "127.0.0.1"
PORTS_OF_SLOT: Final = 2
"""A rank listens on a port, and rank 0 on one more, for the control channel."""
Ports = tuple[int, ...] | None
ANY_PORT: Final = 9
"""A port for a datagram socket that never sends anything."""


class RankPorts:
    """Free TCP ports, which stay bound until the ranks start.

    Args:
        host: The host of the addresses.
        count: How many.
        allowed: The ports to choose from; None: any.

    Raises:
        OSError: Not enough ports are free.
    """

    def __init__(self, host: str, count: int, allowed: range | None = None) -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        with ExitStack() as sockets:
            ports = []
            for bound in islice(_bound_sockets(family, count, allowed), count):
                sockets.enter_context(bound)
                ports.append(bound.getsockname()[1])
            if len(ports) < count:
                raise OSError(f"{count} ports are needed, but {len(ports)} of {allowed} are free")
            self._sockets = sockets.pop_all()
        shown = f"[{host}]" if ":" in host else host
        self.addresses = [f"{shown}:{port}" for port in ports]

    def close(self) -> None:
        """Free the ports: a rank listens on each now. Another process may take one before."""
        self._sockets.close()


def _bound_sockets(family: int, count: int, allowed: range | None) -> Iterator[socket.socket]:
    """Sockets that are each bound to a port."""
    if allowed is None:
        yield from (_bound(family, 0) for _ in range(count))
        return
    # Ports with connections of an earlier attempt that wait for late packets come last: another
    # worker could choose them, too, which the ranks would notice.
    for reuse in (False, True):
        for port in allowed:
            try:
                bound = _bound(family, port, reuse=reuse)
            except OSError as error:
                if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                    raise
            else:
                yield bound


def _bound(family: int, port: int, *, reuse: bool = False) -> socket.socket:
    bound = socket.socket(family)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, reuse)
        bound.bind(("", port))
    except OSError:
        bound.close()
        raise
    return bound


def port_of(address: str) -> int:
    """The port of "host:port"."""
    return int(address.rpartition(":")[2])


def local_addresses(addresses: Sequence[str], host: str) -> list[str]:
    """The addresses of ranks; on the loopback interface if all of them are on this host.

    Such ranks close their ports to other machines.
    """
    hosts = {address.rpartition(":")[0].strip("[]") for address in addresses}
    if hosts != {host}:
        return list(addresses)
    return [f"{LOOPBACK}:{port_of(address)}" for address in addresses]


def accelerators_in(hardware: Mapping[str, Any] | None) -> int:
    """The number of GPUs of a machine, as its trainer has described it."""
    devices = (hardware or {}).get("devices") or ()
    return sum(isinstance(device, dict) and device.get("kind") != "cpu" for device in devices)


def ports_of(cluster: Mapping[str, Any], hardware: Mapping[str, Any] | None) -> Ports:
    """The ports that the ranks of a cluster use; None: all, with GPUs, where NCCL chooses some."""
    if accelerators_in(hardware):
        return None
    ports = {port_of(address) for address in cluster["addresses"]} | {cluster["control_port"]}
    return tuple(sorted(ports - {0}))


def own_host(database_url: str) -> str:
    """The address of this machine on the network of its database; the loopback address if local."""
    host = urlsplit(database_url).hostname
    if host is None or database_url.startswith("sqlite"):
        return LOOPBACK
    try:
        [(family, kind, _, _, address), *_] = socket.getaddrinfo(
            host, ANY_PORT, type=socket.SOCK_DGRAM
        )
        with socket.socket(family, kind) as probe:
            probe.connect(address)  # sends nothing: it selects the network interface
            return str(probe.getsockname()[0])
    except OSError:
        return LOOPBACK
