"""How long a regular expression may search, so that a spec cannot keep a server busy.

Python's `re` goes back and tries every other way to match; no timeout ends it.
"""

import re._parser as parser  # type: ignore[import-not-found]
from collections.abc import Sequence
from typing import Any, Final

from ampcore.preflight.layer import Table, all_layers
from ampcore.spec.precision import Precision

MOST_STEPS: Final = 20_000_000
"""About a second of searching."""

MOST_WAYS: Final = 10**9
"""Ways are not counted beyond."""


def takes_long(precision: Precision, tables: Sequence[Table]) -> bool:
    """Whether matching the overrides against the paths of all layers could take seconds."""
    layers = all_layers(tables)
    longest = max((len(path) for layer in layers for path in (layer.path, *layer.parts)), default=0)
    patterns = {override.layers for override in precision.overrides}
    return sum(ways_to_match(one, longest) for one in patterns) * len(layers) > MOST_STEPS


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
