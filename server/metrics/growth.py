"""Counters that never fall, over numbers that do when rows are deleted."""

from collections.abc import Hashable


class Growth:
    """Adds up by how much each of some numbers grows, from what it was at first."""

    def __init__(self) -> None:
        self._last: dict[Hashable, float] = {}
        self._total: dict[Hashable, float] = {}

    def total(self, key: Hashable, number: float) -> float:
        """The number as if it had never fallen."""
        grown = max(0.0, number - self._last.get(key, 0.0))
        self._last[key] = number
        self._total[key] = self._total.get(key, 0.0) + grown
        return self._total[key]

    def sum(self) -> float:
        """All of them together, those that are not told of any more included."""
        return sum(self._total.values())
