"""Reads of steps, for any attempts and blocks, before and after compaction."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from ampspec.telemetry import StepBlock
from ampspec.telemetry.steps import downsampling as levels
from ampspec.telemetry.steps.buckets import Buckets
from ampspec.telemetry.steps.codec import encode
from server.background.compactor import Compactor
from store.jobs.jobs import Origin, create
from store.tables import StepBlockRow, StepLevel, StepPoints
from store.telemetry import (
    compaction,
    compaction_queue,
    downsampling,
    key_steps,
    step_totals,
    steps,
)
from tests.databases import ON_SQLITE

LEVELS, BUCKETS_PER_CHUNK, SEGMENT_STEPS = (4, 16, 64), 4, 32
VALUES = [0.0, 1.5, -3.0, math.nan, math.inf, -math.inf]
SCALES = ("loss_scale", "loss_scale/other")

OPTIONS = {
    "deadline": None,
    "suppress_health_check": [HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    "phases": set(Phase) - {Phase.shrink},  # which would write to the database for minutes
}

lengths = st.lists(st.integers(1, 40), min_size=1, max_size=10)
attempts = st.lists(st.tuples(st.integers(0, 8), lengths), min_size=1, max_size=4)
"""For each: how many blocks before the end it starts, and the lengths of its own blocks."""


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Reduce levels, chunks and segments, so that few steps have many of each."""
    for module in (levels, compaction):
        monkeypatch.setattr(module, "LEVELS", LEVELS)
    for module in (levels, downsampling):
        monkeypatch.setattr(module, "BUCKETS_PER_CHUNK", BUCKETS_PER_CHUNK)
    for module in (compaction_queue, compaction):
        monkeypatch.setattr(module, "SEGMENT_STEPS", SEGMENT_STEPS)
    monkeypatch.setattr(levels, "DIRECT_READ_STEPS", 8)
    monkeypatch.setattr(compaction, "MAX_BLOCKS", 5)


class RecordedSteps:
    """A job whose attempts write random steps; `expected` are the values by step."""

    def __init__(self, database, in_transaction, spec, seed):
        self.database = database
        self.job_id = in_transaction(create, spec, Origin("default")).id
        self.attempt, self.expected, self.of_attempt = 0, {}, {}
        self.ends, self.stats = [0], []
        self._random = np.random.default_rng(seed)

    def begin_attempt(self, back):
        """Start another attempt, `back` blocks before the end of the last one."""
        self.attempt, self.of_attempt = self.attempt + 1, {}
        self.ends = self.ends[: max(len(self.ends) - back, 1)]
        self.step = self.ends[-1]

    def append(self, count, *, gap=0):
        """Store a block as a worker would."""
        block = self._block(self.step + gap, count)
        with self.database.write() as session:
            session.add(
                StepBlockRow(
                    job_id=self.job_id,
                    attempt=self.attempt,
                    first_step=block.first_step,
                    end_step=block.end_step,
                    seq=len(self.stats) + 1,
                    payload=encode(block),
                    **vars(block.stats),
                )
            )
        self.stats.append((self.attempt, block))
        self.ends.append(block.end_step)
        self.step = block.end_step
        self.of_attempt |= {row["step"]: row for row in block.rows()}
        first = min(self.of_attempt)
        self.expected = {
            s: r for s, r in self.expected.items() if not first <= s < self.step
        } | self.of_attempt

    def rows(self, start, end):
        return [self.expected[step] for step in sorted(self.expected) if start <= step < end]

    def _block(self, first_step, count):
        random = self._random
        columns = {
            "loss": random.choice(VALUES, count),
            "loss_scale": np.repeat(random.choice([1.0, 2.0], count // 8 + 1), 8)[:count],
            "skipped": random.random(count) < 0.2,
            "step_time_s": random.random(count),
            "examples": np.full(count, 32),
        }
        if self.attempt % 2:
            columns["loss_scale/other"] = random.choice([1.0, 4.0], count)
        return StepBlock(first_step, columns)


@pytest.fixture
def new_recorded_steps(database, in_transaction, make_spec):
    return lambda seed=0: RecordedSteps(database, in_transaction, make_spec(), seed)


def compact(database):
    compactor = Compactor(database)
    while compactor.compact():
        pass


def read_all(recorded, start, end):
    rows = []
    while True:
        with recorded.database.read() as session:
            reading = steps.read(session, recorded.job_id, start=start, end=end, limit=50)
        rows += reading.block.rows()
        if not reading.more:
            return rows
        start = rows[-1]["step"] + 1


def assert_raw(recorded, start, end):
    """Assert that every step is read once, with the values that were written."""
    expected_rows = recorded.rows(start, end)
    rows = read_all(recorded, start, end)
    assert [row["step"] for row in rows] == [row["step"] for row in expected_rows]
    for read_row, expected_row in zip(rows, expected_rows, strict=True):
        assert repr({**read_row, **expected_row}) == repr(
            read_row
        )  # a missing column may only be read as NaN


def assert_sampled(recorded, start, end, limit):
    with recorded.database.read() as session:
        seen = steps.visible_ranges(session, recorded.job_id)
        buckets = downsampling.downsample(
            session, recorded.job_id, steps.clip(seen, start, end), limit
        )
    assert len(buckets) <= limit
    rows = recorded.rows(start, end)
    assert buckets.counts.sum() == len(rows)
    for index, cell in enumerate(sorted({row["step"] // buckets.size for row in rows})):
        inside = [row for row in rows if row["step"] // buckets.size == cell]
        assert (buckets.starts[index], buckets.ends[index]) == (
            inside[0]["step"],
            inside[-1]["step"] + 1,
        )
        assert buckets.skipped[index] == sum(row["skipped"] for row in inside)
        block = StepBlock(0, {"loss": [row["loss"] for row in inside]})
        naive = Buckets.of(block, len(inside))["loss"]
        for part in ("min", "max", "first", "last", "finite"):
            np.testing.assert_array_equal(
                getattr(buckets["loss"], part)[index], getattr(naive, part)[0]
            )
        np.testing.assert_allclose(buckets["loss"].mean[index], naive.mean[0], rtol=1e-5, atol=1e-6)


def assert_points(recorded, start, end):
    with recorded.database.read() as session:
        in_range = key_steps.find(
            session, recorded.job_id, steps.visible_ranges(session, recorded.job_id), start, end
        )
    inside = recorded.rows(start, end)
    skipped = [row["step"] for row in inside if row["skipped"]]
    changes = [
        (row["step"], name, previous_row[name], row[name])
        for previous_row, row in pairwise(recorded.rows(0, end))
        for name in SCALES
        if row["step"] >= start
        and name in previous_row.keys() & row.keys()
        and previous_row[name] != row[name]
    ]
    assert (in_range.skipped, in_range.changes) == (len(skipped), len(changes))
    assert in_range.points.skipped.tolist() == skipped[: key_steps.MAX_LISTED]
    scale_changes = in_range.points.changes
    plain = list(
        zip(
            scale_changes.steps,
            scale_changes.columns,
            scale_changes.old_scales,
            scale_changes.new_scales,
            strict=True,
        )
    )
    assert plain == changes[: key_steps.MAX_LISTED]


def assert_totals(recorded, step):
    """Assert that the totals before a step equal those over all blocks."""
    with recorded.database.read() as session:
        totals = step_totals.before(session, recorded.job_id, step).to_json()
    rows = recorded.rows(0, step)
    losses = [row["loss"] for row in rows if math.isfinite(row["loss"])]
    every_step = sum(len(block) for _, block in recorded.stats)
    assert totals["steps"] == len(rows)
    assert totals["skipped"] == sum(row["skipped"] for row in rows)
    assert totals["repeated_steps"] == every_step - len(rows)
    assert totals["best_loss"] == min(losses, default=None)
    assert totals["steps_s"] == pytest.approx(sum(row["step_time_s"] for row in rows), rel=1e-4)
    skipped_s = sum(row["step_time_s"] for row in rows if row["skipped"])
    assert totals["skipped_s"] == pytest.approx(skipped_s, rel=1e-4)


@pytest.mark.slow
@ON_SQLITE  # the next test runs the same reads on both
@settings(max_examples=25, **OPTIONS)
@given(attempts, st.integers(0, 2**32 - 1), st.data())
def test_reads_do_not_depend_on_what_was_compacted_and_when(
    new_recorded_steps, attempt_blocks, seed, data
):
    recorded = new_recorded_steps(seed)
    for back, counts in attempt_blocks:
        recorded.begin_attempt(back)
        for count in counts:
            recorded.append(count)
            if data.draw(st.integers(0, 3)) == 0:
                compact(recorded.database)
    end = max(recorded.expected) + 1
    start = data.draw(st.integers(0, end))
    end = data.draw(st.integers(start, end))
    assert_raw(recorded, start, end)
    assert_sampled(recorded, start, end, data.draw(st.integers(2, 40)))
    assert_points(recorded, start, end)
    assert_totals(recorded, data.draw(st.sampled_from(recorded.ends)))


@settings(max_examples=15, **OPTIONS)
@given(
    st.lists(st.tuples(st.integers(1, 40), st.sampled_from([0, 0, 1, 50])), min_size=1, max_size=8),
    st.data(),
)
def test_reads_with_missing_steps_return_all_others(new_recorded_steps, pieces, data):
    recorded = new_recorded_steps()
    recorded.begin_attempt(0)
    for count, gap in pieces:
        recorded.append(count, gap=gap)
        if data.draw(st.booleans()):
            compact(recorded.database)
    start = data.draw(st.integers(0, recorded.step))
    end = data.draw(st.integers(start, recorded.step))
    assert_raw(recorded, start, end)
    assert_sampled(recorded, start, end, data.draw(st.integers(2, 40)))
    assert_points(recorded, start, end)


def counted(database, table):
    with database.read() as session:
        return session.query(table).count()


def test_compaction_leaves_few_rows(new_recorded_steps):
    recorded = new_recorded_steps()
    recorded.begin_attempt(0)
    for _ in range(100):
        recorded.append(4)
    compact(recorded.database)
    assert counted(recorded.database, StepBlockRow) == -(-400 // SEGMENT_STEPS)
    # 100, 25 and 6 buckets, four in each chunk; and the points of the first level's chunks
    assert counted(recorded.database, StepLevel) == 25 + 7 + 2
    assert counted(recorded.database, StepPoints) == 25
    assert_raw(recorded, 0, 400)


@ON_SQLITE
def test_downsampling_a_long_run_reads_few_steps(new_recorded_steps, monkeypatch):
    recorded = new_recorded_steps()
    recorded.begin_attempt(0)
    for _ in range(50):
        recorded.append(40)
    compact(recorded.database)
    read = []
    monkeypatch.setattr(
        downsampling.StoredSeries, "steps", lambda _, *bounds: read.append(bounds) or []
    )
    with recorded.database.read() as session:
        seen = steps.clip(steps.visible_ranges(session, recorded.job_id), 3, 1990)
        buckets = downsampling.downsample(session, recorded.job_id, seen, 40)
    assert 3 + sum(end - start for start, end in read) + buckets.counts.sum() == 1990
    assert sum(end - start for start, end in read) < 2 * 8
