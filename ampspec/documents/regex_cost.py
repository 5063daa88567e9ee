"""Bounds the backtracking of regular expressions, so that none can block a process.

Python's `re` backtracks through every way to match, and has no timeout. Every spec is checked when
it is parsed, wherever it comes from.
"""

import re._parser as parser  # type: ignore[import-not-found]
from collections.abc import Iterable, Sequence
from typing import Any, Final

MAX_MATCH_STEPS: Final = 20_000_000
"""About one second of matching."""

PATH_LENGTH: Final = 40
"""The assumed length of a layer's path; few are longer."""

MAX_COST: Final = 10**9
"""The count stops here."""


def matching_is_slow(patterns: Iterable[str]) -> bool:
    """Whether searching the path of one layer for all these patterns could take over a second."""
    return sum(match_cost(pattern, PATH_LENGTH) for pattern in set(patterns)) > MAX_MATCH_STEPS


def match_cost(pattern: str, length: int) -> int:
    """An upper bound for the ways of matching a text of `length` characters, at most MAX_COST.

    `(a+)+` has thousands of ways where `a+` has one per character.
    """
    return min(length * _sequence(parser.parse(pattern), length), MAX_COST)


def _sequence(nodes: Sequence[tuple[Any, Any]], length: int) -> int:
    ways = 1
    for operation, argument in nodes:
        ways = min(ways * _node(operation, argument, length), MAX_COST)
    return ways


def _repeated(min_repeats: int, max_repeats: int, body: Any, length: int) -> int:
    """The ways of a repetition: each time the body may end at another character."""
    inside = _sequence(body, length)
    if body.getwidth()[0] > 0:  # each time takes at least one character
        rounds, times = 1, min(max_repeats, length)
        fixed = min(min_repeats, length)
    else:  # a body that matches nothing is tried the required number of times
        rounds, times = max(min_repeats, 1), min_repeats + min(max_repeats - min_repeats, length)
        fixed = min_repeats
    ways = inside**times if times <= length or inside == 1 else MAX_COST
    return min(rounds * (times - fixed + 1) * ways, MAX_COST)


def _node(operation: Any, argument: Any, length: int) -> int:
    match str(operation), argument:
        case "BRANCH", (_, branches):
            return sum(_sequence(branch, length) for branch in branches)
        case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT", (min_repeats, max_repeats, body):
            return _repeated(int(min_repeats), int(max_repeats), body, length)
        case "SUBPATTERN", (*_, body):
            return _sequence(body, length)
        case "ASSERT" | "ASSERT_NOT", (_, body):
            return _sequence(body, length)
        case "ATOMIC_GROUP", body:
            return _sequence(body, length)
        case "GROUPREF_EXISTS", (_, yes, no):
            return _sequence(yes, length) + _sequence(no or (), length)
    return 1
