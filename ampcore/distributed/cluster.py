"""Cluster: the ranks of a job, as one of them sees them. It needs no TensorFlow.

A rank is a process that trains the job's weights on one device; all ranks make each step together.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NoReturn, Self, TypeGuard

MAX_RANKS: Final = 1024
"""The largest number of ranks of a job."""

DEFAULT_TIMEOUT_S: Final = 60.0
"""How long a rank waits for the others, unless it is told otherwise."""

MAX_TIMEOUT_S: Final = 86_400.0

_LARGEST_PORT: Final = 65_535
_FIELDS: Final = (
    "addresses", "rank", "local_rank", "timeout_s", "heartbeat_timeout_s", "control_port"
)  # fmt: skip


@dataclass(frozen=True)
class Cluster:
    """The addresses of a job's ranks, and which of them this process is.

    Args:
        addresses: "host:port" of every rank, in order of rank; an IPv6 host in brackets.
        rank: The number of this rank, from 0.
        local_rank: The number of this rank's device on its machine, from 0.
        timeout_s: How long this rank waits for the others, while they connect and in a collective,
            before it ends with an error.
        heartbeat_timeout_s: A connected rank that has sent nothing for so long is lost, also while
            nobody waits for it. A rank sends heartbeats even if it is slow. None: `timeout_s`.
        control_port: Where rank 0 listens for the control channel; 0: on any free port, of which it
            informs the others.

    Raises:
        ValueError: A value is not possible; the message names the field.
    """

    addresses: tuple[str, ...]
    rank: int
    local_rank: int = 0
    timeout_s: float = DEFAULT_TIMEOUT_S
    heartbeat_timeout_s: float | None = None
    control_port: int = 0

    def __post_init__(self) -> None:
        if not 1 <= len(self.addresses) <= MAX_RANKS:
            _refuse("addresses", f"1 to {MAX_RANKS} addresses", f"{len(self.addresses)} of them")
        for number, address in enumerate(self.addresses):
            if not _is_address(address):
                _refuse(f"addresses[{number}]", 'text "host:port"', repr(address))
            if address in self.addresses[:number]:
                _refuse(f"addresses[{number}]", "another address for each rank", repr(address))
        if not _is_count(self.rank) or self.rank >= len(self.addresses):
            _refuse("rank", f"an integer from 0 to {len(self.addresses) - 1}", repr(self.rank))
        if not _is_count(self.local_rank):
            _refuse("local_rank", "an integer from 0", repr(self.local_rank))
        _check_seconds("timeout_s", self.timeout_s)
        if self.heartbeat_timeout_s is not None:
            _check_seconds("heartbeat_timeout_s", self.heartbeat_timeout_s)
        if not _is_count(self.control_port) or self.control_port > _LARGEST_PORT:
            _refuse("control_port", f"a port from 0 to {_LARGEST_PORT}", repr(self.control_port))

    @property
    def silence_limit_s(self) -> float:
        """After so many seconds without a message, a connected rank is lost."""
        return self.timeout_s if self.heartbeat_timeout_s is None else self.heartbeat_timeout_s

    @property
    def size(self) -> int:
        """The number of ranks."""
        return len(self.addresses)

    def to_json(self) -> dict[str, Any]:
        """The document that `from_json` reads."""
        return {
            "addresses": list(self.addresses),
            "rank": self.rank,
            "local_rank": self.local_rank,
            "timeout_s": self.timeout_s,
            "heartbeat_timeout_s": self.heartbeat_timeout_s,
            "control_port": self.control_port,
        }

    @classmethod
    def from_json(cls, document: object) -> Self:
        """Read a decoded document, or its text.

        Raises:
            ValueError: It is none of a cluster; the message names the field.
        """
        if isinstance(document, str | bytes):
            try:
                document = json.loads(document)
            except ValueError as error:
                raise ValueError(f"cluster: expected JSON; received {error}.") from None
        if not isinstance(document, Mapping):
            _refuse("cluster", "an object", type(document).__name__)
        for name in document.keys() - set(_FIELDS):
            _refuse(str(name), f"one of {', '.join(_FIELDS)}", "an unknown field")
        for name in ("addresses", "rank"):
            if name not in document:
                _refuse(name, "a value", "none")
        addresses = document["addresses"]
        if not isinstance(addresses, list | tuple):
            _refuse("addresses", "a list", type(addresses).__name__)
        return cls(
            addresses=tuple(addresses),
            rank=document["rank"],
            local_rank=document.get("local_rank", 0),
            timeout_s=document.get("timeout_s", DEFAULT_TIMEOUT_S),
            heartbeat_timeout_s=document.get("heartbeat_timeout_s"),
            control_port=document.get("control_port", 0),
        )


def _is_address(value: object) -> bool:
    if not isinstance(value, str):
        return False
    host, _, port = value.rpartition(":")
    is_bare = ":" not in host or (host.startswith("[") and host.endswith("]"))
    has_host = bool(host) and is_bare and not any(char.isspace() for char in host)
    is_port = port.isascii() and port.isdigit() and len(port) <= len(str(_LARGEST_PORT))
    return has_host and is_port and 0 < int(port) <= _LARGEST_PORT


def _check_seconds(field: str, value: object) -> None:
    if not _is_number(value) or not 0 < value <= MAX_TIMEOUT_S:
        expected = f"a number of seconds above 0, at most {MAX_TIMEOUT_S:.0f}"
        _refuse(field, expected, repr(value))


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _refuse(field: str, expected: str, received: str) -> NoReturn:
    raise ValueError(f"{field}: expected {expected}; received {received}.")
