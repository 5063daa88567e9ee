"""Buckets beside a naive reference: a dictionary of steps, looked at one by one."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ampcore.series import StepBlock
from ampcore.series.buckets import Buckets, grid_for

values = st.one_of(
    st.sampled_from([math.nan, math.inf, -math.inf, 0.0]),
    st.floats(-1e6, 1e6, width=32),
)
steps = st.tuples(values, values, st.booleans())


@st.composite
def series(draw):
    """Consecutive blocks, some without an extra column, some empty."""
    start = first = draw(st.integers(0, 50))
    blocks = []
    for rows in draw(st.lists(st.lists(steps, max_size=30), min_size=1, max_size=5)):
        loss, extra, skipped = zip(*rows, strict=True) if rows else ((), (), ())
        columns = {"loss": loss, "skipped": skipped, "examples": [32] * len(rows)}
        if draw(st.booleans()):
            columns["loss/generator"] = extra
        blocks.append(StepBlock(start, columns))
        start += len(rows)
    return blocks if start > first else [StepBlock(first, {"loss": [1.0], "skipped": [False]})]


def same(one, other):
    return one == other or (math.isnan(one) and math.isnan(other))


def assert_like(buckets, block, size):
    """That the buckets say what a look at every step says."""
    cells = sorted({step // size for step in block["step"].tolist()})
    assert len(buckets) == len(cells)
    assert set(buckets.names) == set(block.names) - {"skipped"}
    for index, cell in enumerate(cells):
        inside = [i for i, step in enumerate(block["step"].tolist()) if step // size == cell]
        assert buckets.starts[index] == block["step"][inside[0]]
        assert buckets.counts[index] == len(inside)
        assert buckets.skipped[index] == sum(block["skipped"][inside].tolist())
        for name in buckets.names:
            assert_column(buckets[name], index, block[name][inside].tolist())


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
def test_buckets_of_a_block_say_what_a_look_at_every_step_says(blocks, size):
    block = StepBlock.concat(blocks)
    assert_like(Buckets.of(block, size), block, size)


@settings(deadline=None)
@given(series(), st.integers(1, 9), st.integers(1, 5), st.integers(1, 5))
def test_it_does_not_matter_in_which_pieces_and_steps_they_are_made(blocks, size, once, twice):
    made = Buckets.concat([Buckets.of(block, size) for block in blocks])
    made = made.merged(size * once).merged(size * once * twice)
    assert_like(made, StepBlock.concat(blocks), size * once * twice)


@settings(deadline=None)
@given(series(), st.integers(1, 9), st.integers(0, 120), st.integers(0, 120))
def test_between_keeps_the_buckets_that_lie_inside_a_range(blocks, size, start, end):
    block = StepBlock.concat(blocks)
    every, kept = Buckets.of(block, size), Buckets.of(block, size).between(start, end)
    inside = [
        i
        for i, (first, count) in enumerate(zip(every.starts, every.counts, strict=True))
        if start <= first and first + count <= end
    ]
    assert kept.starts.tolist() == every.starts[inside].tolist()
    assert kept.counts.tolist() == every.counts[inside].tolist()
    np.testing.assert_array_equal(kept["loss"].last, every["loss"].last[inside])


@given(st.integers(0, 10**6), st.integers(1, 10**6), st.integers(2, 2000))
def test_a_grid_has_no_more_cells_than_asked_for_and_is_the_finest_such(first, count, most):
    size = grid_for(first, first + count, most)
    cells = {step // size for step in (first, first + count - 1)}
    assert max(cells) - min(cells) + 1 <= most
    if size > 1:
        finer = size - 1
        assert (first + count - 1) // finer - first // finer + 1 > most


def test_select_keeps_the_columns_asked_for():
    made = Buckets.of(StepBlock(0, {"loss": [1.0], "grad_norm": [2.0], "skipped": [True]}), 4)
    assert made.select(["grad_norm"]).names == ("grad_norm",)
    assert made.select([]).skipped.tolist() == [1]
    with pytest.raises(KeyError):
        made.select(["skipped"])


def test_what_does_not_fit_is_refused():
    block = StepBlock(0, {"loss": [1.0, 2.0], "skipped": [False, False]})
    four = Buckets.of(block, 4)
    with pytest.raises(ValueError, match="a multiple of 4, received 6"):
        four.merged(6)
    with pytest.raises(ValueError, match="of 4 steps from step 2, received some of 4 from step 0"):
        Buckets.concat([four, four])
    with pytest.raises(ValueError, match="expected 1 buckets of 4 steps from step 0 to 3"):
        Buckets(4, 0, 3, four.skipped[:0], {})
