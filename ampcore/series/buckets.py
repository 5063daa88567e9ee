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


class Buckets:
    """Groups of `size` steps on the grid, over the steps s with `first_step` ≤ s < `end_step`.

    The first and the last bucket may hold fewer steps than the others. `skipped` counts the
    skipped steps of each (int64); `buckets["loss"]` is the Aggregate of a column.
    """

    def __init__(
        self,
        size: int,
        first_step: int,
        end_step: int,
        skipped: NDArray[np.int64],
        columns: Mapping[str, Aggregate],
    ) -> None:
        self.size, self.first_step, self.end_step = size, first_step, end_step
        self.skipped = skipped
        self._columns = dict(columns)
        lengths = {len(skipped), *(len(each.mean) for each in self._columns.values())}
        if lengths != {_cells(size, first_step, end_step)}:
            raise ValueError(
                f"expected {_cells(size, first_step, end_step)} buckets of {size} steps from step "
                f"{first_step} to {end_step}, received {sorted(lengths)}"
            )

    def __len__(self) -> int:
        return len(self.skipped)

    def __getitem__(self, name: str) -> Aggregate:
        return self._columns[name]

    def __contains__(self, name: object) -> bool:
        return name in self._columns

    def __repr__(self) -> str:
        steps = f"{self.first_step}–{self.end_step - 1}"
        return f"<{len(self)} Buckets of {self.size} steps {steps}: {', '.join(self.names)}>"

    @property
    def names(self) -> tuple[str, ...]:
        """The aggregated columns, without `skipped`."""
        return tuple(self._columns)

    @property
    def starts(self) -> NDArray[np.int64]:
        """The first step of each bucket."""
        if not len(self):
            return np.empty(0, np.int64)
        first = self.first_step // self.size
        starts = np.arange(first, first + len(self), dtype=np.int64) * self.size
        starts[0] = self.first_step
        return starts

    @property
    def counts(self) -> NDArray[np.int64]:
        """How many steps each bucket holds."""
        return np.diff(self.starts, append=self.end_step)

    def select(self, names: Sequence[str]) -> "Buckets":
        """With only the named columns, in that order; KeyError for others."""
        columns = {name: self[name] for name in names}
        return Buckets(self.size, self.first_step, self.end_step, self.skipped, columns)

    def between(self, start: int, end: int) -> "Buckets":
        """Those whose steps s all have `start` ≤ s < `end`; may be none."""
        starts, ends = self.starts, self.starts + self.counts
        inside = np.flatnonzero((starts >= start) & (ends <= end))
        if not len(inside):
            return self._cut(slice(0, 0), start, start)
        wanted = slice(int(inside[0]), int(inside[-1]) + 1)
        return self._cut(wanted, int(starts[inside[0]]), int(ends[inside[-1]]))

    def merged(self, size: int) -> "Buckets":
        """Groups of more steps: `size` is a multiple of the present one."""
        if size % self.size:
            raise ValueError(f"expected a multiple of {self.size}, received {size}")
        if not len(self):
            return Buckets(size, self.first_step, self.end_step, self.skipped, self._columns)
        at = _first_of_each(self.starts // size)
        columns = {name: each.merged(at) for name, each in self._columns.items()}
        skipped = np.add.reduceat(self.skipped, at)
        return Buckets(size, self.first_step, self.end_step, skipped, columns)

    def _cut(self, wanted: slice, first_step: int, end_step: int) -> "Buckets":
        columns = {name: each[wanted] for name, each in self._columns.items()}
        return Buckets(self.size, first_step, end_step, self.skipped[wanted], columns)

    @classmethod
    def of(cls, block: StepBlock, size: int) -> "Buckets":
        """What happened in the steps of a block."""
        names = [name for name in block.names if name != SKIPPED]
        if not len(block):
            nothing = {name: Aggregate.missing(0) for name in names}
            return cls(size, block.first_step, block.first_step, np.empty(0, np.int64), nothing)
        at = _first_of_each(block["step"] // size)
        columns = {name: Aggregate.of(block[name], at) for name in names}
        skipped = (
            np.add.reduceat(block[SKIPPED], at, dtype=np.int64)
            if SKIPPED in block
            else np.zeros(len(at), np.int64)
        )
        return cls(size, block.first_step, block.end_step, skipped, columns)

    @classmethod
    def concat(cls, parts: Sequence["Buckets"]) -> "Buckets":
        """One series out of consecutive ones; a bucket that two of them share becomes one.

        Raises ValueError on a gap or an overlap, or for buckets of different sizes.
        """
        size = parts[0].size
        parts = [part for part in parts if len(part)] or list(parts[:1])
        for before, after in pairwise(parts):
            if (before.size, before.end_step) != (after.size, after.first_step):
                raise ValueError(
                    f"expected buckets of {before.size} steps from step {before.end_step}, "
                    f"received some of {after.size} from step {after.first_step}"
                )
        names = dict.fromkeys(name for part in parts for name in part.names)
        columns = {
            name: Aggregate.concat(
                [part[name] if name in part else Aggregate.missing(len(part)) for part in parts]
            )
            for name in names
        }
        skipped = np.concatenate([part.skipped for part in parts])
        first_step, end_step = parts[0].first_step, parts[-1].end_step
        if len(parts) > 1:
            cells = np.concatenate([part.starts // size for part in parts])
            at = _first_of_each(cells)
            columns = {name: each.merged(at) for name, each in columns.items()}
            skipped = np.add.reduceat(skipped, at)
        return cls(size, first_step, end_step, skipped, columns)


def grid_for(first_step: int, end_step: int, most: int, *, multiple_of: int = 1) -> int:
    """The least size of buckets with which there are at most `most` of them in a range."""
    least = max(-(-(end_step - first_step) // most), 1)
    size = -(-least // multiple_of) * multiple_of
    while _cells(size, first_step, end_step) > most:
        size += multiple_of
    return size


def _cells(size: int, first_step: int, end_step: int) -> int:
    """How many cells of the grid a range of steps touches."""
    if end_step <= first_step:
        return 0
    return (end_step - 1) // size - first_step // size + 1


def _first_of_each(cells: NDArray[np.int64]) -> NDArray[np.intp]:
    """Where in ascending numbers each one comes first."""
    return np.flatnonzero(np.diff(cells, prepend=cells[0] - 1))


def _ends(at: NDArray[np.intp], length: int) -> NDArray[np.intp]:
    """The last index of each group."""
    return np.append(at[1:], length) - 1


def _mean(totals: NDArray[np.float64], finite: NDArray[np.int64]) -> NDArray[np.float64]:
    mean = np.full(len(totals), np.nan)
    np.divide(totals, finite, out=mean, where=finite > 0)
    return mean
