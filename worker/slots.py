"""The slots of this worker: how many jobs and ranks of gangs it runs at a time."""

import threading
from collections import Counter
from collections.abc import Sequence
from typing import Final

MAX_SLOTS: Final = 1024
"""The most slots of a worker."""


class Slots:
    """A number of slots; thread-safe. A job takes one, a gang one for each of its ranks here."""

    def __init__(self, count: int) -> None:
        self._free = count
        self._lock = threading.Lock()

    @property
    def free(self) -> int:
        """The number of free slots."""
        with self._lock:
            return self._free

    def take(self, count: int = 1) -> bool:
        """Take this number of slots; False, and none taken, if fewer are free."""
        with self._lock:
            if self._free < count:
                return False
            self._free -= count
            return True

    def give_back(self, count: int = 1) -> None:
        """Give slots back that were taken."""
        with self._lock:
            self._free += count


class Devices:
    """Which devices of this machine have ranks; thread-safe."""

    def __init__(self) -> None:
        self._ranks: Counter[int] = Counter()
        self._lock = threading.Lock()

    def take(self, count: int, devices: int) -> list[int]:
        """The numbers of `count` of the devices, those with the fewest ranks first.

        With fewer devices than that, such as on a machine without GPUs: the numbers from 0.
        """
        if devices < count:
            return list(range(count))
        with self._lock:
            numbers = sorted(range(devices), key=lambda number: (self._ranks[number], number))
            self._ranks.update(numbers[:count])
            return sorted(numbers[:count])

    def give_back(self, taken: Sequence[int], devices: int) -> None:
        """Give back what `take` returned."""
        if devices >= len(taken):
            with self._lock:
                self._ranks.subtract(taken)
