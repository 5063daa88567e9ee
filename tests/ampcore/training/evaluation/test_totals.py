import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ampcore.training.evaluation.totals import Totals
from ampcore.training.run.counters import RunCounters
from ampcore.training.step.row_block import step_block
from ampcore.training.step.telemetry_columns import STEP_COLUMNS
from ampspec.telemetry import Event, EventType

LOSSES = st.lists(st.tuples(st.floats(-8, 8, width=32), st.booleans()), min_size=1, max_size=12)


def block(first_step, losses, skipped=False, seconds=1.0):
    rows = [[loss, 1.0, skipped, 1.0, 0.1] for loss in losses]
    return step_block(
        first_step, STEP_COLUMNS[:5], np.array(rows, np.float32), seconds, examples=10
    )


def test_totals_add_up_blocks():
    totals = Totals()
    totals.add(block(0, [3.0]), is_warm=False)
    totals.add(block(1, [2.0, 1.0], skipped=True), is_warm=True)
    totals.add(block(3, [0.5]), is_warm=True)
    assert (totals.steps, totals.skipped, totals.final_loss) == (4, 2, 0.5)


def test_only_the_skips_before_the_first_applied_step_are_first_skips():
    totals = Totals()
    totals.add(block(0, [3.0, 3.0], skipped=True), is_warm=False)
    totals.add(block(2, [3.0], skipped=True), is_warm=True)
    totals.add(block(3, [2.0]), is_warm=True)
    totals.add(block(4, [2.0], skipped=True), is_warm=True)
    assert (totals.skipped, totals.first_skips) == (4, 3)


def test_the_final_loss_is_that_of_the_last_applied_step():
    totals = Totals()
    assert np.isnan(totals.final_loss)
    totals.add(block(0, [3.0, 2.0]), is_warm=False)
    totals.add(block(2, [np.nan, 9.0], skipped=True), is_warm=True)
    assert totals.final_loss == 2.0


def test_throughput_excludes_blocks_that_compile_unless_there_is_no_other():
    totals = Totals()
    assert totals.examples_per_s == 0.0
    totals.add(block(0, [3.0], seconds=100.0), is_warm=False)
    assert totals.examples_per_s == 0.1
    totals.add(block(1, [2.0, 1.0], seconds=0.5), is_warm=True)
    assert totals.examples_per_s == 40.0


def test_a_skipped_step_is_counted_in_its_epoch_and_its_loss_is_not():
    totals = Totals()
    totals.add(block(0, [np.nan, np.inf, 7.0], skipped=True), is_warm=True)
    totals.add(block(3, [1.0, 2.0]), is_warm=True)
    facts = {"epoch": 4, "loss": 1.5, "steps": 2, "skipped": 3}
    assert totals.close_epoch(4) == Event(EventType.EPOCH, 4, facts)


def test_each_epoch_has_its_own_totals():
    totals = Totals()
    totals.add(block(0, [1.0]), is_warm=True)
    totals.close_epoch(0)
    totals.add(block(1, [3.0]), is_warm=True)
    assert totals.close_epoch(1).data == {"epoch": 1, "loss": 3.0, "steps": 1, "skipped": 0}


def test_an_epoch_whose_steps_were_all_skipped_has_no_loss():
    totals = Totals()
    totals.add(block(0, [1.0, 2.0], skipped=True), is_warm=True)
    assert np.isnan(totals.close_epoch(0).data["loss"])


@given(LOSSES)
def test_the_loss_of_an_epoch_is_the_mean_over_its_applied_steps(steps):
    totals = Totals()
    for index, (loss, skipped) in enumerate(steps):
        totals.add(block(index, [loss], skipped), is_warm=True)
    applied = [loss for loss, skipped in steps if not skipped]
    facts = totals.close_epoch(0).data
    assert (facts["steps"], facts["skipped"]) == (len(applied), len(steps) - len(applied))
    if applied:
        assert facts["loss"] == pytest.approx(np.mean(applied, dtype=np.float64), abs=1e-6)


def test_an_evaluation_is_kept_and_its_event_has_the_last_step():
    totals = Totals()
    totals.add(block(0, [1.0, 2.0]), is_warm=True)
    event = totals.keep({"val_loss": 0.5})
    assert event == Event(EventType.EVALUATION, 1, {"val_loss": 0.5})
    assert totals.evaluation == {"val_loss": 0.5}


def test_every_field_survives_a_round_trip_through_the_counters():
    totals = Totals()
    totals.add(block(0, [3.0], seconds=2.0), is_warm=False)
    totals.add(block(1, [2.0, 1.0], skipped=True), is_warm=True)
    totals.keep({"val_loss": 0.5})
    written = json.loads(json.dumps(RunCounters(totals=totals).to_json()))
    assert RunCounters.model_validate(written).totals == totals
