"""Metrics of evaluations: their names, and how to read them from events and results.

The trainer emits an `evaluation` event after an epoch: `{"val_loss": 0.4, "val_accuracy": 0.9}`.
"""

import math
import re
from collections.abc import Mapping
from typing import Any, Final

METRIC_PATTERN: Final = r"val_[\w.:@/+()%,#-](?:[\w.:@/+()%,# -]{0,94}[\w.:@/+()%,#-])?"
"""The name of a metric: `val_`, then letters, digits, a few other characters, and spaces inside."""
MAX_METRICS: Final = 64
"""The metrics of one evaluation; more are ignored."""
MAIN_METRICS: Final = ("val_loss", "val_accuracy")
"""The metrics of almost every job, shown first; a result without `metrics` has only these."""

_NON_FINITE: Final = ("NaN", "Infinity", "-Infinity")
"""The non-finite numbers in JSON, which Python's `float` reads as well."""
_METRIC: Final = re.compile(METRIC_PATTERN)


def is_metric(name: str) -> bool:
    """Whether this is the name of a metric of an evaluation."""
    return _METRIC.fullmatch(name) is not None


def metrics_of(data: Any) -> dict[str, float]:
    """The metrics in the data of an evaluation, the main ones first; other entries are ignored.

    Non-finite values may be floats or the strings of JSON; they are floats in the result.
    """
    if not isinstance(data, Mapping):
        return {}
    first = [name for name in MAIN_METRICS if name in data]
    names = [*first, *(name for name in data if name not in first)]
    values = ((name, _number(data[name])) for name in names if is_metric(str(name)))
    metrics = [(name, value) for name, value in values if value is not None]
    return dict(metrics[:MAX_METRICS])


def metrics_of_result(result: Any) -> dict[str, float]:
    """The final metrics in a job's result: its `metrics`, and the main ones beside them."""
    if not isinstance(result, Mapping):
        return {}
    return metrics_of(
        {name: result.get(name) for name in MAIN_METRICS} | dict(metrics_of(result.get("metrics")))
    )


def finite_metrics(metrics: Mapping[str, float]) -> dict[str, float]:
    """The metrics without NaN and infinities."""
    return {name: value for name, value in metrics.items() if math.isfinite(value)}


def _number(value: Any) -> float | None:
    if isinstance(value, str):
        return float(value) if value in _NON_FINITE else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:  # an integer beyond the range of floats
        return None
