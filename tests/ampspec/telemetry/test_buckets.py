"""Buckets match a naive reference that reads every step as a dictionary."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ampspec.telemetry import StepBlock
from ampspec.telemetry.steps.buckets import Buckets, smallest_bucket_size

values = st.one_of(
    st.sampled_from([math.nan, math.inf, -math.inf, 0.0]),
    st.floats(-1e6, 1e6, width=32),
)
steps = st.tuples(values, values, st.booleans())


@st.composite
def series(draw):
    """Blocks in order, most of them consecutive, some without an extra column, some empty."""
    start = first = draw(st.integers(0, 50))
    blocks = []
    for rows in draw(st.lists(st.lists(steps, max_size=30), min_size=1, max_size=5)):
        loss, extra, skipped = zip(*rows, strict=True) if rows else ((), (), ())
        columns = {"loss": loss, "skipped": skipped, "examples": [32] * len(rows)}
        if draw(st.booleans()):
            columns["loss/generator"] = extra
        blocks.append(StepBlock(start, columns))
        start += len(rows) + draw(st.sampled_from([0, 0, 0, 1, 7, 100]))
    if any(len(block) for block in blocks):
        return blocks
    return [StepBlock(first, {"loss": [1.0], "skipped": [False]})]


def same(one, other):
    return one == other or (math.isnan(one) and math.isnan(other))


def rows_of(blocks):
    """Every step as a dictionary; a column that a block lacks is NaN there."""
    names = dict.fromkeys(name for block in blocks if len(block) for name in block.names)
    missing = dict.fromkeys(names, math.nan)
    return [missing | row for block in blocks for row in block.rows()]


def assert_matches(buckets, rows, size):
    """Assert that the buckets equal the ones computed step by step."""
    cells = sorted({row["step"] // size for row in rows})
    assert buckets.cells.tolist() == cells
    for index, cell in enumerate(cells):
        inside = [row for row in rows if row["step"] // size == cell]
        assert buckets.starts[index] == inside[0]["step"]
        assert buckets.ends[index] == inside[-1]["step"] + 1
        assert buckets.counts[index] == len(inside)
        assert buckets.skipped[index] == sum(row["skipped"] for row in inside)
        assert set(buckets.names) == rows[0].keys() - {"step", "skipped"}
        for name in buckets.names:
            assert_column(buckets[name], index, [row[name] for row in inside])


def assert_column(aggregate, index, column):
    numbers = [value for value in column if not math.isnan(value)]
    finite = [value for value in numbers if math.isfinite(value)]
    assert aggregate.finite[index] == len(finite)
    assert same(aggregate.first[index], column[0])
    assert same(aggregate.last[index], column[-1])
    assert same(aggregate.min[index], min(numbers, default=math.nan))
    assert same(aggregate.max[index], max(numbers, default=math.nan))
    if finite:
        scale = max(map(abs, finite))
        assert abs(aggregate.mean[index] - sum(finite) / len(finite)) <= 1e-9 * scale
    else:
        assert math.isnan(aggregate.mean[index])


@settings(deadline=None)
@given(series(), st.integers(1, 40))
def test_buckets_of_a_block_match_the_naive_reference(blocks, size):
    block = next(block for block in blocks if len(block))
    assert_matches(Buckets.of(block, size), list(block.rows()), size)


@settings(deadline=None)
@given(series(), st.integers(1, 9), st.integers(1, 5), st.integers(1, 5))
def test_concatenated_and_merged_buckets_match_the_naive_reference(blocks, size, once, twice):
    joined = Buckets.concat([Buckets.of(block, size) for block in blocks])
    joined = joined.merged(size * once).merged(size * once * twice)
    assert_matches(joined, rows_of(blocks), size * once * twice)


@settings(deadline=None)
@given(series(), st.integers(1, 9), st.integers(0, 120), st.integers(0, 120))
def test_between_keeps_the_buckets_that_lie_inside_a_range(blocks, size, start, end):
    every = Buckets.concat([Buckets.of(block, size) for block in blocks])
    kept = every.between(start, end)
    extents = zip(every.starts, every.ends, strict=True)
    inside = [i for i, (first, last) in enumerate(extents) if start <= first and last <= end]
    assert kept.starts.tolist() == every.starts[inside].tolist()
    assert kept.counts.tolist() == every.counts[inside].tolist()
    np.testing.assert_array_equal(kept["loss"].last, every["loss"].last[inside])


def cells_of(size, first, end):
    return (end - 1) // size - first // size + 1


@given(st.integers(0, 10**6), st.integers(1, 10**4), st.integers(2, 2000), st.integers(1, 64))
def test_the_bucket_size_respects_the_maximum_count_and_is_nearly_minimal(
    first, count, max_buckets, multiple
):
    end = first + count
    size = smallest_bucket_size(first, end, max_buckets, multiple_of=multiple)
    assert size % multiple == 0
    assert cells_of(size, first, end) <= max_buckets
    # At any offset, a range of steps touches at most one cell more than it fills.
    enough = -(-count // (max_buckets - 1))
    assert size <= 1.01 * enough + multiple
    if size < 100:
        assert all(cells_of(s, first, end) > max_buckets for s in range(multiple, size, multiple))


def test_two_buckets_cover_any_range_and_fewer_are_refused():
    assert cells_of(smallest_bucket_size(3, 3 + 10**12, 2), 3, 3 + 10**12) == 2
    with pytest.raises(ValueError, match="at least 2 buckets, received 1"):
        smallest_bucket_size(0, 10, 1)


def test_incompatible_buckets_are_refused():
    block = StepBlock(0, {"loss": [1.0, 2.0], "skipped": [False, False]})
    four = Buckets.of(block, 4)
    with pytest.raises(ValueError, match="a multiple of 4, received 6"):
        four.merged(6)
    with pytest.raises(
        ValueError, match="of 4 steps from step 2 on, received some of 4 from step 0"
    ):
        Buckets.concat([four, four])
    with pytest.raises(ValueError, match=r"columns of 1 buckets, received \{'loss': 0\}"):
        Buckets(4, four.extent, {"loss": four["loss"][:0]})
