"""What the training examples tell about one column: numbers, categories or tokens."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
FLOAT32_ROUNDING: Final = 2.0**-24
MAX_ROUNDING: Final = 1e-4
"""In standard deviations. Where float32 rounds more, the mean is subtracted before the cast."""


@dataclass
class TrainingStatistics:
    """What the training examples tell about one column.

    Attributes:
        count: The numbers seen, without missing ones, for each channel.
        total: The sum of their differences from `shift`, float64.
        squares: The sum of the squares of these differences.
        shift: About their mean: the mean of the first rows; whole for integers.
        largest: The largest absolute value.
        values: How often each category or token occurs.
    """

    count: float = 0.0
    total: Any = 0.0
    squares: Any = 0.0
    shift: Any = None
    largest: Any = 0.0
    values: Counter[Any] = field(default_factory=Counter)

    def add_numbers(self, rows: Array) -> None:
        """Count the numbers of more rows, for each index of the last axis."""
        # float64 has not all digits of int64.
        wide = np.longdouble if rows.dtype == np.int64 else np.float64
        numbers = rows.reshape(-1, rows.shape[-1] if rows.ndim > 1 else 1).astype(wide)
        is_number = ~np.isnan(numbers)
        if self.shift is None:
            # Without it, the variance of large numbers would lose its digits.
            shift = np.where(is_number, numbers, 0).sum(axis=0) / np.maximum(
                is_number.sum(axis=0), 1
            )
            self.shift = np.rint(shift) if rows.dtype.kind in "iub" else shift
        shifted = np.where(is_number, numbers - self.shift, 0).astype(np.float64)
        self.count = self.count + is_number.sum(axis=0)
        self.total = self.total + shifted.sum(axis=0)
        self.squares = self.squares + (shifted**2).sum(axis=0)
        largest = np.abs(np.where(is_number, numbers, 0)).max(axis=0, initial=0)
        self.largest = np.maximum(self.largest, largest.astype(np.float64))

    @property
    def mean_difference(self) -> Array:
        """The mean of each channel, as a difference from `shift`."""
        difference: Array = self.total / np.maximum(self.count, 1)
        return difference

    @property
    def mean(self) -> Array:
        """The mean of each channel."""
        mean: Array = (self.shift + self.mean_difference).astype(np.float64)
        return mean

    @property
    def variance(self) -> Array:
        """The variance of each channel; 1 for a constant, so that it becomes 0."""
        variance = self.squares / np.maximum(self.count, 1) - self.mean_difference**2
        return np.where(variance > 0, variance, 1.0)

    @property
    def rounds_in_float32(self) -> bool:
        """Whether float32 would round the numbers by a visible part of a standard deviation."""
        rounding = self.largest * FLOAT32_ROUNDING
        return bool((rounding > MAX_ROUNDING * np.sqrt(self.variance)).any())

    def most_frequent(self, count: int) -> list[Any]:
        """The most frequent values, in their own order."""
        return most_frequent(self.values, count)


def most_frequent(values: Counter[Any], count: int) -> list[Any]:
    """The most frequent values, in their own order."""
    ordered = sorted(values.items(), key=lambda row: (-row[1], row[0]))
    return sorted(value for value, _ in ordered[:count])
