"""What a run that goes on from a checkpoint once lost on the way."""

import numpy as np
import pytest

from ampcore.checkpoint import newest
from ampcore.errors import NonFiniteLoss
from ampcore.series import EventType
from ampcore.train import Trainer

MLP = {"kind": "mlp", "hidden": [5]}
DIGITS = {"kind": "digits", "batch_size": 256}
"""Five steps an epoch."""


@pytest.fixture
def steps(run_job, tmp_path):
    """Trains up to `count` steps, or until `stop` are done; goes on where there are some."""

    def run(count, stop=None, **parts):
        asked = iter(range(10**6))
        made = {"model": MLP, "data": DIGITS, "train": {"steps": count}} | parts
        return run_job(lambda: next(asked) == stop, output_dir=tmp_path, resume=True, **made)

    return run


@pytest.fixture
def bad_data(tmp_path):
    """Twelve batches, of which 5 to 7 overflow float32."""
    random = np.random.default_rng(0)
    x = random.random((12 * 8, 4)).astype(np.float32)
    x[5 * 8 : 8 * 8] = 3e38
    file = tmp_path / "bad.npz"
    np.savez(file, x_train=x, y_train=random.integers(3, size=len(x)))
    return {"kind": "npz", "path": str(file), "batch_size": 8, "shuffle": False}


def test_a_finished_run_that_is_resumed_keeps_its_engine_for_more_steps(steps):
    steps(2, runtime={"engine": "xla_step"})
    auto = {"runtime": {"engine": "auto"}}
    steps(2, **auto)
    assert steps(3, **auto).result.engine == "xla_step"


def test_an_epoch_that_is_gone_on_with_is_told_with_all_its_steps(run_job, steps):
    whole = run_job(model=MLP, data=DIGITS, train={"steps": 10})
    [begun] = [event for event in steps(7).of(EventType.EPOCH) if event.data["epoch"] == 1]
    assert begun.data["steps"] == 2
    assert steps(10).of(EventType.EPOCH) == whole.of(EventType.EPOCH)[1:]


def test_a_checkpoint_before_the_first_step_belongs_to_none(steps):
    [event] = steps(2, stop=0).of(EventType.CHECKPOINT_SAVED)
    assert event.step is None


def test_a_scale_that_was_none_under_auto_does_not_stay_1_in_float16(steps):
    auto = {"loss_scale": {"mode": "auto"}}
    steps(1, **auto)
    rest = steps(2, **auto, precision={"policy": "mixed_float16"})
    assert rest.steps["loss_scale"].tolist() == [2.0**15]


def test_whoever_changes_the_policy_after_a_fallback_gets_that_policy(steps):
    steps(
        4,
        precision={"policy": "mixed_float16"},
        loss_scale={"mode": "fixed", "scale": 2.0**40},
        guard={"max_consecutive_skips": 2, "on_exceeded": "float32"},
    )
    rest = steps(5, precision={"policy": "mixed_bfloat16"})
    assert rest.result.policy == "mixed_bfloat16"
    assert steps(6, precision={"policy": "mixed_bfloat16"}).result.policy == "mixed_bfloat16"


def test_a_run_that_fails_without_a_finite_check_leaves_checkpoints_from_before(
    job, bad_data, tmp_path, stepwise
):
    spec = job(
        data=bad_data,
        loss_scale={"mode": "none"},
        guard={"max_consecutive_skips": 3},
        train={"steps": 12, "checkpoint_every_s": 1e-9},
    )
    with pytest.raises(NonFiniteLoss):
        Trainer(spec, output_dir=tmp_path).run()
    found = newest(tmp_path / "checkpoints")
    assert found.checkpoint.manifest.step == 5
    weights = [array for name, array in found.checkpoint.arrays.items() if "/model/" in name]
    assert all(np.isfinite(array).all() for array in weights)


def test_a_run_resumed_amid_bad_steps_rolls_back_to_the_state_before_them(
    steps, bad_data, stepwise
):
    job = {
        "data": bad_data,
        "loss_scale": {"mode": "dynamic", "initial": 2.0**10},
        "guard": {"max_consecutive_skips": 3, "on_exceeded": "rollback"},
    }
    steps(12, stop=6, **job)
    [event] = steps(12, **job).of(EventType.ROLLBACK)
    assert event.data["steps_kept"] == 4  # as if it had not been stopped
