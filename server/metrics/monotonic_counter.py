"""Monotonic counters over numbers that decrease when rows are deleted."""

from collections.abc import Hashable


class MonotonicCounter:
    """Adds up the increases of each number, by key."""

    def __init__(self) -> None:
        self._last: dict[Hashable, float] = {}
        self._total: dict[Hashable, float] = {}

    def total(self, key: Hashable, number: float) -> float:
        """The sum of all increases of the number with this key."""
        grown = max(0.0, number - self._last.get(key, 0.0))
        self._last[key] = number
        self._total[key] = self._total.get(key, 0.0) + grown
        return self._total[key]

    def sum(self) -> float:
        """The sum over all keys, including those that are not updated any more."""
        return sum(self._total.values())
