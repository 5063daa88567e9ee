"""A pyramid of buckets: levels of ever more steps a bucket, so that any range reads as quickly.

A level is stored in chunks of so many buckets. `grown` says which chunks new steps make or change;
`downsampled` reads a range from what is stored. Only whole buckets are stored: what comes after
them, and what a range cuts off a bucket, is read from finer levels, in the end from the steps.
"""

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Final, Protocol

from ampcore.series.block import StepBlock
from ampcore.series.buckets import Buckets, grid_for

FACTOR: Final = 4
LEVELS: Final = tuple(64 * FACTOR**level for level in range(8))
"""How many steps a bucket of each level holds."""
CHUNK: Final = 4096
"""Buckets stored together."""
FEW_STEPS: Final = 65_536
"""So many are read as they are rather than by way of further levels."""


class Series(Protocol):
    """What is stored of a series of steps."""

    def whole_until(self, size: int) -> int:
        """The step behind the last stored bucket of a level; where the series begins: none."""

    def buckets(self, size: int, start: int, end: int) -> Buckets:
        """The stored buckets of a level whose steps s all have `start` ≤ s < `end`."""

    def steps(self, start: int, end: int) -> StepBlock:
        """The steps s with `start` ≤ s < `end`."""


def grown(last: Mapping[int, Buckets], block: StepBlock) -> dict[int, list[Buckets]]:
    """The chunks of each level that the steps behind it make or change.

    Args:
        last: The last chunk of each level that has one, by the size of its buckets.
        block: The steps behind the last bucket of the first level.
    """
    made: dict[int, list[Buckets]] = {}
    first_step = last[LEVELS[0]].end_step if LEVELS[0] in last else block.first_step
    if first_step != block.first_step:
        raise ValueError(f"expected steps from {first_step} on, received {block!r}")
    whole = block.end_step // LEVELS[0] * LEVELS[0]
    finer = Buckets.of(block.between(first_step, whole), LEVELS[0])
    for size, coarser in pairwise((*LEVELS, 0)):
        tail = last.get(size)
        if not len(finer):
            break
        level = Buckets.concat([tail, finer]) if tail is not None else finer
        made[size] = list(_chunks(level))
        if coarser:
            begin = last[coarser].end_step if coarser in last else level.first_step
            whole = level.end_step // coarser * coarser
            finer = level.between(begin, whole).merged(coarser)
    return made


def _chunks(level: Buckets) -> Iterator[Buckets]:
    span = level.size * CHUNK
    for begin in range(level.first_step // span * span, level.end_step, span):
        yield level.between(begin, begin + span)


def downsampled(series: Series, start: int, end: int, most: int) -> Buckets:
    """A range of steps in at most `most` buckets: the finest that the levels allow.

    Every step s with `start` ≤ s < `end` is in exactly one of them, and no other.
    """
    fine = grid_for(start, end, most)
    level = max((size for size in LEVELS if size <= fine), default=1)
    size = grid_for(start, end, most, multiple_of=level)
    return _read(series, start, end, level).merged(size)


def _read(series: Series, start: int, end: int, size: int) -> Buckets:
    """The range in buckets of one level, or of single steps."""
    if size == 1:
        return Buckets.of(series.steps(start, end), 1)
    first = -(-start // size) * size
    behind = min(series.whole_until(size), end) // size * size
    if first >= behind:
        return _edge(series, start, end, size)
    parts = [
        _edge(series, start, first, size),
        series.buckets(size, first, behind),
        _edge(series, behind, end, size),
    ]
    return Buckets.concat([part for part in parts if len(part)])


def _edge(series: Series, start: int, end: int, size: int) -> Buckets:
    """A range that the level does not cover."""
    if size == LEVELS[0] or end - start <= FEW_STEPS:
        return Buckets.of(series.steps(start, end), size)
    return _read(series, start, end, size // FACTOR).merged(size)
