"""Decide which connections stay open: limits per address and in total, fair between addresses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final, Protocol

MAX_CONNECTIONS: Final = 4000
PER_ADDRESS: Final = 1000
"""Connections per address; trusted proxies may have more."""
UNFINISHED_PER_ADDRESS: Final = 500
"""Connections per address without a complete request: allows bursts, limits slow attacks."""
MAX_REFUSED: Final = 100
"""Refused connections that are kept open to send the reason; beyond that they are reset."""


class Phase(Enum):
    """The phase of a connection."""

    UNFINISHED = "unfinished"
    """Its request is incomplete: nothing, a part of the head, or a part of the body has arrived."""
    BUSY = "busy"
    """A complete request is being handled."""
    IDLE = "idle"
    """Between two requests."""


class TrackedConnection(Protocol):
    """A connection, as this module uses it."""

    address: str

    def drop(self) -> None:
        """Close it now."""


class Admission(Enum):
    """The decision about a new connection."""

    ADMITTED = "admitted"
    ADDRESS_FULL = "address full"
    SERVER_FULL = "server full"
    """Refused, with a response that says why."""
    RESET = "reset"
    """Refused and closed at once: too many refused ones are open already."""


@dataclass(frozen=True)
class ConnectionLimits:
    """The maximum numbers of connections."""

    total: int = MAX_CONNECTIONS
    per_address: int = PER_ADDRESS
    unfinished_per_address: int = UNFINISHED_PER_ADDRESS

    @property
    def unfinished_per_proxy(self) -> int:
        """The limit of a proxy, which has many clients; it leaves room for direct ones."""
        return max(self.unfinished_per_address, self.total // 2)


ConnectionQueue = dict[TrackedConnection, None]
"""Connections, ordered by the time since which they are in their phase."""


class OpenConnections:
    """The connections of one server. Used only in its event loop."""

    def __init__(self, limits: ConnectionLimits, is_proxy: Callable[[str], bool]) -> None:
        self.limits = limits
        self._is_proxy = is_proxy
        self._phases: dict[TrackedConnection, Phase] = {}
        self._refused: set[TrackedConnection] = set()
        self._by_address: Counter[str] = Counter()
        self._waiting: dict[Phase, dict[str, ConnectionQueue]] = {
            Phase.UNFINISHED: {},
            Phase.IDLE: {},
        }
        """The number of connections by address, without zeros."""

    def __len__(self) -> int:
        return len(self._phases)

    def admit(self, new: TrackedConnection) -> Admission:
        """Count a new connection, and close another one for it if necessary."""
        address, is_proxy = new.address, self._is_proxy(new.address)
        limits = self.limits
        max_unfinished = limits.unfinished_per_proxy if is_proxy else limits.unfinished_per_address
        if len(self._waiting[Phase.UNFINISHED].get(address, ())) >= max_unfinished:
            self._drop_oldest(Phase.UNFINISHED, address)
        is_full = not is_proxy and self._by_address[address] >= limits.per_address
        if is_full and not self._drop_oldest(Phase.IDLE, address):
            return self._refuse(new, Admission.ADDRESS_FULL)
        if len(self) >= limits.total and not self._make_room():
            return self._refuse(new, Admission.SERVER_FULL)
        self._phases[new] = Phase.UNFINISHED
        self._by_address[address] += 1
        self._join_queue(new, Phase.UNFINISHED)
        return Admission.ADMITTED

    def enter(self, connection: TrackedConnection, phase: Phase) -> None:
        """Record the new phase of a connection; a refused one is ignored."""
        last_phase = self._phases.get(connection)
        if last_phase is None or last_phase is phase:
            return
        self._leave_queue(connection, last_phase)
        self._phases[connection] = phase
        self._join_queue(connection, phase)

    def remove(self, connection: TrackedConnection) -> None:
        """Remove a closed connection."""
        self._refused.discard(connection)
        phase = self._phases.pop(connection, None)
        if phase is None:
            return
        self._leave_queue(connection, phase)
        self._by_address[connection.address] -= 1
        if not self._by_address[connection.address]:
            del self._by_address[connection.address]

    def _refuse(self, new: TrackedConnection, admission: Admission) -> Admission:
        if len(self._refused) >= MAX_REFUSED:
            return Admission.RESET
        self._refused.add(new)
        return admission

    def _make_room(self) -> bool:
        """Close a waiting connection of the address that has most of them."""
        for phase in (Phase.UNFINISHED, Phase.IDLE):
            queues = self._waiting[phase]
            if queues:
                return self._drop_oldest(
                    phase, max(queues, key=lambda address: len(queues[address]))
                )
        return False

    def _drop_oldest(self, phase: Phase, address: str) -> bool:
        oldest = next(iter(self._waiting[phase].get(address, ())), None)
        if oldest is not None:
            self._drop(oldest)
        return oldest is not None

    def _drop(self, connection: TrackedConnection) -> None:
        self.remove(connection)
        connection.drop()

    def _join_queue(self, connection: TrackedConnection, phase: Phase) -> None:
        if phase is not Phase.BUSY:
            self._waiting[phase].setdefault(connection.address, {})[connection] = None

    def _leave_queue(self, connection: TrackedConnection, phase: Phase) -> None:
        if phase is Phase.BUSY:
            return
        queues = self._waiting[phase]
        del queues[connection.address][connection]
        if not queues[connection.address]:
            del queues[connection.address]
