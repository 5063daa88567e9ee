"""The client's address and scheme, as the trusted proxies in front of the server report them.

Each proxy appends the address that it received the request from to `X-Forwarded-For`. Entries to
the left of those of trusted proxies come from the client and cannot be trusted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:  # the worker's image has this module, but no web framework
    from starlette.types import ASGIApp, Receive, Scope, Send


Network = IPv4Network | IPv6Network

MAX_HOPS: Final = 20
"""The maximum number of X-Forwarded-For entries that are read, from the right."""
SCHEMES: Final = frozenset({"http", "https"})


class HostAndPort(NamedTuple):
    """The address of a client; the port is 0 if unknown."""

    host: str
    port: int


class ClientAddress:
    """ASGI middleware: sets `client` and `scheme` of a request that came through a trusted proxy.

    Args:
        app: The ASGI application.
        trusted: The addresses of the proxies. The headers of all other peers are ignored.
    """

    def __init__(self, app: ASGIApp, trusted: Sequence[Network]) -> None:
        self.app = app
        self._is_trusted = trusted_checker(trusted)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Call the application with the client in the scope."""
        if scope["type"] == "http" and scope.get("client"):
            self._resolve(scope)
        await self.app(scope, receive, send)

    def _resolve(self, scope: Scope) -> None:
        host, port = scope["client"][:2]
        peer = HostAndPort(normalized_address(host), port)
        scope["client"] = peer
        if not self._is_trusted(peer.host):
            return
        hops = _values(scope, b"x-forwarded-for")
        depth, scope["client"] = _nearest_untrusted(peer, hops, self._is_trusted)
        if scheme := _scheme(_values(scope, b"x-forwarded-proto"), depth):
            scope["scheme"] = scheme


def trusted_checker(networks: Sequence[Network]) -> Callable[[str], bool]:
    """A function that returns whether an address is in one of the networks."""

    @lru_cache(maxsize=4096)
    def is_trusted(host: str) -> bool:
        address = _parsed(host)
        return address is not None and any(address in network for network in networks)

    return is_trusted


@lru_cache(maxsize=4096)
def normalized_address(host: str) -> str:
    """The address in its usual form: an IPv4 address that came over an IPv6 socket as IPv4."""
    address = _parsed(host.partition("%")[0])
    return str(address) if address is not None else host


def _nearest_untrusted(
    peer: HostAndPort, hops: Sequence[str], is_trusted: Callable[[str], bool]
) -> tuple[int, HostAndPort]:
    """The index of the client's entry from the right (0 is the peer), and the client."""
    client, depth = peer, 0
    for hop in reversed(hops[-MAX_HOPS:]):
        reported = _client(hop)
        if reported is None:  # a proxy did not report it; the nearest known address is the proxy's
            break
        client, depth = reported, depth + 1
        if not is_trusted(client.host):
            break
    return depth, client


def _scheme(values: Sequence[str], depth: int) -> str | None:
    """The scheme that the client used; proxies send one value for all, or one each."""
    from_right = 1 if len(values) == 1 else max(depth, 1)
    scheme = values[-from_right].lower() if from_right <= len(values) else ""
    return scheme if scheme in SCHEMES else None


def _values(scope: Scope, header: bytes) -> list[str]:
    """The comma-separated values of a header, which may be sent several times."""
    joined = b",".join(value for name, value in scope["headers"] if name == header)
    return [value.strip() for value in joined.decode("latin-1").split(",")] if joined else []


def _client(text: str) -> HostAndPort | None:
    """The address in an entry: `192.0.2.1`, or with a port `192.0.2.1:80`, `[2001:db8::1]:80`."""
    host, port = text, ""
    if text.startswith("[") and "]" in text:
        host, _, port = text[1:].partition("]")
        port = port.removeprefix(":")
    elif text.count(":") == 1:
        host, _, port = text.partition(":")
    address = _parsed(host)
    if address is None:
        return None
    number = int(port) if port.isascii() and port.isdecimal() and len(port) <= 5 else 0
    return HostAndPort(str(address), number)


def _parsed(host: str) -> IPv4Address | IPv6Address | None:
    try:
        address = ip_address(host)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address
