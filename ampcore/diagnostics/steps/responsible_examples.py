"""Finds the examples that make a step what it is: with others in their place it is ordinary.

Inputs and losses that stand out name suspects; only the step without them convicts. So an example
with a rare but harmless value is not blamed, and one with a small loss and a large gradient is.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from ampcore.data import Batch
from ampcore.diagnostics.input_statistics import STANDS_OUT
from ampcore.diagnostics.steps.nonfinite_values import nonfinite_examples
from ampcore.diagnostics.steps.probe import DATA_RATIO, Measured

LOSS_SCORE: Final = 6.0
"""The modified z-score from which the loss of an example stands out in its batch."""
MIN_LOSS_SPREAD: Final = 0.05
"""A share of the median loss, below which differences of losses do not matter."""
MAX_SUSPECTS: Final = 16
MAX_RANKED: Final = 8
"""The examples whose own effect is measured."""
EFFECT_RATIO: Final = 2.0
"""An example that raises the gradient norm to this multiple is responsible."""

MeasureBatch = Callable[[Batch], Measured]
Positions = NDArray[np.int64]


@dataclass(frozen=True)
class ResponsibleExamples:
    """The examples that make a batch unusual, the one with the largest effect first."""

    positions: tuple[int, ...] = ()
    """In the batch."""
    effects: dict[int, Measured] = field(default_factory=dict)
    """By position: loss and gradient norm of the batch with this one of them alone."""
    without: Measured | None = None
    """Loss and gradient norm with other examples in the place of all of them."""
    scores: dict[int, float] = field(default_factory=dict)
    """By position: how far its inputs are from the usual ones; see `InputStatistics.scores`."""


def find_responsible(
    batch: Batch,
    actual: Measured,
    measure: MeasureBatch,
    losses: NDArray[np.float32],
    scores: NDArray[np.float64],
) -> ResponsibleExamples:
    """The examples of an unusual batch without which it is ordinary.

    Args:
        batch: The examples of the step.
        actual: Its loss and gradient norm.
        measure: Computes the same of a batch with the same shapes.
        losses: The loss of each example, float32 (examples,), or none.
        scores: How far the values of each are from the usual ones, float64 (examples,); see
            `InputStatistics.scores`.

    Returns:
        The examples; none if no few of them are responsible.
    """
    size = len(batch.parts[0])
    search = _Search(batch, actual, measure)
    suspects = suspicious_examples(batch, losses, scores)
    if not len(suspects) or not search.is_ordinary_without(suspects):
        suspects = search.halves(size)
    if not len(suspects):
        return ResponsibleExamples()
    ranked = search.by_effect(suspects)
    positions = [position for position, _ in ranked]
    return ResponsibleExamples(
        tuple(positions),
        dict(ranked[:MAX_RANKED]),
        search.measured_without(suspects),
        {position: float(scores[position]) for position in positions},
    )


def suspicious_examples(
    batch: Batch, losses: NDArray[np.float32], input_scores: NDArray[np.float64]
) -> Positions:
    """The examples whose inputs or losses stand out, at most `MAX_SUSPECTS`, the worst first.

    Args:
        batch: The examples.
        losses: The loss of each, or none.
        input_scores: See `InputStatistics.scores`.
    """
    loss_scores = modified_z_scores(losses) if len(losses) else np.zeros(len(input_scores))
    worst = np.maximum(input_scores / STANDS_OUT, loss_scores / LOSS_SCORE)
    worst[nonfinite_examples(batch)] = np.inf
    order = np.argsort(-worst, kind="stable")
    suspects: Positions = order[worst[order] > 1.0]
    # What most examples have in common is not what is wrong with some of them.
    return suspects[:MAX_SUSPECTS] if 2 * len(suspects) <= len(worst) else suspects[:0]


def modified_z_scores(losses: NDArray[np.float32]) -> NDArray[np.float64]:
    """How far each loss is above the median, float64 (examples,); infinite if it is not finite.

    Source: Iglewicz and Hoaglin 1993, How to Detect and Handle Outliers.
    """
    wide = losses.astype(np.float64)
    finite = wide[np.isfinite(wide)]
    if not len(finite):
        return np.zeros(len(wide))
    median = float(np.median(finite))
    spread = float(np.median(np.abs(finite - median))) / 0.6745 + MIN_LOSS_SPREAD * abs(median)
    spread = max(spread, float(np.finfo(np.float32).eps))
    return np.where(np.isfinite(wide), (wide - median) / spread, np.inf)


class _Search:
    """Measures a batch with other examples in the place of some."""

    def __init__(self, batch: Batch, actual: Measured, measure: MeasureBatch) -> None:
        self._batch, self._actual, self._measure = batch, actual, measure
        self._measurements: dict[tuple[int, ...], Measured] = {}

    def measured_without(self, positions: Positions) -> Measured:
        key = tuple(sorted(positions.tolist()))
        if key not in self._measurements:
            self._measurements[key] = self._measure(without(self._batch, positions))
        return self._measurements[key]

    def is_ordinary_without(self, positions: Positions) -> bool:
        """Whether these examples make a difference of at least `DATA_RATIO`."""
        return is_higher(self._actual, self.measured_without(positions), DATA_RATIO)

    def halves(self, size: int) -> Positions:
        """The one example that is responsible, found by halving; none if there is no such one."""
        suspects = np.arange(size)
        while len(suspects) > 1:
            parts = np.array_split(suspects, 2)
            healing = [part for part in parts if self.is_ordinary_without(part)]
            if len(healing) != 1:
                return suspects[:0]
            [suspects] = healing
        return suspects if self.is_ordinary_without(suspects) else suspects[:0]

    def by_effect(self, suspects: Positions) -> list[tuple[int, Measured]]:
        """The suspects that raise the loss or the gradient norm alone, the worst first."""
        base = self.measured_without(suspects)
        if len(suspects) == 1:
            return [(int(suspects[0]), self._actual)]
        effects = [
            (position, self.measured_without(suspects[suspects != position]))
            for position in suspects[:MAX_RANKED].tolist()
        ]
        guilty = [pair for pair in effects if is_higher(pair[1], base, EFFECT_RATIO)]
        return sorted(guilty or effects, key=lambda pair: -_magnitude(pair[1]))


def is_higher(measured: Measured, reference: Measured, ratio: float) -> bool:
    """Whether a loss or gradient norm is that many times another one, or alone not finite."""
    if not reference.is_finite:
        return False
    return not measured.is_finite or any(
        high > ratio * abs(low) for high, low in zip(measured, reference, strict=True)
    )


def without(batch: Batch, positions: Positions) -> Batch:
    """The batch with other examples of it in the place of these."""
    size = len(batch.parts[0])
    other_positions = np.setdiff1d(np.arange(size), positions)
    rows = np.arange(size)
    if len(other_positions):
        rows[positions] = np.resize(other_positions, len(positions))
    return batch.map(lambda part: tf.gather(tf.convert_to_tensor(part), rows))


def _magnitude(measured: Measured) -> float:
    return measured.grad_norm if measured.is_finite else np.inf


def shown_effects(responsible: ResponsibleExamples) -> dict[int, dict[str, Any]]:
    """By position: what to show beside an example."""
    return {
        position: {
            "input_score": responsible.scores.get(position),
            "effect": measured.to_json(),
        }
        for position, measured in responsible.effects.items()
    }


def indices_of(positions: Sequence[int], indices: NDArray[np.int64]) -> tuple[int, ...]:
    """The training examples at these positions of a batch."""
    return tuple(int(indices[position]) for position in positions)
