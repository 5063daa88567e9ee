"""Buckets: what happened in groups of consecutive steps, so that few numbers tell of many steps.

Buckets lie on a grid: one of `size` steps holds the steps s with `s // size` in common, of those
there are. So it does not matter in which pieces a series came, or from which finer buckets it was
put together. No bucket hides an event: beside the mean it keeps the least and the greatest value,
the first and the last one, and how many steps were skipped.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ampcore.series.block import StepBlock

SKIPPED: Final = "skipped"
"""The column that is counted, and has no least and greatest value."""
LEAST: Final = 2

Steps = NDArray[np.int64]


@dataclass(frozen=True)
class Aggregate:
    """One column of some buckets: arrays with one value a bucket.

    `min` and `max` are those of the values that are numbers, infinities included, and NaN where
    there is none; `mean` is that of the `finite` ones (float64), of which it counts how many.
    `first` and `last` are as they were, NaN included.
    """

    min: NDArray[Any]
    max: NDArray[Any]
    first: NDArray[Any]
    last: NDArray[Any]
    mean: NDArray[np.float64]
    finite: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.mean)

    def __getitem__(self, wanted: slice) -> "Aggregate":
        """Some of the buckets."""
        return Aggregate(*(getattr(self, each.name)[wanted] for each in fields(self)))

    def merged(self, at: NDArray[np.intp]) -> "Aggregate":
        """One bucket out of those from each index in `at` up to the next one."""
        totals = np.where(self.finite > 0, self.mean, 0.0) * self.finite
        finite = np.add.reduceat(self.finite, at)
        return Aggregate(
            np.fmin.reduceat(self.min, at),
            np.fmax.reduceat(self.max, at),
            self.first[at],
            self.last[_ends(at, len(self.last))],
            _mean(np.add.reduceat(totals, at), finite),
            finite,
        )

    @classmethod
    def of(cls, values: NDArray[Any], at: NDArray[np.intp]) -> "Aggregate":
        """Of the values from each index in `at` up to the next one."""
        numbers = np.isfinite(values)
        if numbers.all():
            finite = np.diff(at, append=len(values))
            totals = np.add.reduceat(values, at, dtype=np.float64)
        else:
            finite = np.add.reduceat(numbers, at, dtype=np.int64)
            totals = np.add.reduceat(np.where(numbers, values, 0), at, dtype=np.float64)
        return cls(
            np.fmin.reduceat(values, at),
            np.fmax.reduceat(values, at),
            values[at],
            values[_ends(at, len(values))],
            _mean(totals, finite),
            finite,
        )

    @classmethod
    def concat(cls, parts: Sequence["Aggregate"]) -> "Aggregate":
        """One behind the other."""
        return cls(
            *(np.concatenate([getattr(part, each.name) for part in parts]) for each in fields(cls))
        )

    @classmethod
    def missing(cls, count: int) -> "Aggregate":
        """Of a column that these buckets lack."""
        nan = np.full(count, np.nan, np.float32)
        mean = np.full(count, np.nan)
        return cls(nan, nan, nan, nan, mean, np.zeros(count, np.int64))


@dataclass(frozen=True)
class Extent:
    """Which steps some buckets hold: int64 arrays with one value a bucket.

    `starts` is its first step, `ends` the step behind its last, `counts` how many steps it holds
    (fewer than lie between the two where some are missing), `skipped` how many of these were
    skipped.
    """

    starts: Steps
    ends: Steps
    counts: Steps
    skipped: Steps

    def __getitem__(self, wanted: slice) -> "Extent":
        """That of some of the buckets."""
        return Extent(*(getattr(self, each.name)[wanted] for each in fields(self)))

    def merged(self, at: NDArray[np.intp]) -> "Extent":
        """One bucket out of those from each index in `at` up to the next one."""
        return Extent(
            self.starts[at],
            self.ends[_ends(at, len(self.ends))],
            np.add.reduceat(self.counts, at),
            np.add.reduceat(self.skipped, at),
        )

    @classmethod
    def of(cls, block: StepBlock, at: NDArray[np.intp]) -> "Extent":
        """That of the steps from each index in `at` up to the next one."""
        steps = block["step"]
        starts, ends = steps[at], steps[_ends(at, len(steps))] + 1
        skipped = block[SKIPPED] if SKIPPED in block else np.zeros(len(steps), np.bool_)
        return cls(starts, ends, ends - starts, np.add.reduceat(skipped, at, dtype=np.int64))

    @classmethod
    def concat(cls, parts: Sequence["Extent"]) -> "Extent":
        """One behind the other."""
        return cls(
            *(np.concatenate([getattr(part, each.name) for part in parts]) for each in fields(cls))
        )

    @classmethod
    def none(cls) -> "Extent":
        """That of no bucket."""
        nothing = np.empty(0, np.int64)
        return cls(nothing, nothing, nothing, nothing)


class Buckets:
    """Groups of steps, in order: for each cell of the grid that holds any, those of there are.

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
        """The step behind the last one of each bucket."""
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
        """Which cell of the grid each bucket is: its steps s have this `s // size`."""
        return self.starts // self.size

    def between(self, start: int, end: int) -> "Buckets":
        """Those whose steps s all have `start` ≤ s < `end`; may be none."""
        inside = np.flatnonzero((self.starts >= start) & (self.ends <= end))
        wanted = slice(int(inside[0]), int(inside[-1]) + 1) if len(inside) else slice(0, 0)
        columns = {name: each[wanted] for name, each in self._columns.items()}
        return Buckets(self.size, self.extent[wanted], columns)

    def merged(self, size: int) -> "Buckets":
        """Groups of more steps: `size` is a multiple of the present one."""
        if size % self.size:
            raise ValueError(f"expected a multiple of {self.size}, received {size}")
        at = _first_of_each(self.starts // size)
        if len(at) == len(self):
            return Buckets(size, self.extent, self._columns)
        columns = {name: each.merged(at) for name, each in self._columns.items()}
        return Buckets(size, self.extent.merged(at), columns)

    @classmethod
    def of(cls, block: StepBlock, size: int) -> "Buckets":
        """What happened in the steps of a block."""
        names = [name for name in block.names if name != SKIPPED]
        if not len(block):
            return cls(size, Extent.none(), {name: Aggregate.missing(0) for name in names})
        at = _first_of_each(block["step"] // size)
        columns = {name: Aggregate.of(block[name], at) for name in names}
        return cls(size, Extent.of(block, at), columns)

    @classmethod
    def concat(cls, parts: Sequence["Buckets"]) -> "Buckets":
        """One series out of several, in order; a bucket that two of them share becomes one.

        Raises ValueError where they overlap, and for buckets of different sizes.
        """
        parts = [part for part in parts if len(part)] or list(parts[:1])
        for before, after in pairwise(parts):
            if before.size != after.size or before.ends[-1] > after.starts[0]:
                raise ValueError(
                    f"expected buckets of {before.size} steps from step {before.ends[-1]} on, "
                    f"received some of {after.size} from step {after.starts[0]}"
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


def grid_for(first_step: int, end_step: int, most: int, *, multiple_of: int = 1) -> int:
    """A size of buckets, a multiple, of which at most `most` hold a range of steps.

    The least such one, of those tried: larger sizes are tried in steps of a hundredth. Raises
    ValueError for `most` below 2: two steps can lie on both sides of any line of the grid.
    """
    if most < LEAST:
        raise ValueError(f"expected at least {LEAST} buckets, received {most}")
    least = max(-(-(end_step - first_step) // most), 1)
    grain = max(least // 100 // multiple_of, 1) * multiple_of
    size = -(-least // grain) * grain
    while _cells(size, first_step, end_step) > most:
        size += grain
    return size


def _cells(size: int, first_step: int, end_step: int) -> int:
    """How many cells of the grid a range of steps touches."""
    if end_step <= first_step:
        return 0
    return (end_step - 1) // size - first_step // size + 1


def _first_of_each(cells: NDArray[np.int64]) -> NDArray[np.intp]:
    """Where in ascending numbers each one comes first."""
    return np.flatnonzero(np.diff(cells, prepend=-1))


def _ends(at: NDArray[np.intp], length: int) -> NDArray[np.intp]:
    """The last index of each group."""
    return np.append(at[1:], length) - 1


def _mean(totals: NDArray[np.float64], finite: NDArray[np.int64]) -> NDArray[np.float64]:
    mean = np.full(len(totals), np.nan)
    np.divide(totals, finite, out=mean, where=finite > 0)
    return mean
