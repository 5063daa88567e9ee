"""The pyramid beside buckets that are made of all steps at once."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ampcore.series import StepBlock, pyramid
from ampcore.series.buckets import Buckets, grid_for
from ampcore.series.pyramid import downsampled, grown


class Stored:
    """Chunks in memory, as a database would keep them, and a count of what was read."""

    def __init__(self, block):
        self._block = block
        self._chunks = {}
        self.steps_read = 0

    def grow(self, until):
        """Tell the pyramid of the steps before `until` that it does not know."""
        first = self.whole_until(pyramid.LEVELS[0])
        made = grown(self._last(), self._block.between(first, until))
        for size, chunks in made.items():
            for chunk in chunks:
                assert len(chunk) <= pyramid.CHUNK
                self._chunks.setdefault(size, {})[chunk.first_step] = chunk

    def _last(self):
        return {size: chunks[max(chunks)] for size, chunks in self._chunks.items()}

    def whole_until(self, size):
        last = self._last().get(size)
        return last.end_step if last is not None else self._block.first_step

    def buckets(self, size, start, end):
        chunks = [self._chunks[size][first] for first in sorted(self._chunks[size])]
        return Buckets.concat(chunks).between(start, end)

    def steps(self, start, end):
        self.steps_read += end - start
        return self._block.between(start, end)


def series(first_step, count, seed):
    random = np.random.default_rng(seed)
    loss = random.standard_normal(count).astype(np.float32)
    loss[random.random(count) < 0.01] = np.nan
    grad_norm = np.where(random.random(count) < 0.01, np.inf, loss)
    skipped = random.random(count) < 0.01
    columns = {"loss": loss, "grad_norm": grad_norm, "skipped": skipped}
    return StepBlock(first_step, columns | {"examples": np.full(count, 32)})


def assert_same(found, wanted):
    assert (found.size, found.first_step, found.end_step) == (
        wanted.size,
        wanted.first_step,
        wanted.end_step,
    )
    np.testing.assert_array_equal(found.skipped, wanted.skipped)
    for name in wanted.names:
        for part in ("min", "max", "first", "last", "finite"):
            one, other = getattr(found[name], part), getattr(wanted[name], part)
            np.testing.assert_array_equal(one, other)
        np.testing.assert_allclose(found[name].mean, wanted[name].mean, rtol=1e-9, atol=1e-9)


def shrink(patch):
    """To levels so small that short series have many chunks of each."""
    patch.setattr(pyramid, "LEVELS", (4, 16, 64, 256))
    patch.setattr(pyramid, "CHUNK", 8)
    patch.setattr(pyramid, "FEW_STEPS", 20)


@pytest.fixture
def small(monkeypatch):
    shrink(monkeypatch)


pieces = st.lists(st.integers(0, 400), min_size=1, max_size=8)


@settings(deadline=None)
@given(st.integers(0, 300), pieces, st.integers(0, 2**32 - 1), st.data())
def test_any_range_reads_as_if_made_of_its_steps(first, counts, seed, data):
    with pytest.MonkeyPatch.context() as patch:
        shrink(patch)
        block = series(first, sum(counts), seed)
        stored, until = Stored(block), first
        for count in counts[:-1]:  # the last ones wait still
            until += count
            stored.grow(until)
        start = data.draw(st.integers(first, block.end_step))
        end = data.draw(st.integers(start, block.end_step))
        most = data.draw(st.integers(2, 50))
        found = downsampled(stored, start, end, most)
        assert len(found) <= most
        wanted = Buckets.of(block.between(start, end), found.size)
        if len(wanted):
            assert_same(found, wanted)
            level = max((s for s in pyramid.LEVELS if s <= grid_for(start, end, most)), default=1)
            assert found.size == grid_for(start, end, most, multiple_of=level)


def test_a_long_range_reads_few_steps(small):
    block = series(0, 20_000, 0)
    stored = Stored(block)
    for until in (*range(300, 20_000, 300), 20_000):
        stored.grow(until)
    assert_same(downsampled(stored, 3, 19_999, 30), Buckets.of(block.between(3, 19_999), 768))
    assert stored.steps_read < 2 * 20


def test_steps_that_do_not_follow_are_refused():
    block = series(0, 300, 0)
    last = {size: chunks[-1] for size, chunks in grown({}, block).items()}
    with pytest.raises(ValueError, match="expected steps from 256 on"):
        grown(last, block)
