"""Downsampling from stored levels equals buckets made from all steps at once."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ampspec.telemetry import StepBlock
from ampspec.telemetry.steps import downsampling
from ampspec.telemetry.steps.buckets import Buckets, smallest_bucket_size
from ampspec.telemetry.steps.downsampling import (
    SeriesRange,
    covered_until,
    downsample,
    extend_levels,
)


class Stored:
    """Chunks in memory, as a database would keep them, and a count of what was read."""

    def __init__(self, blocks):
        self._blocks = blocks
        self._chunks = {}
        self.steps_read = 0

    def grow(self, until):
        """Extend the levels by the steps before `until` that they do not cover yet."""
        first = self.covered_until(downsampling.LEVELS[0])
        for size, chunks in extend_levels(self._last(), self._slices(first, until)).items():
            for chunk in chunks:
                assert 0 < len(chunk) <= downsampling.BUCKETS_PER_CHUNK
                self._chunks.setdefault(size, {})[int(chunk.starts[0])] = chunk

    def _last(self):
        return {size: chunks[max(chunks)] for size, chunks in self._chunks.items()}

    def _slices(self, start, end):
        pieces = [block.between(start, end) for block in self._blocks]
        return [piece for piece in pieces if len(piece)]

    def covered_until(self, size):
        return covered_until(self._last().get(size))

    def buckets(self, size, start, end):
        chunks = [self._chunks[size][first] for first in sorted(self._chunks[size])]
        return [chunk.between(start, end) for chunk in chunks]

    def steps(self, start, end):
        self.steps_read += end - start
        return self._slices(start, end)


def series(first_step, count, seed):
    random = np.random.default_rng(seed)
    loss = random.standard_normal(count).astype(np.float32)
    loss[random.random(count) < 0.01] = np.nan
    grad_norm = np.where(random.random(count) < 0.01, np.inf, loss)
    skipped = random.random(count) < 0.01
    columns = {"loss": loss, "grad_norm": grad_norm, "skipped": skipped}
    return StepBlock(first_step, columns | {"examples": np.full(count, 32)})


def assert_same(actual, expected):
    assert actual.size == expected.size
    for name in ("starts", "ends", "counts"):
        np.testing.assert_array_equal(getattr(actual, name), getattr(expected, name))
    np.testing.assert_array_equal(actual.skipped, expected.skipped)
    for name in expected.names:
        for part in ("min", "max", "first", "last", "finite"):
            one, other = getattr(actual[name], part), getattr(expected[name], part)
            np.testing.assert_array_equal(one, other)
        np.testing.assert_allclose(actual[name].mean, expected[name].mean, rtol=1e-9, atol=1e-9)


def shrink(patch):
    """Use levels so small that short series have many chunks of each."""
    patch.setattr(downsampling, "LEVELS", (4, 16, 64, 256))
    patch.setattr(downsampling, "BUCKETS_PER_CHUNK", 8)
    patch.setattr(downsampling, "DIRECT_READ_STEPS", 20)


@pytest.fixture
def small(monkeypatch):
    shrink(monkeypatch)


pieces = st.lists(
    st.tuples(st.integers(0, 400), st.sampled_from([0, 0, 0, 1, 9, 1000])), min_size=1, max_size=8
)


@settings(deadline=None)
@given(st.integers(0, 300), pieces, st.integers(0, 2**32 - 1), st.data())
def test_a_downsampled_range_equals_buckets_of_its_steps(first, counts, seed, data):
    with pytest.MonkeyPatch.context() as patch:
        shrink(patch)
        blocks, begin = [], first
        for count, gap in counts:
            blocks.append(series(begin, count, seed + len(blocks)))
            begin += count + gap
        stored = Stored(blocks)
        for block in blocks[:-1]:  # the last block is not in the levels yet
            stored.grow(block.end_step)
        start = data.draw(st.integers(first, begin))
        end = data.draw(st.integers(start, begin))
        splits = sorted(data.draw(st.lists(st.integers(start, end), max_size=3)))
        max_buckets = data.draw(st.integers(2, 50))
        bounds = [start, *splits, end]
        parts = [SeriesRange(stored, *bound) for bound in pairwise(bounds)]
        buckets = downsample(parts, max_buckets)
        assert len(buckets) <= max_buckets
        inside = [block.between(start, end) for block in blocks]
        expected = Buckets.concat([Buckets.of(block, buckets.size) for block in inside])
        if len(expected):
            assert_same(buckets, expected)
            level = max(
                (
                    s
                    for s in downsampling.LEVELS
                    if s <= smallest_bucket_size(start, end, max_buckets)
                ),
                default=1,
            )
            assert buckets.size == smallest_bucket_size(start, end, max_buckets, multiple_of=level)


def test_a_long_range_reads_few_steps(small):
    block = series(0, 20_000, 0)
    stored = Stored([block])
    for until in (*range(300, 20_000, 300), 20_000):
        stored.grow(until)
    buckets = downsample([SeriesRange(stored, 3, 19_999)], 30)
    assert_same(buckets, Buckets.of(block.between(3, 19_999), 768))
    assert stored.steps_read < 2 * 20


def test_no_steps_make_no_buckets():
    assert len(downsample([], 100)) == 0
    assert extend_levels({}, []) == {}


def test_repeated_steps_are_counted_once():
    block = series(0, 300, 0)
    last = {size: chunks[-1] for size, chunks in extend_levels({}, [block]).items()}
    assert extend_levels(last, [block]) == {}
