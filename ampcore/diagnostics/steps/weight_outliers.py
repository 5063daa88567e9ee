"""Finds single weights that are far from all others, as a flipped bit or a damaged file leaves.

A training that diverges makes many weights large; a fault of memory or of a file makes one.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ampcore.models.task import Task

MAX_OUTLIERS: Final = 2
"""More large weights than this in one variable are no single fault."""
RATIO: Final = 1e4
"""How many times larger than all other weights of its variable it is."""
MIN_SIZE: Final = 16
"""Smaller variables tell nothing about what is usual."""
MIN_MAGNITUDE: Final = 100.0


@dataclass(frozen=True)
class WeightOutlier:
    """A weight that is far from all others of its variable."""

    variable: str
    value: float
    largest_other: float
    """The largest magnitude of the other weights."""


def weight_outliers(task: Task) -> list[WeightOutlier]:
    """The trainable variables with at most `MAX_OUTLIERS` weights that are far from all others."""
    outliers = []
    for network in task.networks:
        for variable in network.model.trainable_variables:
            values = np.asarray(variable.value).astype(np.float32).ravel()
            if (outlier := _outlier(variable.path, values)) is not None:
                outliers.append(outlier)
    return outliers


def _outlier(path: str, values: NDArray[np.float32]) -> WeightOutlier | None:
    if len(values) < MIN_SIZE or not np.isfinite(values).all():
        return None
    magnitudes = np.abs(values)
    largest = np.argpartition(magnitudes, -MAX_OUTLIERS - 1)[-MAX_OUTLIERS - 1 :]
    ordered = largest[np.argsort(-magnitudes[largest])]
    for count in range(1, MAX_OUTLIERS + 1):
        smallest_outlier, next_largest = magnitudes[ordered[count - 1]], magnitudes[ordered[count]]
        if smallest_outlier >= max(RATIO * next_largest, MIN_MAGNITUDE):
            return WeightOutlier(path, float(values[ordered[0]]), float(next_largest))
    return None
