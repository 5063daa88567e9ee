"""What all attempts of a worker share: where they write, what they use, how long they may take."""

import threading
from dataclasses import dataclass, field
from pathlib import Path

from service.bells import Bell
from service.storage import Storage
from store.database import Database
from store.leases import LEASE_S, SELF_FENCE_S
from worker.halts import GRACE_S
from worker.isolation import Isolation
from worker.memory_kills import MemoryKills, events_file
from worker.meter import Meter
from worker.scratch import Scratch
from worker.spool import ROOM_BYTES
from worker.standby import READY_S, Standby


@dataclass(frozen=True)
class Workshop:
    """One worker's means; opens nothing by itself."""

    worker_id: str
    queues: tuple[str, ...]
    database: Database
    storage: Storage
    scratch: Scratch
    standby: Standby
    data_root: Path
    bell: Bell
    isolation: Isolation | None = None
    """How its trainers are confined; None: not at all."""
    lease_s: float = LEASE_S
    grace_s: float = GRACE_S
    self_fence_s: float = SELF_FENCE_S
    room_bytes: int = ROOM_BYTES
    ready_s: float = READY_S
    memory_events: Path | None = field(default_factory=events_file)
    meter: Meter = field(default_factory=Meter)
    shutting_down: threading.Event = field(default_factory=threading.Event)

    def memory_kills(self) -> MemoryKills:
        """A new count, for one attempt."""
        return MemoryKills(self.memory_events)
