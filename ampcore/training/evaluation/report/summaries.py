"""Summaries of an output over all validation examples: confusions, curves, errors of numbers."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ampcore.training.evaluation.report.curves import binary_curves
from ampcore.training.evaluation.report.outputs import (
    DECISION,
    PREDICTED,
    SCORES,
    ReportedOutput,
)

Array = NDArray[Any]

MAX_MATRIX: Final = 100
"""Of more classes only the most frequent confusions are listed."""
MAX_PAIRS: Final = 100
MAX_CLASSES: Final = 1_000
"""Of more classes those with the most examples are listed."""
MAX_SCORES: Final = 20_000_000
"""Of more scores of all examples no curves are drawn."""
BINS: Final = 10
HISTOGRAM_BINS: Final = 41
MAX_POINTS: Final = 500
SEED: Final = 20_261


class OutputSummary(ABC):
    """Counts the examples of one output."""

    def __init__(self, output: ReportedOutput) -> None:
        self._output = output

    @abstractmethod
    def add(self, targets: Array, reduced: Mapping[str, Array]) -> None:
        """Count a batch: its targets, and what `ReportedOutput.reduce` has kept."""

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """The part of the report about this output."""


def summary_of(output: ReportedOutput, reduced: Mapping[str, Any]) -> OutputSummary | None:
    """What counts an output, by what is kept of it; None if nothing is."""
    if PREDICTED in reduced:
        return ClassSummary(output)
    if SCORES in reduced:
        return LabelSummary(output) if output.kind == "labels" else NumberSummary(output)
    return None


class ClassSummary(OutputSummary):
    """The confusions of classes, of examples or of positions such as pixels."""

    def __init__(self, output: ReportedOutput) -> None:
        super().__init__(output)
        self._pairs: Counter[tuple[int, int]] = Counter()
        self._scores = _Scores()

    def add(self, targets: Array, reduced: Mapping[str, Array]) -> None:
        """Count a batch."""
        predicted = reduced[PREDICTED]
        classes = class_numbers(targets, predicted.ndim)
        if classes.min(initial=0) < 0:
            raise ValueError(f"a target is the class {classes.min()}, which is no class")
        pairs, counts = np.unique(
            np.stack([classes.reshape(-1), predicted.reshape(-1)]), axis=1, return_counts=True
        )
        self._pairs.update(
            {(int(true), int(guess)): int(n) for true, guess, n in zip(*pairs, counts, strict=True)}
        )
        if SCORES in reduced:
            self._scores.add(classes, reduced[SCORES])

    def to_json(self) -> dict[str, Any]:
        """The confusions, the figures of each class, curves, and how far probabilities hold."""
        count = 1 + max(max(pair) for pair in self._pairs)
        count = max(count, len(self._output.names or ()), self._scores.width)
        true, predicted, right = (np.zeros(count, np.int64) for _ in range(3))
        for (target, guess), number in self._pairs.items():
            true[target] += number
            predicted[guess] += number
            right[target] += number * (target == guess)
        document: dict[str, Any] = {
            "classes": _figures(true, predicted, right),
            "accuracy": float(right.sum() / true.sum()),
        }
        if count <= MAX_MATRIX:
            matrix = np.zeros((count, count), np.int64)
            for pair, number in self._pairs.items():
                matrix[pair] = number
            document["confusion"] = matrix.tolist()
        mistakes = Counter({pair: n for pair, n in self._pairs.items() if pair[0] != pair[1]})
        document["confusions"] = [[*pair, n] for pair, n in mistakes.most_common(MAX_PAIRS)]
        scores = self._scores.joined()
        if scores is not None:
            classes, probabilities = scores
            document["calibration"] = _calibration(
                probabilities.max(axis=1), probabilities.argmax(axis=1) == classes
            )
            # Of two classes one curve says all.
            shown = [1] if probabilities.shape[1] == 2 else range(probabilities.shape[1])
            document["curves"] = _curves(
                {index: (probabilities[:, index], classes == index) for index in shown}
            )
        return document


class LabelSummary(OutputSummary):
    """Labels that are 0 or 1, each a decision of its own at the probability 0.5."""

    def __init__(self, output: ReportedOutput) -> None:
        super().__init__(output)
        self._scores = _Scores()
        self._counts: Array = np.zeros((3, 0), np.int64)

    def add(self, targets: Array, reduced: Mapping[str, Array]) -> None:
        """Count a batch."""
        scores = reduced[SCORES]
        labels = targets.reshape(len(targets), -1)[:, : scores.shape[1]] > DECISION
        guesses = scores > DECISION
        counts = np.stack([part.sum(axis=0) for part in (labels, guesses, labels & guesses)])
        self._counts = self._counts + counts if self._counts.shape[1] else counts
        self._scores.add(labels, scores)

    def to_json(self) -> dict[str, Any]:
        """The figures of each label, the confusion of a single one, and curves."""
        document: dict[str, Any] = {"classes": _figures(*self._counts), "threshold": DECISION}
        scores = self._scores.joined()
        if scores is None:
            return document
        labels, probabilities = scores
        if labels.shape[1] == 1:
            matrix = np.zeros((2, 2), np.int64)
            np.add.at(matrix, (labels[:, 0] * 1, (probabilities[:, 0] > DECISION) * 1), 1)
            document["confusion"] = matrix.tolist()
            confidence = np.maximum(probabilities, 1 - probabilities)[:, 0]
            is_right = (probabilities > DECISION)[:, 0] == labels[:, 0]
            document["calibration"] = _calibration(confidence, is_right)
        document["curves"] = _curves(
            {index: (probabilities[:, index], labels[:, index]) for index in range(labels.shape[1])}
        )
        return document


class NumberSummary(OutputSummary):
    """Numbers: their errors, and predictions against targets."""

    def __init__(self, output: ReportedOutput) -> None:
        super().__init__(output)
        self._scores = _Scores()

    def add(self, targets: Array, reduced: Mapping[str, Array]) -> None:
        """Keep a batch."""
        scores = reduced[SCORES]
        self._scores.add(targets.reshape(len(targets), -1)[:, : scores.shape[1]], scores)

    def to_json(self) -> dict[str, Any]:
        """The errors of each number; prediction minus target."""
        scores = self._scores.joined()
        if scores is None:
            return {}
        targets, predictions = (part.astype(np.float64) for part in scores)
        if targets.shape != predictions.shape:
            return {}
        return {
            "numbers": [
                _number(targets[:, index], predictions[:, index])
                for index in range(targets.shape[1])
            ]
        }


class _Scores:
    """The targets and scores of all examples, unless they are too many."""

    def __init__(self) -> None:
        self.width = 0
        self._parts: list[tuple[Array, Array]] = []
        self._size = 0

    def add(self, targets: Array, scores: Array) -> None:
        self.width = scores.shape[1]
        self._size += scores.size
        if self._size > MAX_SCORES:
            self._parts.clear()
        else:
            self._parts.append((targets, scores))

    def joined(self) -> tuple[Array, Array] | None:
        if not self._parts:
            return None
        targets, scores = (np.concatenate(part) for part in zip(*self._parts, strict=True))
        # A probability that is not finite has no place on a curve.
        is_finite = np.isfinite(scores).all() and np.isfinite(targets).all()
        return (targets, scores) if is_finite else None


def class_numbers(targets: Array, dimensions: int) -> Array:
    """The class of each example or position; targets may be one-hot, or have a last axis of 1."""
    if targets.ndim == dimensions + 1:
        return (
            targets.argmax(axis=-1) if targets.shape[-1] > 1 else targets[..., 0].astype(np.int64)
        )
    return targets.astype(np.int64)


def _figures(true: Array, predicted: Array, right: Array) -> list[dict[str, Any]]:
    """Of each class that occurs: its examples, precision, recall and F1."""
    occurs = np.flatnonzero(true + predicted)
    largest = occurs[np.argsort(-true[occurs], kind="stable")][:MAX_CLASSES]
    return [
        {
            "class": int(index),
            "examples": int(true[index]),
            "predicted": int(predicted[index]),
            "precision": _ratio(right[index], predicted[index]),
            "recall": _ratio(right[index], true[index]),
            "f1": _ratio(2 * right[index], true[index] + predicted[index]),
        }
        for index in sorted(largest)
    ]


def _ratio(part: Any, whole: Any) -> float | None:
    return float(part / whole) if whole else None


def _calibration(confidence: Array, is_right: Array) -> dict[str, Any]:
    """How often predictions are right, by the probability that they claim.

    The expected error is the mean distance between both over the examples (Guo et al. 2017).
    """
    bins = np.clip((confidence * BINS).astype(np.int64), 0, BINS - 1)
    counts = np.bincount(bins, minlength=BINS)
    claimed = np.bincount(bins, confidence, BINS)
    right = np.bincount(bins, is_right, BINS)
    return {
        "expected_error": float(np.abs(claimed - right).sum() / len(confidence)),
        "bins": [
            {
                "examples": int(counts[index]),
                "confidence": float(claimed[index] / counts[index]),
                "accuracy": float(right[index] / counts[index]),
            }
            for index in np.flatnonzero(counts)
        ],
    }


def _curves(decisions: Mapping[int, tuple[Array, Array]]) -> list[dict[str, Any]]:
    """The curves of each class or label that has both kinds of examples."""
    drawn = {index: binary_curves(*decision) for index, decision in decisions.items()}
    return [{"class": index, **curves} for index, curves in drawn.items() if curves is not None]


def _number(targets: Array, predictions: Array) -> dict[str, Any]:
    errors = predictions - targets
    variance = float(np.var(targets))
    # The ends of the histogram hold what lies further out.
    low, high = np.quantile(errors, [0.001, 0.999]).tolist()
    if low == high:
        low, high = low - 0.5, high + 0.5
    counts, edges = np.histogram(np.clip(errors, low, high), HISTOGRAM_BINS, (low, high))
    rows = _sample(len(targets), MAX_POINTS)
    return {
        "mean_error": float(errors.mean()),
        "mae": float(np.abs(errors).mean()),
        "rmse": float(np.sqrt(np.square(errors).mean())),
        "r2": 1.0 - float(np.square(errors).mean()) / variance if variance else None,
        "largest_error": float(np.abs(errors).max()),
        "histogram": {"edges": edges.tolist(), "counts": counts.tolist()},
        "points": [[float(targets[row]), float(predictions[row])] for row in rows],
    }


def _sample(count: int, size: int) -> Sequence[int]:
    """Some of `count` rows, drawn at random, the same ones in each run."""
    if count <= size:
        return range(count)
    drawn = np.random.default_rng(SEED).choice(count, size, replace=False)
    return [int(row) for row in np.sort(drawn)]
