"""The diagnosis of a step: the one that its event, its explanation and the guard report.

The state is that before the step. The step is replayed, its batch compared with others, and its
examples are judged by what the step is without them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from ampcore.data import Batch
from ampcore.diagnostics.input_statistics import EXTREME, STANDS_OUT, InputStatistics, value_parts
from ampcore.diagnostics.steps.attribution import (
    Evidence,
    NamedExample,
    StepFinding,
    StepKind,
    attribute,
)
from ampcore.diagnostics.steps.nonfinite_values import largest
from ampcore.diagnostics.steps.overflow_cause import CauseDetails, OverflowCause
from ampcore.diagnostics.steps.probe import Measured, Probe, StepInputs, example_losses, measure
from ampcore.diagnostics.steps.replay import Replay
from ampcore.diagnostics.steps.responsible_examples import ResponsibleExamples, find_responsible
from ampcore.diagnostics.steps.skipped_step import SkippedStep, StepDiagnosis, diagnose_step
from ampcore.diagnostics.steps.weight_outliers import weight_outliers

SCALE_MARGIN: Final = 0.25
"""Other batches are compared at this multiple of the scale at which the step is finite: their
gradients may be a little larger."""
MAX_HARMLESS: Final = 3
"""The unusual examples that an ordinary step names."""


def _no_inputs() -> Sequence[StepInputs]:
    return ()


def _no_statistics() -> InputStatistics | None:
    return None


def _never(_: int) -> bool:
    return False


@dataclass(frozen=True)
class StepContext:
    """What is known around a step."""

    other_inputs: Callable[[], Sequence[StepInputs]] = _no_inputs
    """The batches of steps around it."""
    input_statistics: Callable[[], InputStatistics | None] = _no_statistics
    """The statistics of the values of all training examples."""
    was_trained_on: Callable[[int], bool] = _never
    """Whether the run has trained on this training example before the step."""
    at_start: Measured | None = None
    """Loss and gradient norm of the first step of the run."""
    learning_rate: float = 0.0
    step: int = 0
    """The number of the step."""


@dataclass(frozen=True)
class StepValues:
    """What the run recorded of the step."""

    kind: StepKind = StepKind.SKIP
    loss: float = 0.0
    grad_norm: float = 0.0


@dataclass(frozen=True)
class DiagnosedStep:
    """The diagnosis of a step, and what it rests on."""

    finding: StepFinding
    replayed: StepDiagnosis
    """The step at its own loss scales, at others, and in float32."""
    is_finite: bool
    """Whether it is finite at its own loss scales."""
    probe: Probe | None = None
    """None where nothing can be compared, because the state or the inputs are not finite."""
    responsible: ResponsibleExamples = field(default_factory=ResponsibleExamples)


class StepDiagnoser:
    """Diagnoses steps of one run.

    Args:
        replay: Replays the task that is trained.
        in_float32: Returns a replay of the same task in float32, with the current weights.
    """

    def __init__(self, replay: Replay, in_float32: Callable[[], Replay]) -> None:
        self._replay, self._in_float32 = replay, in_float32

    def diagnose(
        self, step: SkippedStep, context: StepContext, values: StepValues
    ) -> DiagnosedStep:
        """The diagnosis of a step whose state is in place; it changes nothing.

        Args:
            step: Its batch, seed, position and loss scales.
            context: What it is compared with.
            values: What the run recorded of it.
        """
        replayed = diagnose_step(self._replay, self._in_float32, step)
        is_finite = all(replayed.replayed.finite) and replayed.replayed.finite_losses
        # A skipped step that is finite now was at the edge, or the hardware computes wrongly.
        was_finite = is_finite and values.kind is not StepKind.SKIP
        cause = None if was_finite else replayed.cause
        evidence = Evidence(
            values.kind,
            context.step,
            cause=cause,
            loss_in_run=values.loss,
            norm_in_run=values.grad_norm,
            learning_rate=context.learning_rate,
            has_16_bits=any(dtype != "float32" for dtype in self._replay.dtypes),
        )
        if cause is not None and (cause.cause is OverflowCause.WEIGHTS or cause.bad_inputs):
            return DiagnosedStep(attribute(evidence), replayed, is_finite)
        comparison = _Comparison(self._comparing_replay(step, cause), step)
        statistics = context.input_statistics()
        probe = comparison.probe(context, statistics)
        size = len(step.batch.parts[0])
        scores = statistics.scores(step.batch) if statistics is not None else np.zeros(size)
        responsible = self._responsible(step, cause, probe, scores, comparison)
        is_bad = values.kind is not StepKind.NORMAL or probe.has_diverged
        evidence = replace(
            evidence,
            probe=probe,
            responsible=_named_examples(responsible.positions, responsible.scores, step),
            harmless=_unusual(scores, step),
            without=responsible.without,
            outliers=weight_outliers(self._replay.task) if is_bad else (),
            usual_input=statistics.usual if statistics is not None else 0.0,
            extremes_before=_trained_on(statistics, context),
        )
        return DiagnosedStep(attribute(evidence), replayed, is_finite, probe, responsible)

    def _comparing_replay(self, step: SkippedStep, cause: CauseDetails | None) -> "_ScaledReplay":
        """How batches are compared: at a scale that fits, if that is all; else in float32."""
        if cause is not None and cause.cause is OverflowCause.SCALE:
            fits = cause.finite_below * SCALE_MARGIN
            return _ScaledReplay(self._replay, [min(scale, fits) for scale in step.scales])
        return _ScaledReplay(self._in_float32(), [1.0] * len(step.scales))

    def _responsible(
        self,
        step: SkippedStep,
        cause: CauseDetails | None,
        probe: Probe,
        scores: NDArray[np.float64],
        comparison: "_Comparison",
    ) -> ResponsibleExamples:
        extreme = np.flatnonzero(scores >= EXTREME)
        if 2 * len(extreme) > len(scores):  # there are no others to put in their place
            worst = extreme[np.argsort(-scores[extreme], kind="stable")].tolist()
            return ResponsibleExamples(
                tuple(worst), scores={position: float(scores[position]) for position in worst}
            )
        overflows = cause is not None and cause.cause is OverflowCause.OPERATION
        if not (overflows or probe.is_unusual_batch or len(extreme)):
            return ResponsibleExamples()
        if overflows:
            # What overflows in 16 bits may be ordinary in float32.
            comparison = _Comparison(_ScaledReplay(self._replay, [1.0] * len(step.scales)), step)
        return find_responsible(
            step.batch,
            comparison.measure(step.batch),
            comparison.measure,
            probe.example_losses,
            scores,
        )


@dataclass(frozen=True)
class _ScaledReplay:
    replay: Replay
    scales: Sequence[float]


class _Comparison:
    """Measures batches with the weights before a step."""

    def __init__(self, scaled: _ScaledReplay, step: SkippedStep) -> None:
        self._replay, self._scales, self._step = scaled.replay, scaled.scales, step

    def measure(self, batch: Batch, seed: Any = None) -> Measured:
        seed = self._step.seed if seed is None else seed
        return measure(self._replay, StepInputs(batch, seed), self._scales)

    def probe(self, context: StepContext, statistics: InputStatistics | None) -> Probe:
        this_batch = self.measure(self._step.batch)
        other_batches = [
            self.measure(*inputs)
            for inputs in context.other_inputs()
            # A batch with bad inputs of its own tells nothing about the weights.
            if statistics is None or statistics.scores(inputs.batch).max(initial=0.0) < EXTREME
        ]
        return Probe(this_batch, other_batches, context.at_start, self._losses())

    def _losses(self) -> NDArray[np.float32]:
        losses = example_losses(self._replay.task, self._step.batch)
        # A task may have a loss for something else than one example.
        is_complete = losses.shape == (len(self._step.position.indices),)
        return losses if is_complete else np.empty(0, np.float32)


def _named_examples(
    positions: Sequence[int], scores: Mapping[int, float], step: SkippedStep
) -> list[NamedExample]:
    parts = value_parts(step.batch)
    return [
        NamedExample(
            int(step.position.indices[position]),
            scores[position],
            _largest_of([part[position] for part in parts]),
        )
        for position in positions
    ]


def _unusual(scores: NDArray[np.float64], step: SkippedStep) -> list[NamedExample]:
    order = np.argsort(-scores, kind="stable")[:MAX_HARMLESS]
    positions = [position for position in order.tolist() if scores[position] > STANDS_OUT]
    return _named_examples(
        positions, {position: float(scores[position]) for position in positions}, step
    )


def _largest_of(row: Sequence[Any]) -> float:
    parts = [tf.convert_to_tensor(part) for part in row]
    return largest([part for part in parts if part.dtype.is_floating])


def _trained_on(statistics: InputStatistics | None, context: StepContext) -> list[Any]:
    extremes = statistics.extremes if statistics is not None else ()
    return [extreme for extreme in extremes if context.was_trained_on(extreme.example)]
