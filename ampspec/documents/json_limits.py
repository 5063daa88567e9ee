"""Limits of untrusted JSON documents, so that every reader can parse them."""

from typing import Any, Final

MAX_DEPTH: Final = 32
"""Objects and lists inside each other; parsers and writers give up at 200 to 1,000."""
INTEGERS: Final = range(-(2**63), 2**63)
"""Integers that JSON parsers and databases can represent."""


def check_json(document: Any) -> Any:
    """Return the document unchanged.

    Args:
        document: Values as `json.loads` returns them.

    Raises:
        ValueError: It is nested deeper than `MAX_DEPTH`, or has an integer outside `INTEGERS`.
    """
    waiting = [(document, 0)]
    while waiting:
        value, depth = waiting.pop()
        if isinstance(value, dict | list):
            if depth == MAX_DEPTH:
                raise ValueError(f"expected JSON nested at most {MAX_DEPTH} levels deep")
            items = value.values() if isinstance(value, dict) else value
            waiting += [(item, depth + 1) for item in items]
        elif isinstance(value, int) and value not in INTEGERS:
            raise ValueError("expected integers of at most 64 bits")
    return document
