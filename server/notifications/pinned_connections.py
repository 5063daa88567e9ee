"""Connections to checked addresses: what is connected to is what was checked.

A name is resolved once for each connection, all of its addresses are checked, and one of them is
connected to. A second answer of the resolver (DNS rebinding) is never asked for.
"""

import socket
import ssl
import time
from collections.abc import Callable, Iterable
from typing import Any, Final

import httpcore
from httpcore import NetworkBackend, NetworkStream

from infra.address_policy import AddressPolicy

Resolver = Callable[..., list[Any]]
MAX_ADDRESSES: Final = 4
"""Of a name; those after them are not tried."""


class PinnedBackend(NetworkBackend):
    """Connects to checked addresses alone, and ends every wait at a deadline.

    Args:
        policy: The addresses that are allowed.
        deadline: When everything must have ended, by `time.monotonic`.
        resolve: As `socket.getaddrinfo`.
    """

    def __init__(
        self, policy: AddressPolicy, deadline: float, resolve: Resolver | None = None
    ) -> None:
        self._policy, self._deadline = policy, deadline
        self._resolve = resolve or socket.getaddrinfo
        self._backend = httpcore.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> NetworkStream:
        """Connect to the first address of the host that answers. Raises AddressRefused."""
        try:
            entries = self._resolve(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            raise httpcore.ConnectError(f"the name {host} cannot be resolved: {error}") from error
        addresses = list(dict.fromkeys(str(entry[4][0]) for entry in entries))
        for address in addresses:
            self._policy.check(address)
        failure: Exception = httpcore.ConnectError(f"the name {host} has no address")
        for address in addresses[:MAX_ADDRESSES]:
            try:
                stream = self._backend.connect_tcp(
                    address, port, remaining_s(self._deadline), local_address, socket_options
                )
            except httpcore.ConnectError as error:
                failure = error
            else:
                return _BoundedStream(stream, self._deadline)
        raise failure


class _BoundedStream(NetworkStream):
    """A stream whose reads and writes end at a deadline, however slowly bytes arrive."""

    def __init__(self, stream: NetworkStream, deadline: float) -> None:
        self._stream, self._deadline = stream, deadline

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, remaining_s(self._deadline))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._stream.write(buffer, remaining_s(self._deadline))

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> NetworkStream:
        left_s = remaining_s(self._deadline)
        stream = self._stream.start_tls(ssl_context, server_hostname, left_s)
        return _BoundedStream(stream, self._deadline)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


def remaining_s(deadline: float) -> float:
    """The seconds until the deadline. Raises httpcore.ReadTimeout when it is over."""
    seconds = deadline - time.monotonic()
    if seconds <= 0:
        raise httpcore.ReadTimeout("it took too long")
    return seconds
