"""Says what a bad step is due to: the data, the loss scale, an operation, the weights, or chance.

`overflow_cause` says why gradients are not finite. That alone does not tell a bad example from a
training that has diverged: in both cases float32 overflows too. The comparison with other batches
and with untrained weights (`probe`) does.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from ampcore.diagnostics.overflow_cause import CauseDetails, OverflowCause, explain_cause
from ampcore.diagnostics.probe import Probe
from ampcore.spec.text import join_names


class Attribution(StrEnum):
    """What a step is due to."""

    DATA = "data"
    LOSS_SCALE = "loss_scale"
    OPERATION = "operation"
    WEIGHTS = "weights"
    NOT_REPRODUCIBLE = "not_reproducible"
    NORMAL = "normal"
    UNKNOWN = "unknown"


class StepKind(StrEnum):
    """What is remarkable about a step."""

    SKIP = "skip"
    NONFINITE_LOSS = "nonfinite_loss"
    NONFINITE_GRADIENTS = "nonfinite_gradients"
    LOSS_SPIKE = "loss_spike"
    GRAD_NORM_JUMP = "grad_norm_jump"
    NORMAL = "normal"


BY_CAUSE: Final = {
    OverflowCause.WEIGHTS: Attribution.WEIGHTS,
    OverflowCause.DATA: Attribution.DATA,
    OverflowCause.SCALE: Attribution.LOSS_SCALE,
    OverflowCause.OPERATION: Attribution.OPERATION,
    OverflowCause.FLOAT32_OVERFLOW: Attribution.OPERATION,
    OverflowCause.NOT_REPRODUCED: Attribution.NOT_REPRODUCIBLE,
    OverflowCause.UNKNOWN: Attribution.UNKNOWN,
}

LOWER_RATE: Final = (
    "Lower optimizer.learning_rate, add optimizer.schedule.warmup_steps, or limit the gradients "
    "with optimizer.clip_norm. Resume from a checkpoint before the loss rose, or start again."
)
CHECK_EXAMPLES: Final = (
    "Look at the listed examples: check them for outliers and wrong labels, repair or remove them. "
    "optimizer.clip_norm limits what a single batch can do."
)
CHECK_HARDWARE: Final = (
    "Run it again on another worker. If the results differ only on this machine, its memory or "
    "processor may be faulty: take it out of use and test it."
)


@dataclass(frozen=True)
class Finding:
    """What a step is due to, in a sentence, and what to do."""

    attribution: Attribution
    sentence: str
    advice: str


@dataclass(frozen=True)
class Observed:
    """What is known about a step when it is attributed."""

    kind: StepKind
    probe: Probe
    cause: CauseDetails | None = None
    """Why its gradients are not finite; None if they are."""
    unusual_examples: tuple[int, ...] = ()
    """Indices into the training examples of those whose loss stands out."""
    loss_in_run: float = 0.0
    norm_in_run: float = 0.0
    """The values of the step in the precision of the run."""
    learning_rate: float = 0.0


def attribute(observed: Observed) -> Finding:
    """Attribute a step that was reproduced."""
    if observed.cause is not None:
        return _attribute_nonfinite(observed, observed.cause)
    if observed.kind is StepKind.NORMAL and not observed.probe.has_diverged:
        return _normal(observed)
    return _attribute_jump(observed)


def not_reproducible(what: str) -> Finding:
    """The finding for a step that gives other results when it is repeated."""
    return Finding(Attribution.NOT_REPRODUCIBLE, what, CHECK_HARDWARE)


def _attribute_nonfinite(observed: Observed, cause: CauseDetails) -> Finding:
    probe = observed.probe
    if cause.cause is OverflowCause.WEIGHTS or cause.bad_inputs:
        return _of_cause(cause)
    if probe.has_diverged:
        return _diverged(observed)
    if cause.cause is OverflowCause.OPERATION and probe.is_unusual_batch:
        return _unusual_batch(observed)
    return _of_cause(cause)


def _attribute_jump(observed: Observed) -> Finding:
    """A finite step with a high loss or gradient norm."""
    probe = observed.probe
    if probe.has_diverged:
        return _diverged(observed)
    if probe.is_unusual_batch:
        return _unusual_batch(observed)
    low = _high_in_16_bits_only(observed)
    if low is not None:
        return low
    return _rising(observed)


def _of_cause(cause: CauseDetails) -> Finding:
    text = explain_cause(cause)
    # The sentence about a loss scale has a colon before the facts, and one before the advice.
    is_scale = cause.cause is OverflowCause.SCALE
    first, second = (". ", ": lower ") if is_scale else (": ", ". ")
    sentence, found, advice = text.partition(first)
    if not found:
        sentence, found, advice = text.partition(second)
        advice = f"lower {advice}" if is_scale and found else advice
    return Finding(BY_CAUSE[cause.cause], _as_sentence(sentence), _as_sentence(advice))


def _as_sentence(text: str) -> str:
    text = text.strip()
    if not text:
        return ""
    return text[0].upper() + text[1:] + ("" if text.endswith(".") else ".")


def _diverged(observed: Observed) -> Finding:
    probe = observed.probe
    level = probe.level or probe.own
    return Finding(
        Attribution.WEIGHTS,
        "The training had diverged before this step: with these weights the loss of other batches "
        f"is {level.loss:.4g}, also in float32; with untrained weights it is "
        f"{probe.untrained.loss:.4g}. The learning rate, {observed.learning_rate:.4g} at this "
        "step, was too high.",
        LOWER_RATE,
    )


def _unusual_batch(observed: Observed) -> Finding:
    probe, level = observed.probe, observed.probe.level
    shown = (
        f" The loss of training examples {join_names(observed.unusual_examples)} stands out."
        if observed.unusual_examples
        else ""
    )
    compared = (
        f"loss {probe.own.loss:.4g} and gradient norm {probe.own.grad_norm:.4g}, with the same "
        f"weights and in float32; other batches have {level.loss:.4g} and {level.grad_norm:.4g}"
        if level is not None
        else f"loss {probe.own.loss:.4g}"
    )
    return Finding(
        Attribution.DATA,
        f"The examples of this step are unusual: their batch has {compared}.{shown}",
        CHECK_EXAMPLES,
    )


def _high_in_16_bits_only(observed: Observed) -> Finding | None:
    """A finding if float32 gives a much lower loss or gradient norm than the run."""
    own = observed.probe.own
    if observed.kind is StepKind.LOSS_SPIKE:
        name, in_run, in_float32 = "loss", observed.loss_in_run, own.loss
    else:
        name, in_run, in_float32 = "gradient norm", observed.norm_in_run, own.grad_norm
    if abs(in_run) <= 2 * abs(in_float32):
        return None
    return Finding(
        Attribution.OPERATION,
        f"The {name} is {in_run:.4g} in the run's precision, but {in_float32:.4g} in float32 with "
        "the same weights and examples: an operation loses its accuracy in 16 bits.",
        "Keep the layers with the largest values in float32 (precision.overrides), or set "
        "precision.policy: mixed_bfloat16.",
    )


def _rising(observed: Observed) -> Finding:
    level = observed.probe.level or observed.probe.own
    return Finding(
        Attribution.WEIGHTS,
        "The weights before this step are the cause: with them other batches are as high (loss "
        f"{level.loss:.4g}, gradient norm {level.grad_norm:.4g}, in float32). The updates of the "
        f"steps before were too large for the learning rate {observed.learning_rate:.4g}.",
        LOWER_RATE,
    )


def _normal(observed: Observed) -> Finding:
    return Finding(
        Attribution.NORMAL,
        f"Nothing is remarkable about this step: its loss, {observed.loss_in_run:.4g}, and its "
        f"gradient norm, {observed.norm_in_run:.4g}, are finite and not far above those of the "
        "steps before.",
        "",
    )
