"""What the spec can say and this version cannot do yet: refused with a sentence, never ignored."""

from collections.abc import Iterator
from typing import Any, Final

from ampcore.spec.problems import Problem, pointer, shown

AVAILABLE: Final[dict[tuple[str, ...], tuple[Any, ...]]] = {
    ("runtime", "queue"): (None,),
    ("runtime", "priority"): (5,),
    ("runtime", "max_attempts"): (1,),
    ("runtime", "timeout_s"): (None,),
    ("runtime", "devices"): (1,),
}
"""For each restricted field, the values that this version carries out."""


def unavailable(parts: dict[str, Any]) -> Iterator[Problem]:
    """A problem for each field whose value no engine here can honour yet.

    `parts` maps the names of the spec's top-level fields to their validated values; parts
    that did not validate are absent.
    """
    for path, values in AVAILABLE.items():
        value: Any = parts.get(path[0])
        if value is None:
            continue
        for name in path[1:]:
            value = getattr(value, name)
        if value not in values:
            expected = " or ".join(shown(allowed) for allowed in values)
            yield Problem(
                pointer(path),
                "not_available",
                f"{expected}, all that this version of ampcore can do here",
                shown(_plain(value)),
            )


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value.model_dump() if hasattr(value, "model_dump") else value
