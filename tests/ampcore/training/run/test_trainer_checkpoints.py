"""When a trainer saves checkpoints, and how it resumes; for killed runs see test_resume."""

import shutil

import numpy as np
import pytest

from ampcore.checkpoint import newest
from ampcore.training import Trainer
from ampcore.training.step import step_runner
from ampspec.errors import NonFiniteLoss
from ampspec.telemetry import EventType, StepBlock
from tests.ampcore.training.conftest import OneStep

JOB = {
    "model": {"kind": "mlp", "hidden": [16], "dropout": 0.2},
    "precision": {"policy": "mixed_float16"},
    "loss_scale": {"mode": "dynamic", "initial": 2.0**22, "growth_interval": 6},
}


def train(every_s, epochs=2):
    return {"epochs": epochs, "checkpoint_every_s": every_s}


@pytest.fixture
def stopped_after(run_job, one_step_blocks, tmp_path):
    """Runs JOB to its end, or until this many steps are done."""

    def run(steps=None, **parts):
        return run_until(run_job, steps, tmp_path, **parts)

    return run


def run_until(run_job, steps, folder, **parts):
    calls = iter(range(10**6))
    return run_job(
        lambda: next(calls) == steps,
        output_dir=folder,
        **{**JOB, "train": train(60), **parts},
    )


@pytest.fixture(scope="module")
def shared_runs(run_job, tmp_path_factory):
    """A run of JOB to its end and one that stopped after 4 steps, each with its folder."""
    folders = [tmp_path_factory.mktemp(name) for name in ("complete", "stopped")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(step_runner, "AdaptiveBlockSize", OneStep)
        runs = [run_until(run_job, *pair) for pair in zip((None, 4), folders, strict=True)]
    return list(zip(runs, folders, strict=True))


@pytest.fixture
def whole(shared_runs, tmp_path):
    """The run of JOB to its end, a copy of whose folder is the test's."""
    run, folder = shared_runs[0]
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    return run


@pytest.fixture
def stopped(shared_runs, tmp_path):
    """The run of JOB that stopped after 4 steps, a copy of whose folder is the test's."""
    run, folder = shared_runs[1]
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    return run


def saved(run):
    return [event.step for event in run.of(EventType.CHECKPOINT_SAVED)]


def test_a_checkpoint_is_saved_when_it_is_due_and_is_an_event(run_job, one_step_blocks, tmp_path):
    run = run_job(output_dir=tmp_path, **JOB, train=train(1e-9))
    assert saved(run) == [*range(10), 9]  # and one at the end
    events = run.of(EventType.CHECKPOINT_SAVED)
    files = sorted((tmp_path / "checkpoints").iterdir())
    # The newest, and the one before it.
    assert [tmp_path / event.data["file"] for event in events[-2:]] == files
    for event, file in zip(events[-2:], files, strict=True):
        assert event.data["size_bytes"] == file.stat().st_size
        assert event.data["seconds"] >= 0


def test_a_run_shorter_than_the_interval_saves_only_its_end(whole):
    assert saved(whole) == [9]


def test_a_stopped_run_is_saved_even_without_a_checkpoint_interval(stopped_after):
    assert saved(stopped_after(4, train=train(None))) == [3]


def test_without_a_checkpoint_interval_the_end_is_not_saved(stopped_after, tmp_path):
    assert not saved(stopped_after(train=train(None)))
    assert {file.name for file in tmp_path.iterdir()} == {
        "evaluation.json",
        "model.keras",
        "signature.json",
        "validation_examples.npy",
        "weights.safetensors",
    }


def test_without_an_output_folder_nothing_is_saved(run_job):
    assert not saved(run_job(**JOB, train=train(1e-9)))


def test_a_checkpoint_that_cannot_be_saved_is_a_warning_and_the_run_continues(run_job, tmp_path):
    (tmp_path / "checkpoints").write_text("no folder")
    run = run_job(output_dir=tmp_path, **JOB, train=train(60))
    [event] = [e for e in run.of(EventType.WARNING) if e.data["code"] == "checkpoint_failed"]
    assert event.step == 9
    assert "Training continues" in event.data["message"]
    assert run.result.steps == 10
    assert run.result.model_file.exists()


def test_a_resumed_run_continues_where_it_was_stopped(run_job, shared_runs, stopped, tmp_path):
    whole, _ = shared_runs[0]
    rest = run_job(output_dir=tmp_path, resume=True, **JOB, train=train(60))
    assert StepBlock.concat([stopped.without_times, rest.without_times]) == whole.without_times
    assert rest.result.weights_digest == whole.result.weights_digest
    assert (rest.result.steps, rest.result.skipped) == (10, whole.result.skipped)
    assert rest.of(EventType.EVALUATION) == whole.of(EventType.EVALUATION)
    # The epoch's loss is the mean over all of its steps, before and after.
    assert rest.of(EventType.EPOCH) == whole.of(EventType.EPOCH)


def test_the_resumed_event_has_the_checkpoint_and_the_changes(run_job, stopped, tmp_path):
    rest = run_job(output_dir=tmp_path, resume=True, **JOB, train=train(60, epochs=3))
    [event] = rest.of(EventType.RESUMED)
    assert event.step == 4
    assert event.data["steps"] == rest.events[0].data["first_step"] == 4
    assert event.data["file"] == stopped.of(EventType.CHECKPOINT_SAVED)[0].data["file"]
    assert event.data["policy_before"] == "mixed_float16"
    assert any("train" in change for change in event.data["changed"])
    assert rest.result.steps == 15


def test_a_resumed_run_without_a_checkpoint_starts_at_step_0(run_job, tmp_path):
    run = run_job(output_dir=tmp_path, resume=True, **JOB, train=train(60))
    assert run.steps.first_step == 0
    assert not run.of(EventType.RESUMED)


@pytest.mark.usefixtures("stopped")
def test_a_run_without_resume_starts_at_step_0(stopped_after):
    again = stopped_after(2)
    assert again.steps.first_step == 0


def test_a_finished_run_trains_no_steps_when_it_is_resumed(run_job, whole, tmp_path):
    again = run_job(output_dir=tmp_path, resume=True, **JOB, train=train(60))
    assert again.blocks == []
    assert again.result.steps == 10
    assert again.result.weights_digest == whole.result.weights_digest
    assert again.result.final_loss == whole.result.final_loss
    assert again.result.val_loss == whole.result.val_loss


# ---- What a resumed run keeps

MLP = {"kind": "mlp", "hidden": [5]}
DIGITS = {"kind": "digits", "batch_size": 256}
"""Five steps an epoch."""


@pytest.fixture
def steps(run_job, tmp_path):
    """Trains up to `count` steps, or until `stop` are done; resumes an earlier run."""

    def run(count, stop=None, **parts):
        calls = iter(range(10**6))
        made = {"model": MLP, "data": DIGITS, "train": {"steps": count}} | parts
        return run_job(lambda: next(calls) == stop, output_dir=tmp_path, resume=True, **made)

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


@pytest.mark.slow
def test_a_resumed_run_keeps_the_engine_of_its_checkpoint_for_more_steps(steps):
    steps(2, runtime={"engine": "xla_step"})
    auto = {"runtime": {"engine": "auto"}}
    steps(2, **auto)  # trains no step, so that it has no engine
    rest = steps(3, **auto)
    [event] = rest.of(EventType.ENGINE)
    assert event.data["engine"] == rest.result.engine == "xla_step"
    assert event.data["reason"] == "same engine as the checkpoint"


def test_a_resumed_epoch_reports_all_its_steps(run_job, steps):
    whole = run_job(model=MLP, data=DIGITS, train={"steps": 10})
    [begun] = [event for event in steps(7).of(EventType.EPOCH) if event.data["epoch"] == 1]
    assert begun.data["steps"] == 2
    assert steps(10).of(EventType.EPOCH) == whole.of(EventType.EPOCH)[1:]


def test_a_checkpoint_before_the_first_step_has_no_step(steps):
    [event] = steps(2, stop=0).of(EventType.CHECKPOINT_SAVED)
    assert event.step is None


def test_an_auto_scale_becomes_dynamic_after_a_change_to_float16(steps):
    auto = {"loss_scale": {"mode": "auto"}}
    steps(1, **auto)
    rest = steps(2, **auto, precision={"policy": "mixed_float16"})
    assert rest.steps["loss_scale"].tolist() == [2.0**15]


def test_a_policy_changed_after_a_fallback_is_used(steps):
    steps(
        4,
        precision={"policy": "mixed_float16"},
        loss_scale={"mode": "fixed", "scale": 2.0**40},
        guard={"max_consecutive_skips": 2, "on_exceeded": "float32"},
    )
    rest = steps(5, precision={"policy": "mixed_bfloat16"})
    assert rest.result.policy == "mixed_bfloat16"
    assert steps(6, precision={"policy": "mixed_bfloat16"}).result.policy == "mixed_bfloat16"


def test_a_failed_run_without_a_finite_check_keeps_finite_checkpoints(
    job, bad_data, tmp_path, one_step_blocks
):
    spec = job(
        data=bad_data,
        loss_scale={"mode": "none"},
        guard={"max_consecutive_skips": 3, "skip_nonfinite": False},
        train={"steps": 12, "checkpoint_every_s": 1e-9},
    )
    with pytest.raises(NonFiniteLoss):
        Trainer(spec, output_dir=tmp_path).run()
    found = newest(tmp_path / "checkpoints")
    assert found.checkpoint.manifest.step == 5
    weights = [array for name, array in found.checkpoint.arrays.items() if "/model/" in name]
    assert all(np.isfinite(array).all() for array in weights)


def test_a_run_resumed_between_bad_steps_rolls_back_to_the_state_before_them(
    steps, bad_data, one_step_blocks
):
    job = {
        "data": bad_data,
        "loss_scale": {"mode": "dynamic", "initial": 2.0**10},
        "guard": {"max_consecutive_skips": 3, "on_exceeded": "rollback"},
    }
    steps(12, stop=6, **job)
    [event] = steps(12, **job).of(EventType.ROLLBACK)
    assert event.data["steps_kept"] == 4  # as if it had not been stopped
