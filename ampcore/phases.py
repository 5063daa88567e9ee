"""The phases of training, and how the phase and the layer of an operation are read from its name.

A step opens a name scope for each phase (`scopes.phase_scope`). Scopes exist only while a step is
traced: they name operations, and neither add nor change any. Gradients have the name of their
forward operation below `gradient_tape`.
"""

import re
from collections.abc import Collection
from enum import StrEnum
from functools import cache
from typing import Final


class Phase(StrEnum):
    """A part of training that a profile reports separately."""

    INPUT = "input"
    FORWARD = "forward"
    BACKWARD = "backward"
    COMMUNICATION = "communication"
    CHECK = "unscale_and_check"
    UPDATE = "update"
    EVALUATION = "evaluation"
    CHECKPOINT = "checkpoint"
    OTHER = "other"


IN_STEP: Final = (Phase.INPUT, Phase.FORWARD, Phase.BACKWARD, Phase.CHECK, Phase.UPDATE)
"""The phases of every step; each has a name scope."""
_SCOPED: Final = (*IN_STEP, Phase.COMMUNICATION)
SCOPE_PREFIX: Final = "phase."
"""No layer of Keras or of a user begins with it, so that a layer named `forward` is none."""
_GRADIENTS: Final = "gradient_tape"
# A scope that is opened a second time in one graph has a number.
_PHASE: Final = re.compile(rf"(?:^|/){re.escape(SCOPE_PREFIX)}([a-z_]+?)(?:_\d+)?(?=/|$)")
_NUMBER: Final = re.compile(r"_\d+$")


@cache
def phase_of(operation: str) -> Phase:
    """The phase of an operation with this name.

    An operation with the scopes of several phases belongs to the innermost one, except for
    gradients, which are backward although they have the scope of their forward operation.
    """
    scopes = [name for name in _PHASE.findall(operation) if name in _SCOPED]
    if not scopes:
        return Phase.OTHER
    if scopes[-1] == Phase.FORWARD and _GRADIENTS in operation.split("/"):
        return Phase.BACKWARD
    return Phase(scopes[-1])


def layer_of(operation: str, layers: Collection[str]) -> str | None:
    """The path of the layer that an operation belongs to; None for one outside of all layers.

    Args:
        operation: Its name, in which each layer of the path is a scope: perhaps with a number,
            because Keras has used the name before.
        layers: The paths of all layers, such as `encoder/dense_1`.
    """
    segments = operation.split("/")
    best: tuple[int, str] | None = None
    for layer in layers:
        parts = layer.split("/")
        if (end := _last_match(segments, parts)) is not None:
            best = max(best or (0, ""), (end * 1000 + len(parts), layer))
    return best[1] if best else None


def _last_match(segments: list[str], parts: list[str]) -> int | None:
    """Where the innermost occurrence of consecutive parts ends; None without one."""
    for end in range(len(segments), len(parts) - 1, -1):
        rows = zip(segments[end - len(parts) : end], parts, strict=True)
        if all(_is_scope_of(segment, part) for segment, part in rows):
            return end
    return None


def _is_scope_of(segment: str, part: str) -> bool:
    return segment == part or _NUMBER.sub("", segment) == part
