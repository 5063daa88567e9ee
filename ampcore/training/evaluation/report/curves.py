"""Curves of a binary decision at every threshold: ROC, and precision against recall."""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

POINTS: Final = 101
"""The points of a curve that are kept: evenly along its length, the ends among them."""


def binary_curves(scores: Array, is_positive: Array) -> dict[str, Any] | None:
    """Both curves, and the areas under them; None if there is only one class.

    The areas are those of all thresholds. The average precision is the mean of the precision over
    the positive examples, as scikit-learn defines it: without interpolation.

    Args:
        scores: The probability of the positive class, (n,).
        is_positive: Whether an example is of it, bool (n,).
    """
    positives = int(is_positive.sum())
    negatives = len(is_positive) - positives
    if not positives or not negatives:
        return None
    order = np.argsort(-scores, kind="stable")
    sorted_scores = scores[order]
    # Examples with the same score change sides together.
    is_last = np.append(sorted_scores[1:] != sorted_scores[:-1], True)
    hits = np.cumsum(is_positive[order], dtype=np.int64)[is_last]
    alarms = np.flatnonzero(is_last) + 1 - hits
    recall = np.append(0.0, hits / positives)
    false_positive_rate = np.append(0.0, alarms / negatives)
    precision = np.append(1.0, hits / (hits + alarms))
    return {
        "positives": positives,
        "negatives": negatives,
        "auc": float(np.trapezoid(recall, false_positive_rate)),
        "average_precision": float(np.sum(np.diff(recall) * precision[1:])),
        "roc": _thinned(false_positive_rate, recall),
        "precision_recall": _thinned(recall, precision),
    }


def _thinned(x: Array, y: Array) -> list[list[float]]:
    """At most `POINTS` points [x, y] of a line."""
    rows = np.arange(len(x))
    if len(x) > POINTS:
        steps = np.abs(np.diff(x)) + np.abs(np.diff(y))
        length = np.append(0.0, np.cumsum(steps))
        rows = np.unique(np.searchsorted(length, np.linspace(0.0, length[-1], POINTS)))
    return [[round(float(x[row]), 5), round(float(y[row]), 5)] for row in rows]
