import hashlib
import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from ampcore.training import Trainer, callback_buffer
from ampcore.training.warmup import warm_up
from ampspec.errors import (
    InvalidData,
    InvalidModel,
    NonFiniteLoss,
    NonFiniteResult,
    OutOfMemory,
    SkipBudgetExceeded,
    UnsupportedDevice,
)
from ampspec.jobs import Reason
from ampspec.telemetry import EventType, StepBlock

FLOAT16 = {
    "precision": {"policy": "mixed_float16"},
    "loss_scale": {"mode": "dynamic", "initial": 2.0**24, "growth_interval": 6},
    "train": {"epochs": 4, "eval_every_epochs": 2},
}


@pytest.fixture(scope="module")
def float16_run(run_job, tmp_path_factory):
    """A float16 run whose first scale is too high on purpose."""
    return run_job(output_dir=tmp_path_factory.mktemp("output") / "new", **FLOAT16)


@pytest.mark.slow
def test_two_runs_of_one_spec_are_equal_bit_for_bit(float16_run, run_job):
    warm_up()  # nor does it matter what ran before
    again = run_job(**FLOAT16)
    assert again.result.weights_digest == float16_run.result.weights_digest
    assert again.without_times == float16_run.without_times
    assert again.of(EventType.EVALUATION) == float16_run.of(EventType.EVALUATION)


def test_another_seed_gives_another_loss(float16_run, run_job):
    other = run_job(**FLOAT16 | {"train": {"steps": 12, "seed": 1}})
    assert other.steps["loss"][0] != float16_run.steps["loss"][0]


def test_blocks_have_every_step_once_and_the_first_block_has_one_step(float16_run):
    assert (float16_run.steps.first_step, float16_run.steps.end_step) == (0, 20)
    assert len(float16_run.blocks[0]) == 1


def test_short_epochs_share_a_block(run_job, monkeypatch):
    monkeypatch.setattr(callback_buffer, "FLUSH_INTERVAL_S", 3600.0)
    run = run_job(train={"epochs": 4})
    assert [len(block) for block in run.blocks] == [1, 19]
    assert [event.step for event in run.of(EventType.EVALUATION)] == [4, 9, 14, 19]


def test_the_first_event_describes_the_run(float16_run):
    assert float16_run.events[0].type is EventType.STARTED
    assert float16_run.events[0].data == {
        "total_steps": 20,
        "steps_per_epoch": 5,
        "first_step": 0,
        "parameters": 64 * 16 + 16 + 16 * 10 + 10,
        "device": "cpu",
        "policy": "mixed_float16",
        "policy_set_by": "spec",
        "tf32": False,
        "dropped_examples": 1437 - 5 * 256,
        "global_batch_size": 256,
        "ranks": 1,
        "data": {
            "train": 1437,
            "validation": 360,
            "validation_rows": "given",
            "targets": {"output": {"kind": "class", "size": 10}},
        },
    }


def test_the_engine_event_has_the_first_step_and_the_reason(float16_run):
    [event] = float16_run.of(EventType.ENGINE)
    assert event.step == 0
    assert (event.data["engine"], event.data["reason"]) == ("graph", "set by runtime.engine")


def test_each_skipped_step_is_an_overflow_event_that_halves_the_scale(float16_run):
    overflows = float16_run.of(EventType.OVERFLOW)
    skipped = np.flatnonzero(float16_run.steps["skipped"])
    assert len(skipped) > 0
    assert [event.step for event in overflows] == skipped.tolist()
    for event in overflows:
        assert event.data["scale_before"] == float16_run.steps["loss_scale"][event.step]
        assert event.data["scale_after"] == event.data["scale_before"] / 2


def test_a_run_says_when_it_diagnoses_evaluates_and_saves(float16_run):
    """Here it diagnoses skipped steps."""
    activities = float16_run.activities
    assert activities[:4] == ["compiling", "training", "diagnosing", "training"]
    assert activities[-2:] == ["evaluating", "saving"]


def test_growth_of_the_scale_is_an_event(float16_run):
    growths = float16_run.of(EventType.SCALE_GROWTH)
    assert growths
    assert all(e.data["scale_after"] == 2 * e.data["scale_before"] for e in growths)


def test_each_epoch_is_an_event_with_the_loss_of_its_applied_steps(float16_run):
    epochs = float16_run.of(EventType.EPOCH)
    assert [(event.step, event.data["epoch"]) for event in epochs] == [
        *((4, 0), (9, 1), (14, 2), (19, 3))
    ]
    for index, event in enumerate(epochs):
        own = slice(5 * index, 5 * index + 5)
        applied = ~float16_run.steps["skipped"][own]
        assert (event.data["steps"], event.data["skipped"]) == (applied.sum(), 5 - applied.sum())
        if applied.any():
            loss = float16_run.steps["loss"][own][applied].mean()
            assert event.data["loss"] == pytest.approx(loss, rel=1e-6)


def test_evaluations_run_as_requested_and_the_last_is_in_the_result(float16_run):
    evaluations = float16_run.of(EventType.EVALUATION)
    assert [event.step for event in evaluations] == [9, 19]
    assert evaluations[-1].data["val_loss"] == float16_run.result.val_loss
    assert evaluations[-1].data["val_accuracy"] == float16_run.result.val_accuracy > 0


def test_the_result_summarizes_the_steps(float16_run):
    result, steps = float16_run.result, float16_run.steps
    assert result.steps == len(steps)
    assert result.skipped == steps["skipped"].sum()
    assert result.final_loss == steps["loss"][~steps["skipped"]][-1] < steps["loss"][0]
    moves = [*float16_run.of(EventType.OVERFLOW), *float16_run.of(EventType.SCALE_GROWTH)]
    last = max(moves, key=lambda event: event.step)
    assert result.final_loss_scale == last.data["scale_after"]
    assert (result.policy, result.engine) == ("mixed_float16", "graph")
    assert result.examples_per_s > 0
    assert result.train_s > 0
    assert result.peak_memory_bytes > 2**20
    assert not result.stopped


def test_the_result_is_written_as_json(float16_run):
    document = float16_run.result.to_json()
    assert json.loads(json.dumps(document)) == document
    assert document["model_file"] == "model.keras"
    assert document["weights_digest"] == float16_run.result.weights_digest


def test_the_saved_model_has_its_policy_and_the_weights_of_the_digest(float16_run):
    file = float16_run.result.model_file
    saved = float16_run.of(EventType.MODEL_SAVED)[0].data
    assert saved == {
        "file": "model.keras",
        "size_bytes": file.stat().st_size,
        "signature": "signature.json",
        "weights": "weights.safetensors",
        "examples": "validation_examples.npy",
        "evaluation": "evaluation.json",
    }
    assert sorted(child.name for child in file.parent.iterdir()) == [
        "checkpoints",
        "evaluation.json",
        "model.keras",
        "signature.json",
        "validation_examples.npy",
        "weights.safetensors",
    ]
    model = keras.saving.load_model(file)
    assert model.get_layer("dense_1").dtype_policy.name == "mixed_float16"
    assert model.count_params() == float16_run.result.parameters
    digest = hashlib.sha256(b"".join(weight.tobytes() for weight in model.get_weights()))
    assert digest.hexdigest() == float16_run.result.weights_digest


def test_each_network_is_saved_as_its_own_model(run_job, tmp_path):
    model = {"kind": "gan", "latent": 4, "generator": [4, 4], "discriminator": [4]}
    run = run_job(model=model, train={"steps": 1}, output_dir=tmp_path)
    names = ["generator.keras", "discriminator.keras"]
    assert [file.name for file in run.result.model_files] == names
    assert [event.data["file"] for event in run.of(EventType.MODEL_SAVED)] == names


def test_the_preflight_events_are_the_figures_and_the_findings(float16_run):
    codes = [event.data["code"] for event in float16_run.of(EventType.PREFLIGHT)]
    assert codes[0] == "figures"
    assert "initial_scale_overflows" in codes  # on every CPU


def test_float16_without_a_loss_scale_is_a_preflight_finding(run_job):
    parts = {"loss_scale": {"mode": "none"}, "train": {"steps": 1}}
    run = run_job(precision={"policy": "mixed_float16"}, **parts)
    codes = [event.data["code"] for event in run.of(EventType.PREFLIGHT)]
    assert "float16_without_loss_scale" in codes


@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16"])
def test_policies_without_loss_scaling_learn_with_a_scale_of_one(run_job, policy):
    run = run_job(precision={"policy": policy}, train={"epochs": 3})
    assert run.result.final_loss_scale == 1.0
    assert set(run.steps["loss_scale"]) == {1.0}
    assert run.steps["loss"][-1] < run.steps["loss"][0]
    assert not run.of(EventType.WARNING)


@pytest.mark.parametrize("kind", ["sgd", "momentum", "adam", "adamw", "rmsprop"])
def test_every_optimizer_learns(run_job, kind):
    run = run_job(optimizer={"kind": kind, "learning_rate": 0.01}, train={"epochs": 2})
    assert run.steps["loss"][-1] < run.steps["loss"][0]
    assert run.steps["learning_rate"] == pytest.approx(0.01)


def test_values_that_are_not_finite_cause_one_warning(run_job):
    run = run_job(
        model={"kind": "mlp", "hidden": [16], "activation": "linear"},
        optimizer={"kind": "sgd", "learning_rate": 1e6},
        train={"epochs": 4},
        fails=NonFiniteResult,
    )
    [event] = run.of(EventType.WARNING)
    loss, norm = run.steps["loss"], run.steps["grad_norm"]
    first = np.flatnonzero(~np.isfinite(loss) | ~np.isfinite(norm))[0]
    what = "gradients" if np.isfinite(loss[first]) else "loss"
    assert (event.step, event.data["code"]) == (first, f"non_finite_{what}")


def test_steps_override_epochs_and_the_end_is_evaluated(run_job):
    run = run_job(train={"epochs": 50, "steps": 7})
    assert run.result.steps == 7
    assert [event.step for event in run.of(EventType.EVALUATION)] == [4, 6]
    assert [event.data["epoch"] for event in run.of(EventType.EPOCH)] == [0, 1]


def test_without_validation_data_there_is_no_evaluation(run_job):
    data = {"kind": "digits", "batch_size": 256, "validation_split": 0.0}
    run = run_job(data=data, train={"steps": 2})
    assert run.result.val_loss is run.result.val_accuracy is None
    assert not run.of(EventType.EVALUATION)


def test_a_step_has_the_examples_of_all_its_micro_batches(run_job):
    data = {"kind": "digits", "batch_size": 64}
    run = run_job(data=data, train={"accumulate": 4, "epochs": 2})
    assert run.events[0].data["steps_per_epoch"] == 1437 // 256
    assert set(run.steps["examples"]) == {256}
    assert set(run.steps["nonfinite_micro_batches"]) == {0.0}


def test_a_stop_request_ends_the_run_after_a_block_without_a_model(run_job, tmp_path):
    requests = iter([False, False, True])
    run = run_job(lambda: next(requests), output_dir=tmp_path, train={"epochs": 1000})
    assert run.result.stopped
    assert run.result.steps == run.steps.end_step < 5000
    assert run.result.model_file is None
    assert [file.name for file in tmp_path.iterdir()] == ["checkpoints"]


def test_too_many_skips_end_the_run_after_its_steps_are_reported(job):
    blocks = []
    spec = job(
        loss_scale={"mode": "fixed", "scale": 2.0**96},
        precision={"policy": "mixed_float16"},
        guard={"max_consecutive_skips": 7},
        train={"steps": 30},
    )
    with pytest.raises(SkipBudgetExceeded):
        Trainer(spec).run(blocks.append)
    assert StepBlock.concat(blocks)["skipped"].sum() >= 7


@pytest.mark.parametrize(
    ("skip_nonfinite", "error"), [(True, SkipBudgetExceeded), (False, NonFiniteLoss)]
)
def test_a_loss_that_stays_nan_ends_the_run(job, skip_nonfinite, error):
    spec = job(
        model={"kind": "mlp", "hidden": [16], "activation": "linear"},
        optimizer={"kind": "sgd", "learning_rate": 1e6},
        train={"steps": 40},
        guard={"max_consecutive_skips": 3, "skip_nonfinite": skip_nonfinite},
    )
    with pytest.raises(error):
        Trainer(spec).run()


@pytest.mark.skipif(bool(tf.config.list_physical_devices("GPU")), reason="there is a GPU")
def test_a_job_for_a_gpu_fails_without_one(job):
    with pytest.raises(UnsupportedDevice, match=r"runtime\.device") as caught:
        Trainer(job(runtime={"device": "gpu"})).run()
    assert caught.value.reason is Reason.UNSUPPORTED_DEVICE


def test_data_too_large_for_memory_is_an_out_of_memory_error(job):
    data = {"kind": "synthetic", "shape": [1000, 1000], "examples": 100_000_000}
    with pytest.raises(OutOfMemory, match=r"lower data\.batch_size") as caught:
        Trainer(job(data=data)).run()
    assert caught.value.reason is Reason.OUT_OF_MEMORY


def test_a_device_without_free_memory_is_an_out_of_memory_error(job):
    def exhausted(_):
        raise tf.errors.ResourceExhaustedError(None, None, "OOM when allocating [9,9]\nmore")

    with pytest.raises(OutOfMemory, match=r"OOM when allocating \[9,9\]\):"):
        Trainer(job()).run(on_block=exhausted)


def test_missing_data_and_unsuitable_models_are_typed_errors(job, tmp_path):
    data = {"kind": "npz", "path": "flat.npz", "batch_size": 4}
    with pytest.raises(InvalidData):
        Trainer(job(data=data), data_root=tmp_path).run()
    np.savez(tmp_path / "flat.npz", x_train=np.zeros((8, 4)), y_train=np.zeros(8, int))
    with pytest.raises(InvalidModel):
        Trainer(job(data=data, model={"kind": "cnn"}), data_root=tmp_path).run()
