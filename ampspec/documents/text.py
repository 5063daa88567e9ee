"""Counts and lists of names for messages."""

from collections.abc import Iterable, Sequence
from typing import Final

MAX_NAMES: Final = 5


def plural(count: int, noun: str) -> str:
    """A count and its noun: `1 step`, `2,000 steps`."""
    return f"{count:,} {noun}{'s' * (count != 1)}"


def join_names(names: Iterable[object], max_names: int = MAX_NAMES) -> str:
    """The first `max_names` names, separated by commas, and how many more there are."""
    every = list(names)
    more = len(every) - max_names
    return ", ".join(map(str, every[:max_names])) + (f" and {more} more" if more > 0 else "")


def first_names(names: Sequence[str]) -> str:
    """The first names of a list that may be truncated, so the remaining names are not counted."""
    return ", ".join(names[:MAX_NAMES]) + (", …" if len(names) > MAX_NAMES else "")
