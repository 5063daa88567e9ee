"""What happens to a run that the guard stops: an error, a rollback, or float32."""

import numpy as np
import pytest

from ampcore.diagnostics.ranges import scale_table
from ampcore.training import Trainer
from ampcore.training.run.guard import TooManyNonfiniteSteps
from ampcore.training.run.recovery import MAX_ROLLBACKS, GoodState, Recovery
from ampcore.training.step import step_runner
from ampspec.errors import NonFiniteLoss, NonFiniteResult, SkipBudgetExceeded
from ampspec.telemetry import EventType
from tests.ampcore.training.conftest import OneStep

BATCH, STEPS = 8, 24
BAD = (10, 11, 12)
"""The steps whose batches overflow float32; their order is that of the data."""

DYNAMIC = {"mode": "dynamic", "initial": 2.0**10}
STUCK = {"mode": "dynamic", "initial": 2.0**24, "minimum": 2.0**24}
"""A scale at which every float16 step overflows, and that cannot be lowered."""


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    random = np.random.default_rng(0)
    x = random.random((BATCH * STEPS, 4)).astype(np.float32)
    for step in BAD:
        x[step * BATCH : (step + 1) * BATCH] = 3e38
    file = tmp_path_factory.mktemp("data") / "bad.npz"
    np.savez(file, x_train=x, y_train=random.integers(3, size=len(x)))
    return {"kind": "npz", "path": str(file), "batch_size": BATCH, "shuffle": False}


@pytest.fixture
def parts(data):
    """A job of one epoch with three bad steps in the middle, which is the limit of its guard."""

    def make(on_exceeded, loss_scale=None, **others):
        return {
            "data": data,
            "model": {"kind": "mlp", "hidden": [5]},
            "optimizer": {"kind": "momentum", "learning_rate": 0.1},
            "loss_scale": loss_scale or DYNAMIC,
            "guard": {"max_consecutive_skips": 3, "on_exceeded": on_exceeded},
            **others,
        }

    return make


def kept_after_each_step(job):
    return job | {"guard": job["guard"] | {"keep_state_every_steps": 1}}


def applied(runner, steps):
    """The losses of steps that a runner trains one after the other."""
    return np.concatenate([runner.run_block(step)["loss"] for step in steps])


def test_a_rollback_continues_with_the_good_state_and_half_the_scale(
    run_job, make_runner, parts, one_step_blocks
):
    run = run_job(**parts("rollback"))
    [event] = run.of(EventType.ROLLBACK)
    assert event.step == BAD[-1]
    scale = 2.0**10 / 2  # half of that of the good state
    assert event.data["scale_after"] == scale
    # The states after 1, 2, 4 and 8 steps were kept.
    assert (event.data["first_bad_step"], event.data["steps_kept"]) == (BAD[0], 8)
    assert "3 steps in a row, 10 to 12," in event.data["message"]
    again = make_runner(**parts("rollback"))
    again.use_engine("graph")
    applied(again, range(8))
    expected = applied(again, range(13, STEPS))
    np.testing.assert_array_equal(run.steps["loss"][13:], expected)
    assert run.steps["loss_scale"][13:].tolist() == [scale] * (STEPS - 13)
    assert run.result.steps == STEPS


def test_a_rollback_restores_the_newest_good_state(run_job, make_runner, parts, one_step_blocks):
    run = run_job(**kept_after_each_step(parts("rollback")))
    [event] = run.of(EventType.ROLLBACK)
    assert event.data["steps_kept"] == BAD[0]
    again = make_runner(**parts("rollback"))
    again.use_engine("graph")
    applied(again, range(BAD[0]))
    expected = applied(again, range(13, STEPS))
    np.testing.assert_array_equal(run.steps["loss"][13:], expected)


def test_without_a_finite_check_a_rollback_undoes_the_damage(
    run_job, make_runner, parts, one_step_blocks
):
    run = run_job(**kept_after_each_step(parts("rollback", {"mode": "none"})))
    [event] = run.of(EventType.ROLLBACK)
    assert event.data["steps_kept"] == BAD[0]
    assert not np.isfinite(run.steps["loss"][list(BAD)]).any()
    again = make_runner(**parts("rollback"))
    again.use_engine("graph")
    applied(again, range(BAD[0]))
    np.testing.assert_allclose(run.steps["loss"][13:], applied(again, range(13, STEPS)), rtol=1e-5)


def test_the_count_of_bad_steps_restarts_after_a_rollback(run_job, parts, one_step_blocks):
    job = parts("rollback", STUCK, precision={"policy": "mixed_float16"}, train={"steps": 9})
    run = run_job(fails=NonFiniteResult, **job)
    assert "every step was skipped" in str(run.error)
    assert [event.step for event in run.of(EventType.ROLLBACK)] == [2, 5, 8]
    assert [event.data["rollbacks"] for event in run.of(EventType.ROLLBACK)] == [1, 2, 3]


@pytest.mark.parametrize("every", [1, 500])
def test_rollbacks_that_do_not_help_end_the_run(job, parts, every):
    made = parts("rollback", STUCK, precision={"policy": "mixed_float16"})
    made["guard"] |= {"max_consecutive_skips": 2, "keep_state_every_steps": every}
    spec = job(**made)
    blocks, events = [], []
    with pytest.raises(SkipBudgetExceeded, match="2 steps in a row, 16 to 17,"):
        Trainer(spec).run(blocks.append, events.append)
    found = [event.step for event in events if event.type is EventType.ROLLBACK]
    assert found == list(range(1, 2 * MAX_ROLLBACKS, 2))
    assert blocks[-1].end_step == 2 * MAX_ROLLBACKS + 2


def test_each_good_state_allows_the_maximum_number_of_rollbacks(job):
    recovery = Recovery(job(guard={"on_exceeded": "rollback"}))
    row = TooManyNonfiniteSteps(0, 1, checked=True)
    for steps in (0, 5):
        recovery.keep(GoodState({}, steps))
        assert {recovery.take_recovery_state(row, None).steps for _ in range(MAX_ROLLBACKS)} == {
            steps
        }
    with pytest.raises(SkipBudgetExceeded):
        recovery.take_recovery_state(row, None)


def test_a_run_with_on_exceeded_fail_cannot_recover(job):
    recovery = Recovery(job(guard={"on_exceeded": "fail"}))
    recovery.keep(GoodState({}, 0))
    assert not recovery.can_recover
    with pytest.raises(NonFiniteLoss):
        recovery.take_recovery_state(TooManyNonfiniteSteps(0, 1, checked=False), None)


FALLBACK = {
    "precision": {"policy": "mixed_float16"},
    # The first step is finite, and the ones after it overflow.
    "loss_scale": {
        **{"mode": "dynamic", "initial": 2.0**10, "growth_interval": 1},
        **{"growth_factor": 2.0**16, "backoff_factor": 0.999, "maximum": 2.0**30},
    },
    "optimizer": {
        **{"kind": "momentum", "learning_rate": 0.1},
        "schedule": {"kind": "exponential", "decay_rate": 0.5, "decay_steps": 1},
    },
    "train": {"epochs": 1},
}


@pytest.fixture(scope="module")
def fallback_job():
    """A job that falls back to float32 after its fourth step."""
    return {
        "data": {"kind": "digits", "batch_size": 64},
        "model": {"kind": "mlp", "hidden": [5]},
        "guard": {"max_consecutive_skips": 3, "on_exceeded": "float32"},
        **FALLBACK,
    }


@pytest.fixture(scope="module")
def fallback_run(run_job, fallback_job):
    """The whole run of that job, in blocks of one step."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(step_runner, "AdaptiveBlockSize", OneStep)
        return run_job(**fallback_job)


@pytest.mark.usefixtures("one_step_blocks")
def test_the_fallback_continues_in_float32_with_weights_slots_and_schedule(
    make_runner, fallback_job, fallback_run
):
    job, run = fallback_job, fallback_run
    assert run.steps["skipped"].tolist() == [False] + [True] * 3 + [False] * 18
    [event] = run.of(EventType.FLOAT32_FALLBACK)
    assert (event.step, event.data["first_bad_step"], event.data["steps_kept"]) == (3, 1, 1)
    assert event.data["policy_before"] == "mixed_float16"
    assert "the run continues in float32" in event.data["message"]
    assert (run.result.policy, run.result.final_loss_scale) == ("float32", 1.0)
    assert set(run.steps["loss_scale"][4:]) == {1.0}
    # One update was made before the fallback.
    assert run.steps["learning_rate"][:6] == pytest.approx([0.1, *[0.05] * 4, 0.025])

    half, whole = make_runner(**job), make_runner(float32=True, **job)
    half.use_engine("graph")
    half.run_block(0)
    whole.state.restore(half.state.capture(), scales=False)
    whole.use_engine("graph", 4)
    np.testing.assert_array_equal(run.steps["loss"][4:], applied(whole, range(4, 22)))


def test_bad_steps_after_the_fallback_to_float32_end_the_run(run_job, parts):
    job = parts("float32", precision={"policy": "mixed_float16"}, train={"epochs": 3})
    # The bad batches come again in the next epoch, and float32 has no fallback.
    with pytest.raises(SkipBudgetExceeded, match=r"values up to 3e\+38.*Look at the listed"):
        run_job(**job)


@pytest.mark.usefixtures("one_step_blocks")
def test_a_run_in_float32_is_resumed_in_float32(run_job, fallback_job, fallback_run, tmp_path):
    job, whole = fallback_job, fallback_run
    calls = iter(range(100))
    first = run_job(should_stop=lambda: next(calls) == 8, output_dir=tmp_path, **job)
    assert first.result.stopped
    rest = run_job(output_dir=tmp_path, resume=True, **job)
    assert rest.result.policy == "float32"
    assert rest.steps.first_step == 8
    np.testing.assert_array_equal(rest.steps["loss"], whole.steps["loss"][8:])
    assert rest.result.weights_digest == whole.result.weights_digest


def test_an_epoch_counts_its_skipped_steps_and_excludes_their_losses(run_job, parts):
    guard = {"max_consecutive_skips": 4}
    run = run_job(**parts("fail") | {"guard": guard})
    [event] = run.of(EventType.EPOCH)
    skipped = run.steps["skipped"]
    assert np.flatnonzero(skipped).tolist() == list(BAD)
    assert not np.isfinite(run.steps["loss"][skipped]).any()
    loss = run.steps["loss"][~skipped].mean(dtype=np.float64)
    assert event.data == {"epoch": 0, "loss": loss, "steps": STEPS - 3, "skipped": 3}
    assert run.result.final_loss == run.steps["loss"][-1]
    assert run.result.skipped == 3


def test_skipped_steps_advance_neither_the_schedule_nor_the_updates(run_job, parts):
    schedule = {"kind": "exponential", "decay_rate": 0.5, "decay_steps": 1}
    optimizer = {"kind": "sgd", "learning_rate": 0.5, "schedule": schedule}
    guard = {"max_consecutive_skips": 4}
    run = run_job(**parts("fail") | {"guard": guard, "optimizer": optimizer})
    updates = np.cumsum(~run.steps["skipped"]) - ~run.steps["skipped"]
    np.testing.assert_allclose(run.steps["learning_rate"], 0.5 * 0.5**updates, rtol=1e-5)


# ---- Around the fallback to float32

FALLBACK_JOB = {
    "model": {"kind": "mlp", "hidden": [5]},
    "precision": {"policy": "mixed_float16"},
    "loss_scale": {"mode": "fixed", "scale": 2.0**40},
    "guard": {"max_consecutive_skips": 3, "on_exceeded": "float32"},
    "train": {"steps": 5},
}


def test_a_fallback_reports_the_float16_scale_table_first(run_job, one_step_blocks, monkeypatch):
    monkeypatch.setattr(scale_table, "MIN_RUN_S", 0.0)
    monkeypatch.setattr(scale_table, "MIN_GAP_S", 0.0)
    run = run_job(**FALLBACK_JOB)
    [table] = run.of(EventType.SCALE_TABLE)
    [fallback] = run.of(EventType.FLOAT32_FALLBACK)
    assert table.step == fallback.step
    assert run.events.index(table) < run.events.index(fallback)


def test_after_a_fallback_the_good_state_is_discarded(job):
    recovery = Recovery(job(**FALLBACK_JOB))
    recovery.keep(GoodState({}, 0))
    recovery.mark_float32_fallback()
    assert recovery.in_float32
    assert recovery.good_state is None
    with pytest.raises(SkipBudgetExceeded):
        recovery.take_recovery_state(TooManyNonfiniteSteps(0, 2, checked=True), None)


def test_a_failed_run_reports_its_scale_table(job, one_step_blocks, monkeypatch):
    monkeypatch.setattr(scale_table, "MIN_RUN_S", 0.0)
    events = []
    failing = {"guard": {"max_consecutive_skips": 3, "on_exceeded": "fail"}}
    with pytest.raises(SkipBudgetExceeded):
        Trainer(job(**FALLBACK_JOB | failing)).run(on_event=events.append)
    assert [event.type for event in events].count(EventType.SCALE_TABLE) == 1
