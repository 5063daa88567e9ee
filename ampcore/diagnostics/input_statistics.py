"""Robust statistics of the values of all training examples, to tell which of them stand out.

Medians and quantiles do not move when a few examples are wrong, as means and maxima do. An example
stands out if one of its values is many times further from the median than 99 % of the values are;
where more than 1 % are wrong, than half of them are, with a margin.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from ampcore.data import ArrayExamples, Batch, Examples
from ampcore.data.batches import BatchSource
from ampcore.data.examples import consecutive

SAMPLE_ROWS: Final = 4096
"""The examples whose medians and quantiles are computed, at equal distances in all of them."""
READ_ROWS: Final = 256
"""So many where they are read from files."""
SAMPLE_VALUES: Final = 2**21
"""The sample has fewer examples where these are large."""
SCAN_BYTES: Final = 2**31
"""Examples in memory are all looked at, up to this size."""
ROWS_AT_ONCE: Final = 4096
QUANTILE: Final = 0.99
MAX_TAIL: Final = 1e4
"""How many times further from the median than half of the values the last 1 % may be, before they
count as wrong themselves. Heavy tails are shorter: 1,000 for a log-normal with a sigma of 3."""
USUAL_TAIL: Final = 10.0
"""How many times further than half of the values the others are taken to be in that case."""
MIN_RARE: Final = 3
"""How many examples of the sample have a rare value."""
STANDS_OUT: Final = 30.0
"""The score from which the inputs of an example stand out: in heavy-tailed data, such as prices,
correct values have scores of 10 to 300, so that a score alone proves nothing."""
EXTREME: Final = 1e4
"""The score that no plausible measurement reaches."""
MAX_EXTREMES: Final = 16

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class _Part:
    """The statistics of one input tensor: for each feature of a vector, else for all values."""

    median: Floats
    spread: Floats
    """The distance from the median that usual values have at most."""

    @classmethod
    def of(cls, values: NDArray[Any]) -> "_Part":
        rows = _features(values)
        finite = np.where(np.isfinite(rows), rows, np.nan)
        # NumPy warns of a column without any number, whose median is taken for 0.
        finite[:, np.isnan(finite).all(axis=0)] = 0.0
        # A constant feature has no spread of its own: it gets the typical one of its tensor.
        with np.errstate(all="ignore"):
            median = np.nan_to_num(np.nanmedian(finite, axis=0))
            distances = np.abs(finite - median)
            spread = _spread(distances, np.abs(median))
            overall = float(np.median(spread)) if (spread > 0).any() else 0.0
            # A value that less than 1 % of the examples have, but several, is rare and not wrong.
            spread = np.where(spread > 0, spread, _rare_spread(distances))
        floor = np.maximum(np.maximum(overall, np.abs(median)), np.finfo(np.float32).tiny)
        return cls(median, np.where(spread > 0, spread, floor))

    def scores(self, values: NDArray[Any]) -> Floats:
        rows = _features(values)
        with np.errstate(all="ignore"):
            distances = np.abs(rows - self.median) / self.spread
        distances = np.where(np.isfinite(rows), distances, np.inf)
        return _max_of_examples(distances, len(values))

    def are_extreme(self, values: NDArray[Any]) -> NDArray[np.bool_]:
        rows = values.reshape(len(values), -1)
        if rows.dtype.kind != "f":
            rows = rows.astype(np.float32)
        if values.ndim != 2:  # all values have one median
            rows = np.stack([rows.min(axis=1), rows.max(axis=1)], axis=1)
        wide = np.finfo(rows.dtype).max
        low, high = (
            np.clip(self.median + sign * EXTREME * self.spread, -wide, wide).astype(rows.dtype)
            for sign in (-1, 1)
        )
        # A comparison with NaN is false.
        is_usual = np.isfinite(rows)
        is_usual &= (rows >= low) & (rows <= high)
        extreme: NDArray[np.bool_] = ~is_usual.all(axis=1)
        return extreme


@dataclass(frozen=True)
class ExtremeExample:
    """A training example with a value that no plausible measurement has."""

    example: int
    """Index into the training examples."""
    largest: float
    """The largest magnitude of its inputs and targets; infinite or NaN if one is."""


class InputStatistics:
    """Medians and spreads of floating-point inputs and targets.

    Args:
        examples: The training examples.
    """

    def __init__(self, examples: Examples) -> None:
        inputs, targets = self._sample(examples)
        parts = [*inputs, *targets]
        self._parts = [_Part.of(part) if _is_float(part) else None for part in parts]
        self.largest = max((_largest(part) for part in inputs if _is_float(part)), default=0.0)
        """The largest finite magnitude of the inputs in the sample."""
        self.usual_input = _usual(self._parts[: len(inputs)])
        """Inputs are usually at most so large."""
        self.usual = _usual(self._parts)
        """Inputs and targets are usually at most so large."""
        self.extremes = self._find_extremes(examples)
        """The examples with the highest scores from `EXTREME` on, the highest first."""

    @classmethod
    def of(cls, examples: Examples | BatchSource) -> "InputStatistics | None":
        """The statistics; None of batches in an order of their own, which would be lost."""
        return None if isinstance(examples, BatchSource) else cls(examples)

    def scores(self, batch: Batch) -> Floats:
        """How far the values of each example are from the usual ones, float64 (examples,).

        1 is as far as usual values are at most; infinite for values that are not finite.
        """
        values = value_parts(batch)
        columns = [
            statistics.scores(part)
            for statistics, part in zip(self._parts, values, strict=True)
            if statistics is not None
        ]
        zeros = np.zeros(len(batch.parts[0]))
        highest: Floats = np.maximum.reduce([zeros, *columns])
        return highest

    @staticmethod
    def _sample(examples: Examples) -> tuple[Sequence[NDArray[Any]], Sequence[NDArray[Any]]]:
        values = sum(part.shape.num_elements() or 1 for part in tf.nest.flatten(examples.spec.x))
        limit = SAMPLE_ROWS if isinstance(examples, ArrayExamples) else READ_ROWS
        count = min(limit, len(examples), max(1, SAMPLE_VALUES // values))
        rows = np.linspace(0, len(examples) - 1, count).astype(np.int64)
        sample = examples.read(rows)
        inputs = [np.asarray(part) for part in tf.nest.flatten(sample.x)]
        return inputs, value_parts(sample)[len(inputs) :]

    def _find_extremes(self, examples: Examples) -> tuple[ExtremeExample, ...]:
        highest: list[tuple[float, ExtremeExample]] = []
        for first, batch in _scanned(examples):
            rows = np.flatnonzero(self._are_extreme(batch))
            if not len(rows):
                continue
            part = batch.map(lambda values, rows=rows: values[rows])
            scores = self.scores(part)
            highest += [
                (
                    float(scores[number]),
                    ExtremeExample(first + row, _largest_of_example(part, number)),
                )
                for number, row in enumerate(rows.tolist())
            ]
            highest = sorted(highest, key=lambda pair: -pair[0])[:MAX_EXTREMES]
        return tuple(example for _, example in highest)

    def _are_extreme(self, batch: Batch) -> NDArray[np.bool_]:
        """Whether each example has a score of `EXTREME`, bool (examples,), faster than `scores`."""
        values = value_parts(batch)
        extreme = np.zeros(len(batch.parts[0]), np.bool_)
        for statistics, part in zip(self._parts, values, strict=True):
            if statistics is not None:
                extreme |= statistics.are_extreme(part)
        return extreme


def value_parts(batch: Batch) -> list[NDArray[Any]]:
    """The inputs and targets of a batch as arrays, the inputs first."""
    parts = tf.nest.flatten((batch.x, batch.y))
    return [np.asarray(part) for part in parts if part is not None]


def _scanned(examples: Examples) -> Iterator[tuple[int, Batch]]:
    """All examples in memory, in pieces; files are read for the sample alone."""
    if not isinstance(examples, ArrayExamples):
        return
    if sum(np.asarray(part).nbytes for part in tf.nest.flatten(examples.arrays.x)) > SCAN_BYTES:
        return
    first = 0
    for batch in consecutive(examples, ROWS_AT_ONCE):
        yield first, batch
        first += len(batch.parts[0])


def _usual(parts: Sequence[_Part | None]) -> float:
    largest = (np.max(np.abs(part.median) + part.spread) for part in parts if part is not None)
    return float(max(largest, default=0.0))


def _is_float(part: NDArray[Any]) -> bool:
    # The extension type bfloat16 has the kind V.
    return part.size > 0 and (part.dtype.kind == "f" or part.dtype.name == "bfloat16")


def _features(values: NDArray[Any]) -> Floats:
    """The values as rows: of vectors their features, of anything else one value in each row."""
    wide = values.astype(np.float64)
    return wide if wide.ndim == 2 else wide.reshape(-1, 1)


def _spread(distances: Floats, median: Floats) -> Floats:
    half, upper = np.nan_to_num(np.nanquantile(distances, [0.5, QUANTILE], axis=0))
    # Where half of the values are equal, their size tells what is usual.
    usual = np.where(half > 0, half, median)
    is_wrong = (usual > 0) & (upper > MAX_TAIL * usual)
    spread: Floats = np.where(is_wrong, USUAL_TAIL * usual, upper)
    return spread


def _rare_spread(distances: Floats) -> Floats:
    """The typical distance of the values that differ from the median; 0 with few of them."""
    differing = np.where(distances > 0, distances, np.nan)
    is_rare = np.isfinite(differing).sum(axis=0) >= MIN_RARE
    typical = np.full(distances.shape[1], 0.0)
    typical[is_rare] = np.nanmedian(differing[:, is_rare], axis=0)
    return typical


def _max_of_examples(distances: Floats, examples: int) -> Floats:
    highest: Floats = distances.reshape(examples, -1).max(axis=1, initial=0.0)
    return highest


def _largest(part: NDArray[Any]) -> float:
    finite = np.abs(np.where(np.isfinite(part), part, 0).astype(np.float64))
    return float(finite.max(initial=0.0))


def _largest_of_example(batch: Batch, row: int) -> float:
    parts = [part[row] for part in value_parts(batch)]
    return max(float(np.abs(part).max(initial=0.0)) for part in parts if _is_float(part))
