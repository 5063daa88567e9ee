"""How many ways of matching a regular expression may try, so that none can keep a process busy.

Python's `re` goes back and tries every other way to match; no timeout ends it. The rule holds for
every spec, wherever it comes from: it is a part of reading one.
"""

import re._parser as parser  # type: ignore[import-not-found]
from collections.abc import Iterable, Sequence
from typing import Any, Final

MAX_STEPS: Final = 20_000_000
"""About a second of searching."""

PATH_LENGTH: Final = 40
"""Characters of a layer's path; few are longer."""

MOST_WAYS: Final = 10**9
"""Ways are not counted beyond."""


def too_slow(patterns: Iterable[str]) -> bool:
    """Whether searching the path of one layer for all these patterns could take over a second."""
    return sum(ways_to_match(pattern, PATH_LENGTH) for pattern in set(patterns)) > MAX_STEPS


def ways_to_match(pattern: str, length: int) -> int:
    """At most so many ways of matching a text of `length` characters may be tried.

    `(a+)+` has thousands where `a+` has as many as there are characters. Capped at MOST_WAYS.
    """
    return min(length * _sequence(parser.parse(pattern), length), MOST_WAYS)


def _sequence(nodes: Sequence[tuple[Any, Any]], length: int) -> int:
    ways = 1
    for operation, argument in nodes:
        ways = min(ways * _node(operation, argument, length), MOST_WAYS)
    return ways


def _repeated(least: int, most: int, body: Any, length: int) -> int:
    """Where the body stops is a choice of its own each time, unless it has just one."""
    inside = _sequence(body, length)
    if body.getwidth()[0] > 0:  # each time takes a letter
        rounds, times = 1, min(most, length)
        fixed = min(least, length)
    else:  # what may match nothing is tried as often as it must be, however short the text
        rounds, times = max(least, 1), least + min(most - least, length)
        fixed = least
    ways = inside**times if times <= length or inside == 1 else MOST_WAYS
    return min(rounds * (times - fixed + 1) * ways, MOST_WAYS)


def _node(operation: Any, argument: Any, length: int) -> int:
    match str(operation), argument:
        case "BRANCH", (_, branches):
            return sum(_sequence(branch, length) for branch in branches)
        case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT", (least, most, body):
            return _repeated(int(least), int(most), body, length)
        case "SUBPATTERN", (*_, body):
            return _sequence(body, length)
        case "ASSERT" | "ASSERT_NOT", (_, body):
            return _sequence(body, length)
        case "ATOMIC_GROUP", body:
            return _sequence(body, length)
        case "GROUPREF_EXISTS", (_, yes, no):
            return _sequence(yes, length) + _sequence(no or (), length)
    return 1
