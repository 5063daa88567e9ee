"""What the end of a run in 16 bits once threw away, and what it once kept."""

import pytest

from ampcore.diagnose import scale_table
from ampcore.errors import SkipBudgetExceeded
from ampcore.series import EventType
from ampcore.train import Trainer
from ampcore.train.guard import Exceeded
from ampcore.train.recovery import GoodState, Recovery

JOB = {
    "model": {"kind": "mlp", "hidden": [5]},
    "precision": {"policy": "mixed_float16"},
    "loss_scale": {"mode": "fixed", "scale": 2.0**40},
    "guard": {"max_consecutive_skips": 3, "on_exceeded": "float32"},
    "train": {"steps": 5},
}


def test_what_was_sampled_in_float16_is_told_before_the_run_goes_on_in_float32(
    run_job, stepwise, monkeypatch
):
    monkeypatch.setattr(scale_table, "FIRST_AFTER_S", 0.0)
    monkeypatch.setattr(scale_table, "GAP_S", 0.0)
    run = run_job(**JOB)
    [table] = run.of(EventType.SCALE_TABLE)
    [fallback] = run.of(EventType.FLOAT32_FALLBACK)
    assert table.step == fallback.step
    assert run.events.index(table) < run.events.index(fallback)


def test_a_state_that_nothing_goes_back_to_is_let_go(job):
    recovery = Recovery(job(**JOB))
    recovery.keep(GoodState({}, 0))
    recovery.fell_back()
    assert recovery.in_float32
    assert recovery.good is None
    with pytest.raises(SkipBudgetExceeded):
        recovery.way_back(Exceeded(0, 2, checked=True))


def test_what_was_sampled_is_told_when_the_run_fails(job, stepwise, monkeypatch):
    monkeypatch.setattr(scale_table, "FIRST_AFTER_S", 0.0)
    events = []
    failing = {"guard": {"max_consecutive_skips": 3, "on_exceeded": "fail"}}
    with pytest.raises(SkipBudgetExceeded):
        Trainer(job(**JOB | failing)).run(on_event=events.append)
    assert [event.type for event in events].count(EventType.SCALE_TABLE) == 1
