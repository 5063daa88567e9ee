"""The merge index, and the summary of several blocks."""

import json
import statistics

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ampspec.telemetry import StepBlock
from ampspec.telemetry.steps.block import BlockStats
from ampspec.telemetry.steps.merge_index import (
    build_merge_index,
    decode_merge_index,
    encode_merge_index,
    entry_stats,
)
from ampspec.telemetry.steps.summary import StepSummary

block_stats = st.builds(
    BlockStats,
    skipped=st.integers(0, 2**40),
    examples=st.integers(0, 2**40),
    duration_s=st.floats(0, 1e6),
    skipped_s=st.floats(0, 1e6),
    best_loss=st.one_of(st.none(), st.floats(-1e9, 1e9)),
)


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(1, 2**40), st.integers(1, 5000), block_stats), max_size=20))
def test_a_merge_index_survives_encoding(rows):
    seq = end = 0
    made = []
    for further, steps, stats in rows:
        seq, end = seq + further, end + steps
        made.append((seq, end, stats))
    decoded = decode_merge_index(encode_merge_index(build_merge_index(made)))
    assert [(m["seq"], m["end_step"], entry_stats(m)) for m in decoded] == made


def test_the_statistics_of_a_block_aggregate_its_steps():
    columns = {
        "loss": [np.nan, 2.0, -np.inf, 0.5],
        "skipped": [True, False, True, False],
        "step_time_s": [0.5, 1.0, 0.25, 2.0],
        "examples": [32, 32, 32, 16],
    }
    assert StepBlock(7, columns).stats == BlockStats(2, 112, 3.75, 0.75, 0.5)
    assert StepBlock(0, {"loss": [np.nan]}).stats == BlockStats()


def test_a_summary_adds_up_blocks_and_repeated_steps():
    summary = StepSummary()
    summary.add_repeated(10, BlockStats(duration_s=2.5, skipped=7, best_loss=-1.0))
    summary.add(10, BlockStats(4, 100, 1.0, 0.5, 0.25))
    summary.add(10, BlockStats(0, 100, 1.0))
    summary.add(20, BlockStats(0, 100, 2.0, 0.0, 0.75))
    assert summary.to_json() == {
        "steps": 40,
        "skipped": 4,
        "skipped_share": 0.1,
        "attempted_steps": 50,
        "applied_steps": 36,
        "repeated_steps": 10,
        "skipped_s": 0.5,
        "repeated_s": 2.5,
        "steps_s": 4.0,
        "best_loss": 0.25,
        "median_examples_per_s": 50.0,
    }


def test_an_empty_summary_has_no_loss_and_no_rate():
    summary = StepSummary().to_json()
    assert (summary["best_loss"], summary["median_examples_per_s"]) == (None, None)
    assert summary["skipped_share"] == 0.0


@settings(deadline=None)
@given(st.lists(st.tuples(st.floats(1e-3, 1e9), st.integers(1, 50)), min_size=1, max_size=60))
def test_the_median_rate_over_steps_is_within_about_one_percent(blocks):
    summary = StepSummary()
    for rate, steps in blocks:
        summary.add(steps, BlockStats(examples=10**6, duration_s=10**6 / rate))
    wanted = statistics.median_low([rate for rate, steps in blocks for _ in range(steps)])
    found = summary.to_json()["median_examples_per_s"]
    assert abs(found - wanted) <= 0.011 * wanted


@given(st.lists(st.tuples(st.integers(1, 5000), block_stats), max_size=20), st.integers(0, 20))
def test_a_stored_summary_continues_as_if_it_had_never_been_stored(blocks, cut):
    whole, first = StepSummary(), StepSummary()
    for count, stats in blocks:
        whole.add(count, stats)
    for count, stats in blocks[:cut]:
        first.add(count, stats)
    histogram = json.loads(json.dumps(first.throughput.to_json()))
    second = StepSummary.from_json(json.loads(json.dumps(first.to_json())), histogram)
    for count, stats in blocks[cut:]:
        second.add(count, stats)
    assert second.to_json() == whole.to_json()
