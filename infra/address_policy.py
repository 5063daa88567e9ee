"""Which network addresses messages may be sent to: public ones, and networks that are allowed.

Standard library alone: the process that sends to services checks with it, too.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from typing import Final

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

METADATA: Final = frozenset(
    map(ip_address, ("169.254.169.254", "169.254.170.2", "100.100.100.200", "fd00:ec2::254"))
)
"""Where clouds hand out credentials; no setting allows them."""
NAT64: Final = ip_network("64:ff9b::/96")
NEVER: Final = tuple(
    map(
        ip_network,
        (
            "64:ff9b:1::/48",  # NAT64 of a local network
            "2001::/32",  # Teredo, which names a server and a client
            "::/96",  # IPv4-compatible
            "fec0::/10",  # site-local
            "100::/64",  # discard only
        ),
    )
)
"""Networks whose addresses are private, or stand for others, and that `is_global` does not know."""


class AddressRefused(OSError):
    """The address is private, and no allowed network contains it."""

    def __init__(self, address: str) -> None:
        super().__init__(
            f"Expected a public address, or one in AMPCORE_NOTIFY_NETWORKS; received {address}."
        )


@dataclass(frozen=True)
class AddressPolicy:
    """The addresses that messages may be sent to.

    Attributes:
        networks: What is allowed besides public addresses.
    """

    networks: Sequence[Network] = ()

    def check(self, text: str) -> None:
        """Raise AddressRefused unless messages may be sent to the address.

        Args:
            text: An address as the resolver returns it.
        """
        try:
            address = ip_address(text)
        except ValueError:
            raise AddressRefused(text) from None
        forms = {address, _meant(address)}
        if forms & METADATA:
            raise AddressRefused(text)
        if any(form in network for form in forms for network in self.networks):
            return
        if not _is_public(_meant(address)):
            raise AddressRefused(text)


def _meant(address: Address) -> Address:
    """The IPv4 address that an IPv6 address stands for; else the address itself."""
    if isinstance(address, IPv4Address):
        return address
    plain = IPv6Address(int(address))  # without the zone
    if plain in NAT64:
        return IPv4Address(int(plain) & 0xFFFF_FFFF)
    return plain.ipv4_mapped or plain.sixtofour or plain


def _is_public(address: Address) -> bool:
    is_special = (
        address.is_private
        or address.is_loopback
        or address.is_link_local
        or address.is_multicast
        or address.is_unspecified
        or address.is_reserved
        or not address.is_global
    )
    return not is_special and not any(address in network for network in NEVER)
