"""A pyramid of buckets: levels of ever more steps a bucket, so that any range reads as quickly.

A level is stored in chunks of so many buckets. `grown` says which chunks new steps make or change;
`downsampled` reads a range from what is stored. Only whole buckets are stored: what comes after
them, and what a range cuts off a bucket, is read from finer levels, in the end from the steps.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Protocol

from ampcore.series.block import COLUMNS, StepBlock
from ampcore.series.buckets import Buckets, grid_for

FACTOR: Final = 4
LEVELS: Final = tuple(64 * FACTOR**level for level in range(8))
"""How many steps a bucket of each level holds."""
CHUNK: Final = 4096
"""Buckets stored together."""
FEW_STEPS: Final = 16_384
"""So many are read as they are rather than by way of further levels."""
RUN_STEPS: Final = 65_536
"""So many are made into buckets at one time."""

NO_STEPS: Final = StepBlock(0, {name: [] for name in COLUMNS})


class Series(Protocol):
    """What is stored of a series of steps."""

    def whole_until(self, size: int) -> int:
        """The step behind the last stored bucket of a level; 0: there is none."""

    def buckets(self, size: int, start: int, end: int) -> Sequence[Buckets]:
        """The stored buckets of a level whose steps s all have `start` ≤ s < `end`, in order."""

    def steps(self, start: int, end: int) -> Iterable[StepBlock]:
        """The steps s with `start` ≤ s < `end`, in order; those that are missing lie between."""


@dataclass(frozen=True)
class Part:
    """The steps s of a series with `start` ≤ s < `end`."""

    series: Series
    start: int
    end: int


def whole_until(buckets: Buckets | None) -> int:
    """The step behind the cell of the last bucket."""
    if buckets is None or not len(buckets):
        return 0
    return int(buckets.cells[-1] + 1) * buckets.size


def grown(last: Mapping[int, Buckets], blocks: Sequence[StepBlock]) -> dict[int, list[Buckets]]:
    """The chunks of each level that further steps make or change.

    Args:
        last: The last chunk of each level that has one, by the size of its buckets.
        blocks: All steps behind the last bucket of the first level, in order.
    """
    made: dict[int, list[Buckets]] = {}
    end = blocks[-1].end_step if blocks else 0
    begin, behind = whole_until(last.get(LEVELS[0])), end // LEVELS[0] * LEVELS[0]
    pieces = [Buckets.of(block.between(begin, behind), LEVELS[0]) for block in blocks]
    for size, coarser in pairwise((*LEVELS, 0)):
        tail = [last[size]] if size in last else []
        if not any(len(piece) for piece in pieces):
            break
        level = Buckets.concat([*tail, *pieces])
        made[size] = list(_chunks(level))
        if coarser:
            begin, behind = whole_until(last.get(coarser)), end // coarser * coarser
            pieces = [level.between(begin, behind).merged(coarser)]
    return made


def _chunks(level: Buckets) -> Iterator[Buckets]:
    span = level.size * CHUNK
    for begin in range(int(level.starts[0]) // span * span, int(level.ends[-1]), span):
        if len(chunk := level.between(begin, begin + span)):
            yield chunk


def downsampled(parts: Sequence[Part], most: int) -> Buckets:
    """Ranges of steps, one behind the other, in at most `most` buckets: the finest there may be.

    Every step of the ranges is in exactly one of them, and no other.
    """
    parts = [part for part in parts if part.start < part.end]
    if not parts:
        return Buckets.of(NO_STEPS, 1)
    return in_buckets(parts, size_for(parts[0].start, parts[-1].end, most))


def size_for(start: int, end: int, most: int) -> int:
    """A size of buckets that levels can be made into, of which at most `most` hold a range."""
    fine = grid_for(start, end, most)
    level = max((level for level in LEVELS if level <= fine), default=1)
    return grid_for(start, end, most, multiple_of=level)


def in_buckets(parts: Sequence[Part], size: int) -> Buckets:
    """Ranges of steps, one behind the other, in buckets of a size from `size_for`."""
    level = _level_of(size)
    pieces = [
        piece for part in parts for piece in _read(part.series, part.start, part.end, level, size)
    ]
    return Buckets.concat([Buckets.of(NO_STEPS, size), *pieces])


def _level_of(size: int) -> int:
    """The coarsest level whose buckets can be made into those of a size; 1: the steps."""
    return max((level for level in LEVELS if size % level == 0), default=1)


def _read(series: Series, start: int, end: int, level: int, size: int) -> Iterator[Buckets]:
    """The range in buckets of a size, a multiple of the level's that they are made of."""
    first = -(-start // level) * level
    behind = min(series.whole_until(level), end) // level * level if level > 1 else 0
    if first >= behind:
        yield from _edge(series, start, end, level, size)
        return
    yield from _edge(series, start, first, level, size)
    for buckets in series.buckets(level, first, behind):
        yield buckets.merged(size)
    yield from _edge(series, behind, end, level, size)


def _edge(series: Series, start: int, end: int, level: int, size: int) -> Iterator[Buckets]:
    """A range that the level does not cover."""
    if start >= end:
        return
    if level <= LEVELS[0] or end - start <= FEW_STEPS:
        for block in _runs(series.steps(start, end)):
            yield Buckets.of(block, size)
    else:
        yield from _read(series, start, end, level // FACTOR, size)


def _runs(blocks: Iterable[StepBlock]) -> Iterator[StepBlock]:
    """Those that follow on one another as one: many small ones take longer than a large one.

    So much of it at one time as a reader may hold in memory.
    """
    run: list[StepBlock] = []
    for block in blocks:
        is_long = bool(run) and block.first_step - run[0].first_step >= RUN_STEPS
        if is_long or (run and run[-1].end_step != block.first_step):
            yield StepBlock.concat(run)
            run = []
        run.append(block)
    if run:
        yield StepBlock.concat(run)
