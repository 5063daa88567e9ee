"""Which connections may stay open: bounds for each address and in all, fair between addresses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final, Protocol

MAX_CONNECTIONS: Final = 4000
PER_ADDRESS: Final = 1000
"""Of an address that is no trusted proxy."""
UNFINISHED_PER_ADDRESS: Final = 500
"""So many new clients of one address may come in one moment; nobody sends so many slowly."""
MAX_REFUSED: Final = 100
"""Connections beyond the total that are kept until they can be told why; all others are reset."""


class Phase(Enum):
    """What a connection is doing."""

    UNFINISHED = "unfinished"
    """Its request is not complete: nothing, a part of the head, or a part of the body is there."""
    BUSY = "busy"
    """A complete request is being answered."""
    IDLE = "idle"
    """Between two requests."""


class Droppable(Protocol):
    """A connection, as far as this module knows it."""

    address: str

    def drop(self) -> None:
        """End it now."""


class Verdict(Enum):
    """What becomes of a new connection."""

    KEPT = "kept"
    ADDRESS_FULL = "address full"
    SERVER_FULL = "server full"
    """Refused, and told why."""
    UNHEARD = "unheard"
    """Refused, and ended at once: too many are being told why already."""


@dataclass(frozen=True)
class Bounds:
    """How many connections there may be."""

    in_all: int = MAX_CONNECTIONS
    per_address: int = PER_ADDRESS
    unfinished_per_address: int = UNFINISHED_PER_ADDRESS

    @property
    def unfinished_per_proxy(self) -> int:
        """A proxy stands for many clients, and leaves room for those that come directly."""
        return max(self.unfinished_per_address, self.in_all // 2)


Queue = dict[Droppable, None]
"""Connections, the one that has been in its phase for longest first."""


class OpenConnections:
    """The connections of one server. Used in its event loop only."""

    def __init__(self, bounds: Bounds, is_proxy: Callable[[str], bool]) -> None:
        self.bounds = bounds
        self._is_proxy = is_proxy
        self._phases: dict[Droppable, Phase] = {}
        self._refused: set[Droppable] = set()
        self._by_address: Counter[str] = Counter()
        self._waiting: dict[Phase, dict[str, Queue]] = {Phase.UNFINISHED: {}, Phase.IDLE: {}}
        """By address; an address that has none is not in it."""

    def __len__(self) -> int:
        return len(self._phases)

    def admit(self, new: Droppable) -> Verdict:
        """Count a new connection, and drop what has to go for it."""
        address, is_proxy = new.address, self._is_proxy(new.address)
        bounds = self.bounds
        most = bounds.unfinished_per_proxy if is_proxy else bounds.unfinished_per_address
        if len(self._waiting[Phase.UNFINISHED].get(address, ())) >= most:
            self._drop_oldest(Phase.UNFINISHED, address)
        is_full = not is_proxy and self._by_address[address] >= bounds.per_address
        if is_full and not self._drop_oldest(Phase.IDLE, address):
            return self._refuse(new, Verdict.ADDRESS_FULL)
        if len(self) >= bounds.in_all and not self._make_room():
            return self._refuse(new, Verdict.SERVER_FULL)
        self._phases[new] = Phase.UNFINISHED
        self._by_address[address] += 1
        self._join_queue(new, Phase.UNFINISHED)
        return Verdict.KEPT

    def enter(self, connection: Droppable, phase: Phase) -> None:
        """The connection is in another phase now; one that was refused stays unknown."""
        before = self._phases.get(connection)
        if before is None or before is phase:
            return
        self._leave_queue(connection, before)
        self._phases[connection] = phase
        self._join_queue(connection, phase)

    def remove(self, connection: Droppable) -> None:
        """The connection is gone."""
        self._refused.discard(connection)
        phase = self._phases.pop(connection, None)
        if phase is None:
            return
        self._leave_queue(connection, phase)
        self._by_address[connection.address] -= 1
        if not self._by_address[connection.address]:
            del self._by_address[connection.address]

    def _refuse(self, new: Droppable, verdict: Verdict) -> Verdict:
        if len(self._refused) >= MAX_REFUSED:
            return Verdict.UNHEARD
        self._refused.add(new)
        return verdict

    def _make_room(self) -> bool:
        """Drop a connection that waits, of the address that has the most of them."""
        for phase in (Phase.UNFINISHED, Phase.IDLE):
            queues = self._waiting[phase]
            if queues:
                return self._drop_oldest(phase, max(queues, key=lambda one: len(queues[one])))
        return False

    def _drop_oldest(self, phase: Phase, address: str) -> bool:
        oldest = next(iter(self._waiting[phase].get(address, ())), None)
        if oldest is not None:
            self._drop(oldest)
        return oldest is not None

    def _drop(self, connection: Droppable) -> None:
        self.remove(connection)
        connection.drop()

    def _join_queue(self, connection: Droppable, phase: Phase) -> None:
        if phase is not Phase.BUSY:
            self._waiting[phase].setdefault(connection.address, {})[connection] = None

    def _leave_queue(self, connection: Droppable, phase: Phase) -> None:
        if phase is Phase.BUSY:
            return
        queues = self._waiting[phase]
        del queues[connection.address][connection]
        if not queues[connection.address]:
            del queues[connection.address]
