"""Training in float8: its amax histories are part of the transaction, and of checkpoints."""

from dataclasses import replace

import keras
import numpy as np
import pytest
import tensorflow as tf

from ampcore import Trainer
from ampcore.checkpoint import newest
from ampcore.data import Batch
from ampcore.precision import DynamicLossScale
from ampspec.jobs import JobSpec
from ampspec.models.model import Mlp
from ampspec.telemetry import EventType

SPEC = {
    "model": {"kind": "mlp", "hidden": [16]},
    "data": {"kind": "digits", "batch_size": 128},
    "precision": {"policy": "mixed_float8", "float8": {"amax_history": 4}},
    "runtime": {"engine": "graph", "device": "cpu"},
    "telemetry": {"ranges": {"enabled": False}},
    "train": {"steps": 4},
}
FORMS = [(False, 1), (True, 1), (False, 4)]
"""Whether XLA compiles the step, and its micro-batches."""


@pytest.fixture(scope="module", params=FORMS, ids=str)
def shared_step(request, make_step, make_task):
    xla, accumulate = request.param
    task = make_task(Mlp(hidden=(16,)), policy="mixed_float8")
    made = make_step(DynamicLossScale(), task=task, accumulate=accumulate)
    return made.for_xla() if xla else made


@pytest.fixture
def step(shared_step, values, reset):
    """The shared step, which is compiled once for all tests, as it was before them."""
    before = values(shared_step)
    yield shared_step
    reset(shared_step, before)


def history(step):
    [scaling] = step.task.networks[0].float8_scalings
    return scaling.history.numpy()


def test_an_applied_step_records_the_largest_magnitudes_of_all_micro_batches(step, batch, train_on):
    kernel = step.task.networks[0].model.get_layer("dense_1").kernel.numpy()
    row = train_on(step, [batch, Batch(batch.x * 0.5, batch.y)]).rows[0]
    assert row["skipped"] == 0
    found = history(step)
    largest = np.float32(np.abs(batch.x.numpy()).max())
    assert list(found[0, :3]) == [largest * 0.5, largest, 0]
    assert found[1, 1] == np.abs(kernel).max()
    # The gradients are those of the scaled loss.
    assert found[2, 1] > 0
    assert np.isfinite(row["grad_norm"])


def test_a_skipped_step_leaves_the_histories_as_they_were(step, batch, train, unchanged):
    train(step, batch)
    x = batch.x.numpy()
    x[-1] = np.inf
    with unchanged(step):
        row = train(step, Batch(tf.constant(x), batch.y)).row
    # Saturation would have hidden the infinity.
    assert row["skipped"] == 1


def test_ranks_share_the_largest_magnitudes(two_ranks, make_step, make_task, batch, train):
    task = make_task(Mlp(hidden=(16,)), policy="mixed_float8")
    step = make_step(DynamicLossScale(), task=task)
    # Not twice the tensor: TensorFlow's graph optimizer takes max(x, 2x) for x.
    train(replace(step, communicator=two_ranks(other=lambda tensor: tensor + 1.0)), batch)
    assert history(step)[0, 0] == 1 + np.abs(batch.x.numpy()).max()


def run(folder=None, resume=False, **parts):
    events = []
    trainer = Trainer(JobSpec.parse(SPEC | parts), output_dir=folder, resume=resume)
    return trainer.run(on_event=events.append), events


def saved_arrays(folder):
    return newest(folder / "checkpoints").checkpoint.arrays


HISTORY = "model/amax_history/dense_1"
WITH_CHECKPOINT = {"steps": 4, "checkpoint_every_s": 1e-9}


def test_the_run_says_which_layers_compute_in_float8_and_why_others_do_not():
    result, events = run()
    found = {event.data["code"]: event.data for event in events if event.type == "preflight"}
    layers = found["float8_layers"]
    assert layers["data"] == {
        "float8": ["dense_1"],
        "others": {"kind": ["flatten"], "output": ["predictions"]},
        "emulated": True,
    }
    assert "dense_1 have operands in float8, emulated" in layers["message"]
    assert "predictions (an output of the model)" in layers["message"]
    assert found["float8_emulated"]["severity"] == "warning"
    assert 0.5 < found["figures"]["data"]["share_in_8_bit"] < 1
    assert result.policy == "mixed_float8"
    # Histories are no parameters.
    assert result.parameters == 64 * 16 + 16 + 16 * 10 + 10


def test_a_run_without_a_layer_in_float8_warns():
    overrides = [{"layers": "dense_1", "dtype": "bfloat16"}]
    _, events = run(precision={"policy": "mixed_float8", "overrides": overrides})
    [finding] = [each.data for each in events if each.data.get("code") == "float8_layers"]
    assert finding["severity"] == "warning"
    assert "No layer computes in float8" in finding["message"]


def test_evaluations_record_nothing(tmp_path):
    train = WITH_CHECKPOINT | {"eval_every_epochs": 1}
    run(tmp_path / "validated", train=train)
    data = SPEC["data"] | {"validation_split": 0.2}
    arrays = saved_arrays(tmp_path / "validated")[HISTORY]
    assert (arrays > 0).all()
    run(tmp_path / "trained", data=data, train=WITH_CHECKPOINT | {"eval_every_epochs": 100})
    np.testing.assert_array_equal(arrays, saved_arrays(tmp_path / "trained")[HISTORY])


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"policy": "mixed_bfloat16"}, SPEC["precision"]),
        (SPEC["precision"], {"policy": "float32"}),
        (SPEC["precision"], {"policy": "mixed_float8", "float8": {"amax_history": 2}}),
    ],
)
def test_a_run_resumes_with_another_precision(tmp_path, before, after):
    run(tmp_path, precision=before, train=WITH_CHECKPOINT)
    result, events = run(
        tmp_path, resume=True, precision=after, train=WITH_CHECKPOINT | {"steps": 5}
    )
    assert result.steps == 5
    assert any(event.type is EventType.RESUMED for event in events)
    arrays = saved_arrays(tmp_path)
    if after["policy"] == "float32":
        assert HISTORY not in arrays
    else:
        # One step after the start of a new history.
        assert (arrays[HISTORY] > 0).sum(axis=1).tolist() == [1, 1, 1]


def test_from_keras_trains_in_float8():
    keras.utils.set_random_seed(0)
    inputs = keras.Input((8,))
    hidden = keras.layers.Dense(16, activation="relu", name="hidden")(inputs)
    model = keras.Model(inputs, keras.layers.Dense(2, name="out")(hidden))
    x = np.random.default_rng(0).normal(size=(256, 8)).astype("float32")
    trainer = Trainer.from_keras(
        model,
        data=(x, (x[:, 0] > 0).astype("int32")),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        optimizer={"kind": "adam", "learning_rate": 0.02},
        policy="mixed_float8",
        epochs=8,
        runtime=SPEC["runtime"],
        telemetry=SPEC["telemetry"],
    )
    assert trainer.run().final_loss < 0.4
    # The model itself stays one of Keras in float32.
    assert model.get_layer("hidden").compute_dtype == "float32"
    accuracy = np.mean(model.predict(x, verbose=0).argmax(1) == (x[:, 0] > 0))
    assert accuracy > 0.9


@pytest.mark.slow
def test_float8_reaches_what_float32_reaches_within_the_noise_of_seeds():
    """From the same initial weights, on the same batches. A figure is in docs/benchmarks.md."""

    def losses(policy):
        train = {"epochs": 8, "eval_every_epochs": 8}
        data = {"kind": "digits", "batch_size": 64}
        parts = {"precision": {"policy": policy}, "data": data}
        return [run(train=train | {"seed": seed}, **parts)[0].val_loss for seed in range(3)]

    float32, float8 = np.array(losses("float32")), np.array(losses("mixed_float8"))
    assert (float8 != float32).all()
    assert abs(float8 - float32).mean() < float32.std(ddof=1)
    # Chance is ln 10.
    assert (float8 < 0.75 * np.log(10)).all()
