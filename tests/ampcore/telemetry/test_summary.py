"""Marks, and what blocks add up to."""

import statistics

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ampcore.telemetry import StepBlock
from ampcore.telemetry.block import BlockStats
from ampcore.telemetry.merge_index import (
    build_merge_index,
    decode_merge_index,
    encode_merge_index,
    entry_stats,
)
from ampcore.telemetry.summary import StepSummary

every_fact = st.builds(
    BlockStats,
    skipped=st.integers(0, 2**40),
    examples=st.integers(0, 2**40),
    duration_s=st.floats(0, 1e6),
    skipped_s=st.floats(0, 1e6),
    best_loss=st.one_of(st.none(), st.floats(-1e9, 1e9)),
)


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(1, 2**40), st.integers(1, 5000), every_fact), max_size=20))
def test_a_merge_index_survives_encoding(rows):
    seq = end = 0
    made = []
    for further, steps, stats in rows:
        seq, end = seq + further, end + steps
        made.append((seq, end, stats))
    found = decode_merge_index(encode_merge_index(build_merge_index(made)))
    assert [(m["seq"], m["end_step"], entry_stats(m)) for m in found] == made


def test_the_facts_of_a_block_are_what_its_steps_add_up_to():
    columns = {
        "loss": [np.nan, 2.0, -np.inf, 0.5],
        "skipped": [True, False, True, False],
        "step_time_s": [0.5, 1.0, 0.25, 2.0],
        "examples": [32, 32, 32, 16],
    }
    assert StepBlock(7, columns).stats == BlockStats(2, 112, 3.75, 0.75, 0.5)
    assert StepBlock(0, {"loss": [np.nan]}).stats == BlockStats()


def test_a_tally_adds_up_what_was_seen_and_what_was_done_again():
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


def test_a_tally_of_nothing():
    told = StepSummary().to_json()
    assert (told["best_loss"], told["median_examples_per_s"]) == (None, None)
    assert told["skipped_share"] == 0.0


@settings(deadline=None)
@given(st.lists(st.tuples(st.floats(1e-3, 1e9), st.integers(1, 50)), min_size=1, max_size=60))
def test_the_median_is_that_of_the_steps_to_about_a_hundredth(blocks):
    summary = StepSummary()
    for rate, steps in blocks:
        summary.add(steps, BlockStats(examples=10**6, duration_s=10**6 / rate))
    wanted = statistics.median_low([rate for rate, steps in blocks for _ in range(steps)])
    found = summary.to_json()["median_examples_per_s"]
    assert abs(found - wanted) <= 0.011 * wanted
