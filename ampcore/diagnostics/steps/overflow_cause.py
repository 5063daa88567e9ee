"""The causes of a skipped step, and the message with advice for each."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from ampcore.precision import DynamicLossScale, FixedLossScale, LossScale
from ampspec.documents.text import MAX_NAMES, join_names
from ampspec.precision.precision import FLOAT16_MAX, float32_overrides


class OverflowCause(StrEnum):
    """Why a step's gradients were not finite."""

    WEIGHTS = "weights"  # a weight or another variable was not finite before the step
    DATA = "data"  # the inputs are not finite, or their loss is not finite in float32 either
    SCALE = "scale"  # at a lower loss scale the gradients are finite
    OPERATION = "operation"  # finite in float32, but not in 16 bits at any scale
    FLOAT32_OVERFLOW = "float32_overflow"  # the loss is finite, the gradients in float32 are not
    NOT_REPRODUCED = "not_reproduced"  # everything is finite in the replay
    UNKNOWN = "unknown"  # the step could not be replayed


@dataclass(frozen=True)
class CauseDetails:
    """A cause and the details of its message; details of other causes are empty."""

    cause: OverflowCause
    dtype: str = "float16"
    """The 16-bit dtype that layers compute in."""
    network: str | None = None
    """The network of the loss scale, where there are several."""
    kind: LossScale | None = None
    scale: float = 1.0
    """The loss scale at that step, of the network that needs the lowest."""
    finite_below: float = 0.0
    """The largest power of two at which its gradients are finite."""
    layer: str | None = None
    is_loss: bool = False
    """Whether it is a loss that the layer adds."""
    layers: Sequence[str] = ()
    """The layers that need to compute in float32."""
    damaged: Sequence[str] = ()
    """The variables that were not finite before the step."""
    bad_examples: Sequence[int] = ()
    """Indices into the training examples."""
    bad_inputs: bool = False
    """Whether the inputs of these examples hold non-finite values."""
    largest_weight: float = 0.0
    largest_input: float = 0.0
    reason: str = ""


class CauseText(NamedTuple):
    """What happened, and what to do; the advice is empty where there is nothing to do."""

    sentence: str
    advice: str = ""

    @property
    def text(self) -> str:
        """Both."""
        return f"{self.sentence} {self.advice}".strip()


def explain_cause(details: CauseDetails) -> CauseText:
    """The message of a cause: what happened and what to do."""
    match details.cause:
        case OverflowCause.WEIGHTS:
            return CauseText(
                f"{join_names(details.damaged)} contained non-finite values before this step, so "
                "training cannot continue.",
                "Resume from an earlier checkpoint and lower optimizer.learning_rate.",
            )
        case OverflowCause.DATA:
            return _explain_data(details)
        case OverflowCause.SCALE:
            return _explain_scale(details)
        case OverflowCause.OPERATION:
            return _explain_operation(details)
        case OverflowCause.FLOAT32_OVERFLOW:
            return _explain_float32(details)
        case OverflowCause.NOT_REPRODUCED:
            return CauseText(
                "Replaying the step with the same weights and examples gave finite gradients: the "
                "engine rounds slightly differently and the step was borderline.",
                "If this happens repeatedly, suspect the hardware.",
            )
        case OverflowCause.UNKNOWN:
            return CauseText(f"The step could not be replayed: {details.reason}")


def _explain_data(details: CauseDetails) -> CauseText:
    noun = "example" if len(details.bad_examples) == 1 else "examples"
    examples = f"training {noun} {join_names(details.bad_examples)}"
    if details.bad_inputs:
        return CauseText(
            f"The inputs of {examples} contain non-finite values.",
            "Repair or remove them. The weights are unchanged, because the step was skipped.",
        )
    if details.layer:
        return CauseText(
            f"A loss of layer {details.layer} is not finite, even in float32, although inputs and "
            f"weights are finite (they reach {details.largest_input:.3g} and "
            f"{details.largest_weight:.3g}).",
            "Look at its regularizers and at what it adds with add_loss.",
        )
    which = f" for {examples}" if details.bad_examples else ""
    return CauseText(
        f"The loss is not finite{which}, even in float32, although inputs and weights are finite.",
        "Check for outliers and wrong labels. If there are none, the run has diverged (its largest "
        f"weight is {details.largest_weight:.3g}): lower optimizer.learning_rate.",
    )


def _explain_scale(details: CauseDetails) -> CauseText:
    fits = format_scale(details.finite_below)
    whose = f" of network {details.network}" if details.network else ""
    happened = (
        f"The loss scale{whose}, {format_scale(details.scale)}, was too high: at {fits} or less "
        "the gradients of these examples are finite."
    )
    match details.kind:
        case FixedLossScale():
            advice = f"Set loss_scale.scale to {fits} or less, or loss_scale.mode: dynamic."
        case DynamicLossScale(minimum=minimum) if details.finite_below < minimum:
            advice = f"loss_scale.minimum is higher: lower it to {fits}."
        case _:
            advice = "No action needed: the loss scale backs off by itself."
    return CauseText(happened, advice)


def _explain_operation(details: CauseDetails) -> CauseText:
    what = "An operation overflows"
    if details.layer:
        part = "A loss of layer" if details.is_loss else "Layer"
        what = f"{part} {details.layer} overflows"
    happened = f"{what} in {details.dtype} at every loss scale, but not in float32"
    if details.dtype == "float16" and details.largest_input > FLOAT16_MAX:
        return CauseText(
            f"{happened}: the inputs reach {details.largest_input:.3g}, and the largest float16 "
            f"number is {FLOAT16_MAX:.0f}.",
            "Rescale the inputs, or set precision.policy: mixed_bfloat16.",
        )
    ways = []
    if details.dtype == "float16":
        ways.append("set precision.policy: mixed_bfloat16")
    layers = list(details.layers) or ([_top_level_layer(details.layer)] if details.layer else [])
    if 0 < len(layers) <= MAX_NAMES:
        ways.append(f"add {format_overrides(layers)} to precision.overrides")
    ways.append("lower optimizer.learning_rate if the weights have grown without limit")
    advice = ", or ".join(ways)
    return CauseText(f"{happened}.", f"{advice[0].upper()}{advice[1:]}.")


def _explain_float32(details: CauseDetails) -> CauseText:
    layer = f" (first at {details.layer})" if details.layer else ""
    return CauseText(
        f"The loss is finite but its gradients are not, even in float32{layer}: neither the "
        "loss scale nor the precision is the cause.",
        f"Check for outliers (the inputs reach {details.largest_input:.3g}, the weights "
        f"{details.largest_weight:.3g}) and for an unbounded derivative (a square root or "
        "logarithm at 0), or lower optimizer.learning_rate.",
    )


def format_overrides(layers: Sequence[str]) -> str:
    """The entries of `precision.overrides` that keep these layers in float32, in YAML."""
    entries = float32_overrides(layers)
    return ", ".join(
        f"{{layers: '{entry['layers']}', dtype: {entry['dtype']}}}" for entry in entries
    )


def _top_level_layer(path: str) -> str:
    """The outermost layer of a path: an override of it applies to its parts too."""
    return path.partition("/")[0]


def format_scale(scale: float) -> str:
    """A loss scale for people: `2^15 (32768)` for powers of two from 16 on, else its digits."""
    mantissa, exponent = math.frexp(scale)
    if mantissa == 0.5 and not 1 <= scale < 16:
        return f"2^{exponent - 1}" + (f" ({scale:.0f})" if 1 < scale < 1e6 else "")
    return f"{scale:g}"
