"""Weights that are not finite are never a result, a checkpoint or the state of a rollback."""

from dataclasses import replace

import numpy as np
import pytest

from ampcore.checkpoint import newest, nonfinite_names, save
from ampspec.errors import NonFiniteLoss, NonFiniteResult, SkipBudgetExceeded
from ampspec.jobs import Reason
from ampspec.telemetry import EventType

BATCH, STEPS = 8, 24
UNCHECKED = {"mode": "none"}
STUCK = {"mode": "dynamic", "initial": 2.0**24, "minimum": 2.0**24}
"""A scale at which every float16 step overflows, and that cannot be lowered."""


@pytest.fixture
def parts(tmp_path_factory):
    """A job of one epoch without a finite check; the batches of some steps have a single value.

    With 3e38 the output of the first layer is infinite, and the loss is NaN.
    """

    def make(bad, value=3e38, **others):
        random = np.random.default_rng(0)
        x = random.random((BATCH * STEPS, 4)).astype(np.float32)
        for step in bad:
            x[step * BATCH : (step + 1) * BATCH] = value
        file = tmp_path_factory.mktemp("data") / "bad.npz"
        np.savez(file, x_train=x, y_train=random.integers(3, size=len(x)))
        return {
            "data": {"kind": "npz", "path": str(file), "batch_size": BATCH, "shuffle": False},
            "model": {"kind": "mlp", "hidden": [5]},
            "optimizer": {"kind": "momentum", "learning_rate": 0.1},
            "loss_scale": UNCHECKED,
            **others,
            "guard": {"skip_nonfinite": False, **others.get("guard", {})},
        }

    return make


def saved(run):
    """After which steps checkpoints were saved, by the events."""
    return [event.step for event in run.of(EventType.CHECKPOINT_SAVED)]


def warnings(run, code):
    return [event for event in run.of(EventType.WARNING) if event.data["code"] == code]


def assert_all_finite(output_dir):
    files = sorted((output_dir / "checkpoints").iterdir())
    assert files
    found = newest(output_dir / "checkpoints")
    assert found.file == files[-1]
    assert not nonfinite_names(found.checkpoint.arrays)


# ---- A result that is not finite


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"guard": {"on_exceeded": "rollback"}, "train": {"epochs": 4}},
        {"optimizer": {"kind": "adam", "ema": 0.9}},
        {"train": {"checkpoint_every_s": None}},
    ],
    ids=["as it is", "rollback", "averages", "without checkpoints"],
)
def test_a_run_whose_last_batch_gives_nan_fails_and_keeps_the_last_good_state(
    run_job, parts, tmp_path, changed
):
    job = parts([STEPS - 1], precision={"policy": "mixed_bfloat16"}, **changed)
    run = run_job(fails=NonFiniteResult, output_dir=tmp_path, **job)
    assert run.error.reason is Reason.NON_FINITE_RESULT
    assert "model/dense/kernel" in str(run.error)
    # The states after 1, 2, 4, 8 and 16 steps were kept.
    assert saved(run) == [15]
    assert_all_finite(tmp_path)
    assert not list(tmp_path.glob("*.keras"))
    assert not run.of(EventType.MODEL_SAVED)


def test_a_run_whose_steps_are_all_skipped_fails(run_job, parts):
    policy = {"policy": "mixed_float16"}
    run = run_job(fails=NonFiniteResult, **parts([], loss_scale=STUCK, precision=policy))
    assert f"No model was saved after {STEPS} steps: every step was skipped" in str(run.error)


def test_a_run_whose_last_loss_is_not_finite_fails(run_job, parts, monkeypatch):
    # Weights without a gradient stay finite for every loss.
    job = parts([STEPS - 1], optimizer={"kind": "sgd", "learning_rate": 0.1})
    monkeypatch.setattr(
        "ampcore.training.state.model_weights.ModelWeights.nonfinite_names", lambda _: []
    )
    run = run_job(fails=NonFiniteResult, **job)
    assert "the last loss is nan" in str(run.error)


@pytest.mark.parametrize("damaged", ["weight", "statistic", "average", "slot"])
def test_every_array_of_the_saved_model_must_be_finite(make_runner, damaged):
    optimizer = {"kind": "momentum", "ema": 0.9}
    runner = make_runner(model={"kind": "resnet", "depth": 8, "width": 2}, optimizer=optimizer)
    assert runner.weights.nonfinite_names() == []
    model, [made] = runner.networks[0].model, runner.train_step.optimizers
    weight = model.trainable_variables[0]
    variable = {
        "weight": weight,
        "statistic": next(v for v in model.variables if v.path.endswith("moving_variance")),
        "average": made.average_of(weight).value,
        "slot": next(v for v in made.variables if v.path.endswith("momentum")),
    }[damaged]
    value = np.array(variable.value.numpy())
    value.flat[-1] = np.inf
    variable.assign(value)
    found = runner.weights.nonfinite_names()
    assert len(found) == (damaged != "slot")
    assert len(nonfinite_names(runner.state.capture())) == 1


# ---- What is kept of a run that fails


def test_a_run_that_the_guard_ends_keeps_the_last_good_state(run_job, parts, tmp_path):
    job = parts([10], guard={"max_consecutive_skips": 3})
    run = run_job(fails=NonFiniteLoss, output_dir=tmp_path, **job)
    assert run.steps.end_step == 13  # the guard acts at the step of its limit
    assert saved(run) == [7]
    assert_all_finite(tmp_path)


def test_a_run_that_too_many_skips_end_saves_its_current_state(run_job, parts, tmp_path):
    guard = {"max_consecutive_skips": 3}
    dynamic = {"mode": "dynamic", "initial": 2.0}
    job = parts([10, 11, 12], loss_scale=dynamic, guard=guard)
    run = run_job(fails=SkipBudgetExceeded, output_dir=tmp_path, **job)
    assert saved(run) == [12]
    # A resumed run may skip as many steps again; here it has none left to skip.
    again = run_job(output_dir=tmp_path, resume=True, **job)
    assert again.result.steps == STEPS


def test_a_run_with_recent_checkpoints_saves_no_other_good_state(
    run_job, parts, tmp_path, one_step_blocks
):
    job = parts([10], train={"checkpoint_every_s": 1e-9}, guard={"max_consecutive_skips": 3})
    run = run_job(fails=NonFiniteLoss, output_dir=tmp_path, **job)
    assert saved(run) == list(range(10))
    assert len(warnings(run, "damaged_state")) == 1
    assert_all_finite(tmp_path)


# ---- Pauses


def stop_after(steps):
    calls = iter(range(10**6))
    return lambda: next(calls) == steps


def test_a_run_paused_twice_with_damaged_weights_resumes_before_the_damage(
    run_job, parts, tmp_path, one_step_blocks
):
    job = parts([10])
    whole = run_job(fails=NonFiniteResult, **job)
    first = run_job(stop_after(12), output_dir=tmp_path, **job)
    assert first.result.stopped
    assert saved(first) == [7]
    [warning] = warnings(first, "damaged_state")
    assert "A resumed run continues after 8 steps." in warning.data["message"]
    second = run_job(stop_after(6), output_dir=tmp_path, resume=True, **job)
    assert second.steps.first_step == 8
    assert saved(second) == []
    assert "continues after 8 steps" in warnings(second, "damaged_state")[0].data["message"]
    assert_all_finite(tmp_path)
    rest = run_job(fails=NonFiniteResult, output_dir=tmp_path, resume=True, **job)
    assert rest.steps.first_step == 8
    np.testing.assert_array_equal(rest.steps["loss"], whole.steps["loss"][8:])


def test_a_checkpoint_of_an_earlier_version_with_damaged_weights_is_skipped(
    run_job, parts, tmp_path, one_step_blocks
):
    job = parts([])
    run_job(stop_after(4), output_dir=tmp_path, **job)
    folder = tmp_path / "checkpoints"
    good = newest(folder)
    arrays = {name: array.copy() for name, array in good.checkpoint.arrays.items()}
    next(array for array in arrays.values() if array.dtype == np.float32)[...] = np.nan
    save(folder, replace(good.checkpoint, arrays=arrays))
    rest = run_job(output_dir=tmp_path, resume=True, **job)
    assert rest.steps.first_step == 4
    [warning] = warnings(rest, "unreadable_checkpoint")
    assert "expected arrays of finite numbers" in warning.data["message"]


# ---- Gradients that are not finite, with a loss that is


def huge(parts, **others):
    """A job with a batch whose gradient norm overflows; the weights become 1e18 or more."""
    return parts([10], value=1e20, **others)


def test_a_state_after_infinite_gradients_is_neither_saved_nor_restored(run_job, parts, tmp_path):
    guard = {"on_exceeded": "rollback", "keep_state_every_steps": 4}
    run = run_job(output_dir=tmp_path, **huge(parts, guard=guard))
    assert np.isfinite(run.steps["loss"][10])
    assert np.isinf(run.steps["grad_norm"][10])
    events = run.of(EventType.ROLLBACK)
    assert [event.data["steps_kept"] for event in events] == [8]
    assert "the gradient norm of step 10 was not finite" in events[0].data["message"]
    assert saved(run) == [STEPS - 1]
    arrays = newest(tmp_path / "checkpoints").checkpoint.arrays
    assert all(np.abs(array).max() < 100 for name, array in arrays.items() if "kernel" in name)


def test_a_run_with_infinite_gradients_and_without_rollback_fails(run_job, parts):
    run = run_job(fails=(NonFiniteResult, NonFiniteLoss), **huge(parts))
    assert warnings(run, "non_finite_gradients")[0].step == 10


@pytest.mark.parametrize("clip", [{"clip_norm": 1.0}, {"clip_value": 0.1}])
def test_clipped_large_gradients_do_no_damage(run_job, parts, clip):
    optimizer = {"kind": "momentum", "learning_rate": 0.1, **clip}
    run = run_job(**huge(parts, optimizer=optimizer))
    assert np.float32(1.9e19) < run.steps["grad_norm"][10] < np.inf
    assert run.result.steps == STEPS
    assert not run.of(EventType.WARNING)
