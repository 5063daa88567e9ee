"""Levels of buckets with increasing size, so that a range of any length can be read quickly.

A level is stored in chunks of a fixed number of buckets. `extend_levels` returns the chunks that
new steps create or change; `downsample` reads a range from the stored chunks. Only whole buckets
are stored: steps after the last bucket, and a part of a bucket at the end of a range, are read from
finer levels, or from the steps themselves.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Protocol

from ampspec.telemetry.steps.block import COLUMN_DTYPES, StepBlock
from ampspec.telemetry.steps.buckets import Buckets, smallest_bucket_size

LEVEL_FACTOR: Final = 4
LEVELS: Final = tuple(64 * LEVEL_FACTOR**level for level in range(8))
"""The number of steps in a bucket of each level."""
BUCKETS_PER_CHUNK: Final = 4096
"""Buckets stored together."""
DIRECT_READ_STEPS: Final = 16_384
"""Ranges up to this number of steps are read directly instead of from finer levels."""
MAX_RUN_STEPS: Final = 65_536
"""The number of steps that are aggregated at a time, to bound the memory of a reader."""

EMPTY_BLOCK: Final = StepBlock(0, {name: [] for name in COLUMN_DTYPES})


class StepSeries(Protocol):
    """Reads the stored steps and buckets of a series."""

    def covered_until(self, size: int) -> int:
        """The step after the last stored bucket of a level; 0 without any."""

    def buckets(self, size: int, start: int, end: int) -> Sequence[Buckets]:
        """The stored buckets of a level whose steps s all have `start` ≤ s < `end`, in order."""

    def steps(self, start: int, end: int) -> Iterable[StepBlock]:
        """The steps s with `start` ≤ s < `end`, in order; some may be missing."""


@dataclass(frozen=True)
class SeriesRange:
    """The steps s of a series with `start` ≤ s < `end`."""

    series: StepSeries
    start: int
    end: int


def covered_until(buckets: Buckets | None) -> int:
    """The step after the cell of the last bucket; 0 without any."""
    if buckets is None or not len(buckets):
        return 0
    return int(buckets.cells[-1] + 1) * buckets.size


def extend_levels(
    last: Mapping[int, Buckets], blocks: Sequence[StepBlock]
) -> dict[int, list[Buckets]]:
    """The chunks of each level that new steps create or change.

    Args:
        last: The last chunk of each level that has one, by the size of its buckets.
        blocks: All steps after the last bucket of the first level, in order.
    """
    chunks: dict[int, list[Buckets]] = {}
    end = blocks[-1].end_step if blocks else 0
    begin, full_end = covered_until(last.get(LEVELS[0])), end // LEVELS[0] * LEVELS[0]
    pieces = [Buckets.of(block.between(begin, full_end), LEVELS[0]) for block in blocks]
    for size, coarser in pairwise((*LEVELS, 0)):
        tail = [last[size]] if size in last else []
        if not any(len(piece) for piece in pieces):
            break
        level = Buckets.concat([*tail, *pieces])
        chunks[size] = list(_chunks(level))
        if coarser:
            begin, full_end = covered_until(last.get(coarser)), end // coarser * coarser
            pieces = [level.between(begin, full_end).merged(coarser)]
    return chunks


def _chunks(level: Buckets) -> Iterator[Buckets]:
    span = level.size * BUCKETS_PER_CHUNK
    for begin in range(int(level.starts[0]) // span * span, int(level.ends[-1]), span):
        if len(chunk := level.between(begin, begin + span)):
            yield chunk


def downsample(parts: Sequence[SeriesRange], max_buckets: int) -> Buckets:
    """Consecutive ranges of steps in at most `max_buckets` buckets, as fine as possible.

    Every step of the ranges is in exactly one bucket; no other step is.
    """
    parts = [part for part in parts if part.start < part.end]
    if not parts:
        return Buckets.of(EMPTY_BLOCK, 1)
    return to_buckets(parts, bucket_size_for(parts[0].start, parts[-1].end, max_buckets))


def bucket_size_for(start: int, end: int, max_buckets: int) -> int:
    """The bucket size, a multiple of a level's, at which at most `max_buckets` hold a range."""
    fine = smallest_bucket_size(start, end, max_buckets)
    level = max((level for level in LEVELS if level <= fine), default=1)
    return smallest_bucket_size(start, end, max_buckets, multiple_of=level)


def to_buckets(parts: Sequence[SeriesRange], size: int) -> Buckets:
    """Consecutive ranges of steps in buckets of a size from `bucket_size_for`."""
    level = _level_of(size)
    pieces = [
        piece for part in parts for piece in _read(part.series, part.start, part.end, level, size)
    ]
    return Buckets.concat([Buckets.of(EMPTY_BLOCK, size), *pieces])


def _level_of(size: int) -> int:
    """The coarsest level whose buckets can be merged into this size; 1: only the steps can."""
    return max((level for level in LEVELS if size % level == 0), default=1)


def _read(series: StepSeries, start: int, end: int, level: int, size: int) -> Iterator[Buckets]:
    """The range in buckets of `size`, a multiple of `level`, read from that level."""
    first = -(-start // level) * level
    full_end = min(series.covered_until(level), end) // level * level if level > 1 else 0
    if first >= full_end:
        yield from _edge(series, start, end, level, size)
        return
    yield from _edge(series, start, first, level, size)
    for buckets in series.buckets(level, first, full_end):
        yield buckets.merged(size)
    yield from _edge(series, full_end, end, level, size)


def _edge(series: StepSeries, start: int, end: int, level: int, size: int) -> Iterator[Buckets]:
    """A range that the level does not cover, read from finer levels or from the steps."""
    if start >= end:
        return
    if level <= LEVELS[0] or end - start <= DIRECT_READ_STEPS:
        for block in _runs(series.steps(start, end)):
            yield Buckets.of(block, size)
    else:
        yield from _read(series, start, end, level // LEVEL_FACTOR, size)


def _runs(blocks: Iterable[StepBlock]) -> Iterator[StepBlock]:
    """Blocks in order, joined up to MAX_RUN_STEPS: one large block aggregates faster than many."""
    run: list[StepBlock] = []
    for block in blocks:
        is_long = bool(run) and block.first_step - run[0].first_step >= MAX_RUN_STEPS
        if is_long:
            yield StepBlock.concat(run)
            run = []
        run.append(block)
    if run:
        yield StepBlock.concat(run)
