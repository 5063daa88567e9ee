"""Buckets: per-step values aggregated over groups of consecutive steps.

Buckets lie on a grid: a bucket of `size` steps holds the steps s with the same `s // size`. So the
result does not depend on the blocks in which the steps arrived, nor on the finer buckets that were
merged. No bucket hides an event: besides the mean it keeps the minimum, the maximum, the first and
the last value, and the number of skipped steps.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ampspec.telemetry.steps.block import StepBlock
from ampspec.telemetry.steps.missing import MISSING, is_missing

SKIPPED: Final = "skipped"
"""The column that is counted: it has no minimum and maximum."""
MIN_BUCKETS: Final = 2

Steps = NDArray[np.int64]


@dataclass(frozen=True)
class Aggregate:
    """One column of a series of buckets: arrays with one value per bucket.

    `min` and `max` ignore NaN and include the infinities; they are NaN where all values are NaN.
    `mean` (float64) is over the finite values, and `finite` is their number. `first` and `last` are
    the stored values, NaN included. All but `finite` are `MISSING` where all cells are empty.
    """

    min: NDArray[Any]
    max: NDArray[Any]
    first: NDArray[Any]
    last: NDArray[Any]
    mean: NDArray[np.float64]
    finite: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.mean)

    def __getitem__(self, index: slice) -> "Aggregate":
        """A slice of the buckets."""
        return Aggregate(*(getattr(self, column.name)[index] for column in fields(self)))

    def merged(self, at: NDArray[np.intp]) -> "Aggregate":
        """Merge the buckets from each index in `at` up to the next one."""
        totals = np.where(self.finite > 0, self.mean, 0.0) * self.finite
        finite = np.add.reduceat(self.finite, at)
        aggregate = Aggregate(
            np.fmin.reduceat(self.min, at),
            np.fmax.reduceat(self.max, at),
            self.first[at],
            self.last[_ends(at, len(self.last))],
            _mean(np.add.reduceat(totals, at), finite),
            finite,
        )
        if not (empty := is_missing(self.mean)).any():
            return aggregate
        return aggregate._with_missing(np.logical_and.reduceat(empty, at))

    @classmethod
    def of(cls, values: NDArray[Any], at: NDArray[np.intp]) -> "Aggregate":
        """Aggregate the values from each index in `at` up to the next one."""
        numbers = np.isfinite(values)
        if numbers.all():
            finite = np.diff(at, append=len(values))
            totals = np.add.reduceat(values, at, dtype=np.float64)
        else:
            finite = np.add.reduceat(numbers, at, dtype=np.int64)
            totals = np.add.reduceat(np.where(numbers, values, 0), at, dtype=np.float64)
        aggregate = cls(
            np.fmin.reduceat(values, at),
            np.fmax.reduceat(values, at),
            values[at],
            values[_ends(at, len(values))],
            _mean(totals, finite),
            finite,
        )
        if not (empty := is_missing(values)).any():
            return aggregate
        return aggregate._with_missing(np.logical_and.reduceat(empty, at))

    @classmethod
    def concat(cls, parts: Sequence["Aggregate"]) -> "Aggregate":
        """Concatenate the parts."""
        return cls(
            *(
                np.concatenate([getattr(part, column.name) for part in parts])
                for column in fields(cls)
            )
        )

    @classmethod
    def missing(cls, count: int) -> "Aggregate":
        """The values of a column that these buckets lack."""
        nan = np.full(count, MISSING, np.float32)
        return cls(nan, nan, nan, nan, np.full(count, MISSING, float), np.zeros(count, np.int64))

    def _with_missing(self, is_empty: NDArray[np.bool_]) -> "Aggregate":
        """The same aggregates with MISSING where a bucket has empty cells only, and nowhere else.

        Of two NaNs NumPy returns either, so the minimum of an empty cell and a NaN may be both.
        """
        parts = []
        for part in (self.min, self.max, self.mean):
            nan = np.where(is_empty, part.dtype.type(MISSING), part.dtype.type(np.nan))
            parts.append(np.where(np.isnan(part), nan, part))
        low, high, mean = parts
        return Aggregate(low, high, self.first, self.last, mean, self.finite)


@dataclass(frozen=True)
class Extent:
    """The steps in each bucket: int64 arrays with one value per bucket.

    `starts` is its first step, `ends` the step after its last, `counts` the number of its steps
    (less than `ends - starts` where steps are missing), `skipped` how many of these were skipped.
    """

    starts: Steps
    ends: Steps
    counts: Steps
    skipped: Steps

    def __getitem__(self, index: slice) -> "Extent":
        """The extent of a slice of the buckets."""
        return Extent(*(getattr(self, column.name)[index] for column in fields(self)))

    def merged(self, at: NDArray[np.intp]) -> "Extent":
        """Merge the buckets from each index in `at` up to the next one."""
        return Extent(
            self.starts[at],
            self.ends[_ends(at, len(self.ends))],
            np.add.reduceat(self.counts, at),
            np.add.reduceat(self.skipped, at),
        )

    @classmethod
    def of(cls, block: StepBlock, at: NDArray[np.intp]) -> "Extent":
        """The extent of the steps from each index in `at` up to the next one."""
        steps = block["step"]
        starts, ends = steps[at], steps[_ends(at, len(steps))] + 1
        counts = np.diff(at, append=len(steps))
        skipped = block[SKIPPED] if SKIPPED in block else np.zeros(len(steps), np.bool_)
        return cls(starts, ends, counts, np.add.reduceat(skipped, at, dtype=np.int64))

    @classmethod
    def concat(cls, parts: Sequence["Extent"]) -> "Extent":
        """Concatenate the parts."""
        return cls(
            *(
                np.concatenate([getattr(part, column.name) for part in parts])
                for column in fields(cls)
            )
        )

    @classmethod
    def none(cls) -> "Extent":
        """The extent of no bucket."""
        nothing = np.empty(0, np.int64)
        return cls(nothing, nothing, nothing, nothing)


class Buckets:
    """A series of buckets, in order; cells of the grid without steps have no bucket.

    `buckets["loss"]` is the Aggregate of a column.
    """

    def __init__(self, size: int, extent: Extent, columns: Mapping[str, Aggregate]) -> None:
        self.size, self.extent = size, extent
        self._columns = dict(columns)
        lengths = {name: len(column) for name, column in self._columns.items()}
        if set(lengths.values()) - {len(self)}:
            raise ValueError(f"expected columns of {len(self)} buckets, received {lengths}")

    def __len__(self) -> int:
        return len(self.extent.starts)

    def __getitem__(self, name: str) -> Aggregate:
        return self._columns[name]

    def __contains__(self, name: object) -> bool:
        return name in self._columns

    def __repr__(self) -> str:
        steps = f" {self.starts[0]}–{self.ends[-1] - 1}" if len(self) else ""
        return f"<{len(self)} Buckets of {self.size} steps{steps}: {', '.join(self.names)}>"

    @property
    def names(self) -> tuple[str, ...]:
        """The aggregated columns, without `skipped`."""
        return tuple(self._columns)

    @property
    def starts(self) -> Steps:
        """The first step of each bucket."""
        return self.extent.starts

    @property
    def ends(self) -> Steps:
        """The step after the last one of each bucket."""
        return self.extent.ends

    @property
    def counts(self) -> Steps:
        """How many steps each bucket holds."""
        return self.extent.counts

    @property
    def skipped(self) -> Steps:
        """How many of them were skipped."""
        return self.extent.skipped

    @property
    def cells(self) -> Steps:
        """The cell of the grid of each bucket: `s // size` for each of its steps s."""
        return self.starts // self.size

    def between(self, start: int, end: int) -> "Buckets":
        """The buckets whose steps s all have `start` ≤ s < `end`; may be empty."""
        inside = np.flatnonzero((self.starts >= start) & (self.ends <= end))
        selection = slice(int(inside[0]), int(inside[-1]) + 1) if len(inside) else slice(0, 0)
        columns = {name: aggregate[selection] for name, aggregate in self._columns.items()}
        return Buckets(self.size, self.extent[selection], columns)

    def merged(self, size: int) -> "Buckets":
        """Merge into larger buckets: `size` is a multiple of the present size."""
        if size % self.size:
            raise ValueError(f"expected a multiple of {self.size}, received {size}")
        at = _first_of_each(self.starts // size)
        if len(at) == len(self):
            return Buckets(size, self.extent, self._columns)
        columns = {name: aggregate.merged(at) for name, aggregate in self._columns.items()}
        return Buckets(size, self.extent.merged(at), columns)

    @classmethod
    def of(cls, block: StepBlock, size: int) -> "Buckets":
        """Aggregate the steps of a block."""
        names = [name for name in block.names if name != SKIPPED]
        if not len(block):
            return cls(size, Extent.none(), {name: Aggregate.missing(0) for name in names})
        at = _first_of_each(block["step"] // size)
        columns = {name: Aggregate.of(block[name], at) for name in names}
        return cls(size, Extent.of(block, at), columns)

    @classmethod
    def concat(cls, parts: Sequence["Buckets"]) -> "Buckets":
        """Concatenate consecutive series; a bucket that two of them share becomes one.

        Raises ValueError where they overlap, and for buckets of different sizes.
        """
        parts = [part for part in parts if len(part)] or list(parts[:1])
        for part, next_part in pairwise(parts):
            if part.size != next_part.size or part.ends[-1] > next_part.starts[0]:
                raise ValueError(
                    f"expected buckets of {part.size} steps from step {part.ends[-1]} on, "
                    f"received some of {next_part.size} from step {next_part.starts[0]}"
                )
        if len(parts) == 1:
            return parts[0]
        columns = {
            name: Aggregate.concat(
                [part[name] if name in part else Aggregate.missing(len(part)) for part in parts]
            )
            for name in dict.fromkeys(name for part in parts for name in part.names)
        }
        extent = Extent.concat([part.extent for part in parts])
        return cls(parts[0].size, extent, columns).merged(parts[0].size)


def smallest_bucket_size(
    first_step: int, end_step: int, max_buckets: int, *, multiple_of: int = 1
) -> int:
    """A bucket size, a multiple of `multiple_of`, at which at most `max_buckets` hold a range.

    About the smallest such size: sizes are tried in increments of 1%. Raises ValueError for
    `max_buckets` below 2: even two steps can lie on both sides of a line of the grid.
    """
    if max_buckets < MIN_BUCKETS:
        raise ValueError(f"expected at least {MIN_BUCKETS} buckets, received {max_buckets}")
    least = max(-(-(end_step - first_step) // max_buckets), 1)
    increment = max(least // 100 // multiple_of, 1) * multiple_of
    size = -(-least // increment) * increment
    while _cells(size, first_step, end_step) > max_buckets:
        size += increment
    return size


def _cells(size: int, first_step: int, end_step: int) -> int:
    """The number of cells of the grid that a range of steps touches."""
    if end_step <= first_step:
        return 0
    return (end_step - 1) // size - first_step // size + 1


def _first_of_each(cells: NDArray[np.int64]) -> NDArray[np.intp]:
    """The index of the first occurrence of each value in ascending numbers."""
    return np.flatnonzero(np.diff(cells, prepend=-1))


def _ends(at: NDArray[np.intp], length: int) -> NDArray[np.intp]:
    """The last index of each group."""
    return np.append(at[1:], length) - 1


def _mean(totals: NDArray[np.float64], finite: NDArray[np.int64]) -> NDArray[np.float64]:
    mean = np.full(len(totals), np.nan)
    np.divide(totals, finite, out=mean, where=finite > 0)
    return mean
