"""Marks and what they add up to."""

import math
import statistics

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ampcore.series.marks import marks_of, pack, unpack
from ampcore.series.tally import Tally

facts = st.tuples(
    st.integers(1, 2**40),
    st.integers(1, 5000),
    st.integers(0, 2**33),
    st.floats(0, 1e6),
    st.floats(0, 1e6),
    st.one_of(st.none(), st.floats(-1e9, 1e9)),
)


@settings(deadline=None)
@given(st.lists(facts, max_size=20))
def test_marks_survive_packing(rows):
    seq = end = 0
    made = []
    for further, steps, *rest in rows:
        seq, end = seq + further, end + steps
        made.append((seq, end, 0, *rest))
    marks = marks_of(made)
    found = unpack(pack(marks))
    assert found.dtype == marks.dtype
    assert repr(found.tolist()) == repr(marks.tolist())


def mark(seq, end, *, skipped=0, examples=100, duration_s=1.0, skipped_s=0.0, best_loss=None):
    return (seq, end, skipped, examples, duration_s, skipped_s, best_loss)


def test_a_tally_adds_up_what_was_seen_and_what_was_done_again():
    tally = Tally()
    tally.repeat(marks_of([mark(1, 10, duration_s=2.5)]), [10])
    tally.add(marks_of([mark(2, 10, skipped=4, skipped_s=0.5, best_loss=0.25)]), [10])
    tally.add(marks_of([mark(3, 20), mark(4, 40, duration_s=2.0, best_loss=0.75)]), [10, 20])
    told = tally.to_json()
    assert told.pop("median_examples_per_s") == pytest.approx(75, rel=0.34)
    assert told == {
        "steps": 40,
        "skipped": 4,
        "skipped_share": 0.1,
        "attempted_steps": 50,
        "applied_steps": 36,
        "repeated_steps": 10,
        "skipped_s": 0.5,
        "repeated_s": 2.5,
        "train_s": 4.0,
        "best_loss": 0.25,
    }


def test_a_tally_of_nothing():
    told = Tally().to_json()
    assert (told["best_loss"], told["median_examples_per_s"]) == (None, None)
    assert told["skipped_share"] == 0.0


@settings(deadline=None)
@given(st.lists(st.tuples(st.floats(1e-3, 1e9), st.integers(1, 50)), min_size=1, max_size=60))
def test_the_median_is_that_of_the_steps_to_about_a_hundredth(blocks):
    tally, end = Tally(), 0
    for rate, steps in blocks:
        end += steps
        marks = np.zeros(1, marks_of([]).dtype)
        marks["end_step"], marks["examples"], marks["duration_s"] = end, 10**6, 10**6 / rate
        marks["best_loss"] = math.nan
        tally.add(marks, [steps])
    wanted = statistics.median_low([rate for rate, steps in blocks for _ in range(steps)])
    found = tally.to_json()["median_examples_per_s"]
    assert abs(found - wanted) <= 0.011 * wanted
