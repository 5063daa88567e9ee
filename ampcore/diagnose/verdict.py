"""The verdicts on a skipped step, and what each advises the person who reads it."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from ampcore.precision import DynamicLossScale, FixedLossScale, LossScale

NAMED: Final = 5
"""So many variables or examples are named in a sentence; the facts beside it hold more."""
FLOAT16_MAX: Final = 65504


class Verdict(StrEnum):
    """Why a step's gradients were not finite."""

    WEIGHTS = "weights"  # a weight or a held variable was not finite before the step
    DATA = "data"  # the inputs are not finite, or float32 has no finite loss for them either
    SCALE = "scale"  # at a lower loss scale the gradients are finite
    OPERATION = "operation"  # finite in float32, and not at any scale in 16 bits
    FLOAT32_OVERFLOW = "float32_overflow"  # the loss is finite; in float32, too, gradients are not
    NOT_REPRODUCED = "not_reproduced"  # computed again, everything is finite
    UNKNOWN = "unknown"  # it could not be computed again


@dataclass(frozen=True)
class Findings:
    """What a verdict's sentence is made of; what does not belong to the verdict is empty."""

    verdict: Verdict
    dtype: str = "float16"
    """What the layers compute in, apart from those in float32."""
    network: str | None = None
    """Whose loss scale it is, where there are several."""
    kind: LossScale | None = None
    scale: float = 1.0
    """The loss scale at that step, of the network that needs the lowest."""
    finite_below: float = 0.0
    """The largest power of two at which its gradients are finite."""
    layer: str | None = None
    layers: Sequence[str] = ()
    """Those that would have to compute in float32."""
    damaged: Sequence[str] = ()
    """The variables that were not finite before the step."""
    bad_examples: Sequence[int] = ()
    """Indices into the training examples."""
    bad_inputs: bool = False
    """The inputs of these examples hold values that are not finite."""
    largest_weight: float = 0.0
    largest_input: float = 0.0
    reason: str = ""


def sentence(found: Findings) -> str:
    """What happened and what to do, for a person who has not seen the run."""
    match found.verdict:
        case Verdict.WEIGHTS:
            return (
                f"{listed(found.damaged)} held values that are not finite before this step, so no "
                "batch can be trained: go back to a checkpoint from before and lower "
                "optimizer.learning_rate."
            )
        case Verdict.DATA:
            return _of_data(found)
        case Verdict.SCALE:
            return _of_scale(found)
        case Verdict.OPERATION:
            return _of_operation(found)
        case Verdict.FLOAT32_OVERFLOW:
            return _of_float32(found)
        case Verdict.NOT_REPRODUCED:
            return (
                "Computed again with the same weights and examples, every gradient is finite: the "
                "engine rounds a little differently, and it was a close thing. If it happens "
                "again and again, suspect the hardware."
            )
        case Verdict.UNKNOWN:
            return f"The step could not be computed again: {found.reason}"


def _of_data(found: Findings) -> str:
    examples = f"training examples {listed(found.bad_examples)}"
    if found.bad_inputs:
        return (
            f"The inputs of {examples} hold values that are not finite: repair them or leave them "
            "out. The weights are unharmed, because the step was skipped."
        )
    place = f" for {examples}" if found.bad_examples else ""
    return (
        f"The loss is not finite{place}, in float32 either, though inputs and weights are finite: "
        "look for outliers and wrong labels. If there are none the run has diverged (its largest "
        f"weight is {found.largest_weight:.3g}): lower optimizer.learning_rate."
    )


def _of_scale(found: Findings) -> str:
    fits = power(found.finite_below)
    whose = f" of network {found.network}" if found.network else ""
    happened = (
        f"The loss scale{whose}, {power(found.scale)}, was too high: from {fits} down the "
        "gradients of these examples are finite"
    )
    match found.kind:
        case FixedLossScale():
            return (
                f"{happened}. Set loss_scale.scale to {fits} or less, or loss_scale.mode: dynamic."
            )
        case DynamicLossScale(minimum=minimum) if found.finite_below < minimum:
            return f"{happened}, but it may not go there: lower loss_scale.minimum to {fits}."
        case _:
            return f"{happened}. Nothing is to be done: the scale comes down by itself."


def _of_operation(found: Findings) -> str:
    what = f"Layer {found.layer} overflows" if found.layer else "An operation overflows"
    happened = f"{what} in {found.dtype} at every loss scale, and not in float32"
    if found.dtype == "float16" and found.largest_input > FLOAT16_MAX:
        return (
            f"{happened}: the inputs go up to {found.largest_input:.3g}, and float16 ends at "
            f"{FLOAT16_MAX}. Divide them by so much, or set precision.policy: mixed_bfloat16."
        )
    ways = []
    if found.dtype == "float16":
        ways.append("set precision.policy: mixed_bfloat16")
    layers = list(found.layers) or ([_top(found.layer)] if found.layer else [])
    if 0 < len(layers) <= NAMED:
        names = "|".join(map(re.escape, layers))
        pattern = f"^({names})$" if len(layers) > 1 else f"^{names}$"
        ways.append(f"add {{layers: '{pattern}', dtype: float32}} to precision.overrides")
    ways.append("lower optimizer.learning_rate if the weights have grown without limit")
    return f"{happened}: {', or '.join(ways)}."


def _of_float32(found: Findings) -> str:
    place = f" (first at {found.layer})" if found.layer else ""
    return (
        f"The loss is finite but its gradients are not, in float32 either{place}: neither the "
        "loss scale nor the precision is the cause. Look for outliers (the inputs go up to "
        f"{found.largest_input:.3g}, the weights to {found.largest_weight:.3g}) and for a slope "
        "without limit (a root or a logarithm at 0), or lower optimizer.learning_rate."
    )


def _top(path: str) -> str:
    """The layer that a part belongs to: an override of it holds for its parts."""
    return path.partition("/")[0]


def listed(names: Sequence[Any], most: int = NAMED) -> str:
    """The first names, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(map(str, names[:most])) + more


def power(scale: float) -> str:
    """A loss scale for people: `2^15 (32768)` for powers of two from 16 on, else its digits."""
    mantissa, exponent = math.frexp(scale)
    if mantissa == 0.5 and not 1 <= scale < 16:
        return f"2^{exponent - 1}" + (f" ({scale:.0f})" if 1 < scale < 1e6 else "")
    return f"{scale:g}"
