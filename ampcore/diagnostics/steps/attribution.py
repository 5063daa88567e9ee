"""Says what a bad step is due to: the data, the loss scale, an operation, the weights, or chance.

The order of the questions matters. A bad example overflows an operation, and a diverged training
needs a lower loss scale: so the inputs are judged first, then the examples and the weights, then
the layers, and the loss scale last.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from ampcore.diagnostics.input_statistics import STANDS_OUT, ExtremeExample
from ampcore.diagnostics.steps.overflow_cause import CauseDetails, OverflowCause, explain_cause
from ampcore.diagnostics.steps.probe import Measured, Probe
from ampcore.diagnostics.steps.weight_outliers import WeightOutlier
from ampspec.documents.text import join_names


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


MIN_TRAINED_STEPS: Final = 10
"""Before this step a run need not have learned anything."""


@dataclass(frozen=True)
class StepFinding:
    """What a step is due to, in a sentence, and what to do."""

    attribution: Attribution
    sentence: str
    advice: str

    @property
    def text(self) -> str:
        """Both."""
        return f"{self.sentence} {self.advice}".strip()


@dataclass(frozen=True)
class NamedExample:
    """A training example that a finding names."""

    example: int
    """Index into the training examples."""
    input_score: float
    """See `InputStatistics.scores`."""
    largest_value: float

    @property
    def stands_out(self) -> bool:
        """Whether one of its values is far from the usual ones."""
        return self.input_score > STANDS_OUT


@dataclass(frozen=True)
class Evidence:
    """What is known about a step when it is attributed."""

    kind: StepKind
    step: int = 0
    """Its number, counted from 0."""
    probe: Probe | None = None
    """None where the state or the inputs are not finite: nothing can be compared then."""
    cause: CauseDetails | None = None
    """Why its gradients are not finite; None if they are."""
    responsible: Sequence[NamedExample] = ()
    """The examples without which it is ordinary, the one with the largest effect first."""
    without: Measured | None = None
    """The batch with others in their place."""
    harmless: Sequence[NamedExample] = ()
    """Examples with unusual values that change nothing."""
    outliers: Sequence[WeightOutlier] = ()
    """Single weights that are far from all others."""
    usual_input: float = 0.0
    """The values of the inputs are usually at most so large."""
    extremes_before: Sequence[ExtremeExample] = field(default_factory=tuple)
    """Examples with implausible inputs, on which the run has trained before the step."""
    loss_in_run: float = 0.0
    norm_in_run: float = 0.0
    """The values of the step in the precision of the run."""
    learning_rate: float = 0.0
    has_16_bits: bool = True
    """Whether layers compute in 16 bits."""


def attribute(evidence: Evidence) -> StepFinding:
    """Attribute a step that was reproduced."""
    cause, probe = evidence.cause, evidence.probe
    if cause is not None and (probe is None or cause.bad_inputs):
        return _of_cause(cause)
    if probe is None:
        raise ValueError("expected a comparison with other batches for a step that is finite")
    if evidence.outliers:
        return _corrupted(evidence.outliers)
    if any(example.stands_out for example in evidence.responsible):
        return _responsible(evidence, probe)
    if probe.has_diverged:
        return _diverged(evidence, probe)
    has_not_learned = probe.has_not_learned and evidence.step >= MIN_TRAINED_STEPS
    if evidence.responsible:
        # Ordinary examples stand out where a training is not stable.
        judge = _unstable if has_not_learned else _responsible
        return judge(evidence, probe)
    if cause is not None:
        is_operation = cause.cause is OverflowCause.OPERATION
        if is_operation and probe.is_unusual_batch:
            return _unusual_batch(probe)
        finding = _of_cause(cause)
        is_scale = cause.cause is OverflowCause.SCALE
        return (
            _without_progress(finding, evidence, probe) if is_scale and has_not_learned else finding
        )
    if probe.is_unusual_batch and evidence.kind is not StepKind.NORMAL:
        return _unusual_batch(probe)
    if evidence.kind is StepKind.NORMAL:
        return _normal(evidence)
    return _high_in_16_bits_only(evidence, probe) or _rising(evidence, probe)


def not_reproducible(what: str) -> StepFinding:
    """The finding for a step that gives other results when it is repeated."""
    return StepFinding(Attribution.NOT_REPRODUCIBLE, what, CHECK_HARDWARE)


def _of_cause(cause: CauseDetails) -> StepFinding:
    return StepFinding(BY_CAUSE[cause.cause], *explain_cause(cause))


def _corrupted(outliers: Sequence[WeightOutlier]) -> StepFinding:
    worst = max(outliers, key=lambda outlier: abs(outlier.value))
    return StepFinding(
        Attribution.WEIGHTS,
        f"One weight of {worst.variable} is {worst.value:.4g}, and all others are at most "
        f"{worst.largest_other:.4g}: a single weight does not diverge alone, so it was damaged in "
        "memory or in a file, or set so.",
        "Resume from a checkpoint before this step, or load the weights again. If it happens "
        "again on this machine only, test its memory.",
    )


def _responsible(evidence: Evidence, probe: Probe) -> StepFinding:
    examples = evidence.responsible
    names = join_names([example.example for example in examples])
    noun = "example" if len(examples) == 1 else "examples"
    batch, without = probe.this_batch, evidence.without
    effect = (
        f" With other examples in place of {'it' if len(examples) == 1 else 'them'} the gradient "
        f"norm of the batch is {without.grad_norm:.4g} instead of {batch.grad_norm:.4g}, and "
        f"its loss {without.loss:.4g} instead of {batch.loss:.4g}."
        if without is not None
        else ""
    )
    worst = max(examples, key=lambda example: example.input_score)
    if worst.stands_out:
        what = (
            f"has a value of {worst.largest_value:.4g}"
            if len(examples) == 1
            else f"have values up to {worst.largest_value:.4g}"
        )
        sentence = (
            f"Training {noun} {names} {what}, where they are usually at most "
            f"{evidence.usual_input:.4g}.{effect}"
        )
    else:
        verb = "stands" if len(examples) == 1 else "stand"
        sentence = f"Training {noun} {names} {verb} out in this step.{effect}"
    return StepFinding(Attribution.DATA, sentence, CHECK_EXAMPLES)


def _diverged(evidence: Evidence, probe: Probe) -> StepFinding:
    level, start = probe.level or probe.this_batch, probe.at_start or probe.this_batch
    happened = (
        "The training had diverged before this step: with these weights the loss of other batches "
        f"is {level.loss:.4g}; at the start of the run it was {start.loss:.4g}."
    )
    if evidence.extremes_before:
        extremes = evidence.extremes_before
        names = join_names([example.example for example in extremes])
        return StepFinding(
            Attribution.DATA,
            f"{happened} It had trained on {'examples' if len(extremes) > 1 else 'example'} "
            f"{names}, with values up to {extremes[0].largest:.4g}, where they are usually "
            f"at most {evidence.usual_input:.4g}.",
            f"{CHECK_EXAMPLES} If they are right, lower optimizer.learning_rate, "
            f"{evidence.learning_rate:.4g} at this step.",
        )
    return StepFinding(
        Attribution.WEIGHTS,
        f"{happened} The learning rate, {evidence.learning_rate:.4g} at this step, was too high, "
        "unless an earlier step trained on bad examples.",
        f"{LOWER_RATE} To tell the two apart, explain the first step at which the loss rose.",
    )


def _unstable(evidence: Evidence, probe: Probe) -> StepFinding:
    names = join_names([example.example for example in evidence.responsible])
    return StepFinding(
        Attribution.WEIGHTS,
        f"The training is not stable: {_no_progress(probe)}, and of single examples with ordinary "
        f"values ({names}) the loss is far higher. The updates before this step were too large for "
        f"the learning rate {evidence.learning_rate:.4g}.",
        LOWER_RATE,
    )


def _without_progress(finding: StepFinding, evidence: Evidence, probe: Probe) -> StepFinding:
    """A finding about the loss scale, in a run that has learned nothing yet."""
    advice = (
        f"{finding.advice} If the loss stays so high, lower optimizer.learning_rate "
        f"({evidence.learning_rate:.4g} at this step)."
    )
    sentence = f"{finding.sentence} The run has not learned yet: {_no_progress(probe)}."
    return replace(finding, sentence=sentence, advice=advice)


def _no_progress(probe: Probe) -> str:
    level, start = probe.level or probe.this_batch, probe.at_start or probe.this_batch
    return (
        f"the loss of other batches is {level.loss:.4g} with the weights before this step, and was "
        f"{start.loss:.4g} at the start of the run"
    )


def _unusual_batch(probe: Probe) -> StepFinding:
    batch, level = probe.this_batch, probe.level
    compared = (
        f"loss {batch.loss:.4g} and gradient norm {batch.grad_norm:.4g}, with the same "
        f"weights; other batches have {level.loss:.4g} and {level.grad_norm:.4g}"
        if level is not None
        else f"loss {batch.loss:.4g}"
    )
    return StepFinding(
        Attribution.DATA,
        f"The examples of this step are unusual together: their batch has {compared}. No few of "
        "them make the difference.",
        CHECK_EXAMPLES,
    )


def _high_in_16_bits_only(evidence: Evidence, probe: Probe) -> StepFinding | None:
    """A finding if float32 gives a much lower loss or gradient norm than the run."""
    batch = probe.this_batch
    if evidence.kind is StepKind.LOSS_SPIKE:
        name, in_run, in_float32 = "loss", evidence.loss_in_run, batch.loss
    else:
        name, in_run, in_float32 = "gradient norm", evidence.norm_in_run, batch.grad_norm
    if not evidence.has_16_bits or abs(in_run) <= 2 * abs(in_float32):
        return None
    return StepFinding(
        Attribution.OPERATION,
        f"The {name} is {in_run:.4g} in the run's precision, but {in_float32:.4g} in float32 with "
        "the same weights and examples: an operation loses its accuracy in 16 bits.",
        "Keep the layers with the largest values in float32 (precision.overrides), or set "
        "precision.policy: mixed_bfloat16.",
    )


def _rising(evidence: Evidence, probe: Probe) -> StepFinding:
    level = probe.level or probe.this_batch
    return StepFinding(
        Attribution.WEIGHTS,
        "The weights before this step are the cause: with them other batches are as high (loss "
        f"{level.loss:.4g}, gradient norm {level.grad_norm:.4g}, in float32). The updates of the "
        f"steps before were too large for the learning rate {evidence.learning_rate:.4g}.",
        LOWER_RATE,
    )


def _normal(evidence: Evidence) -> StepFinding:
    sentence = (
        f"Nothing is remarkable about this step: its loss, {evidence.loss_in_run:.4g}, and its "
        f"gradient norm, {evidence.norm_in_run:.4g}, are finite and not far above those of the "
        "steps before."
    )
    if not evidence.harmless:
        return StepFinding(Attribution.NORMAL, sentence, "")
    values = ", ".join(
        f"{example.example} ({example.largest_value:.4g})" for example in evidence.harmless
    )
    return StepFinding(
        Attribution.NORMAL,
        f"{sentence} The values of some of its training examples are unusual, but change little: "
        f"{values}; they are usually at most {evidence.usual_input:.4g}.",
        "Check that these examples are right.",
    )
