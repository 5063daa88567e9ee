"""The arguments of `Trainer.from_keras` that a user of `compile` and `fit` guesses."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import ampcore
from ampcore.training.jobs.keras_arguments import loss_scale_section, section_documents
from ampspec.errors import InvalidData, InvalidModel
from ampspec.jobs import SpecValidationError

GRAPH = {
    "runtime": ampcore.Runtime(engine="graph"),
    "telemetry": ampcore.Telemetry.model_validate({"ranges": {"enabled": False}}),
    "verbose": 0,
}


@pytest.fixture(scope="module")
def table():
    x = np.random.default_rng(0).normal(size=(64, 4)).astype(np.float32)
    return x, x[:, :1] / 10


def dense_model():
    keras.utils.set_random_seed(0)
    return keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])


def digest(*examples, **arguments):
    options = {"loss": "mse", "optimizer": "sgd"} | GRAPH | arguments
    return ampcore.Trainer.from_keras(dense_model(), *examples, **options).run().weights_digest


def test_examples_are_given_as_to_fit_or_as_one_value(table):
    x, y = table
    weights = np.linspace(0, 1, len(x), dtype=np.float32)
    assert digest(x, y) == digest(data=(x, y)) == digest(x=x, y=y)
    assert digest(x, y, sample_weight=weights) == digest(data=(x, y, weights)) != digest(x, y)
    batches = tf.data.Dataset.from_tensor_slices(table).batch(32)
    assert digest(batches) == digest(data=batches)


def test_examples_are_given_once(table):
    x, y = table
    for arguments, message in (
        ({}, "expected x, or data; received neither"),
        ({"x": x, "data": (x, y)}, "expected x, or data; received both"),
        ({"y": y, "data": (x, y)}, "received y or sample_weight"),
    ):
        with pytest.raises(InvalidData, match=message):
            ampcore.Trainer.from_keras(dense_model(), **arguments, loss="mse")


def test_a_model_compiled_to_run_eagerly_is_told_that_its_steps_are_compiled(table):
    model = dense_model()
    model.compile(loss="mse", run_eagerly=True)
    with pytest.warns(UserWarning, match="run_eagerly=True of `compile` has no effect") as warned:
        ampcore.Trainer.from_keras(model, *table, loss=model.loss, **GRAPH)
    assert warned[0].filename == __file__


def test_a_section_is_an_object_or_a_mapping(table):
    train = {"seed": 3, "accumulate": 2}
    as_object = digest(*table, train=ampcore.Train(**train))
    assert as_object == digest(*table, train=train) != digest(*table)
    with pytest.raises(InvalidModel, match=r"train: expected an ampcore\.Train, .*; received 3"):
        digest(*table, train=3)
    with pytest.raises(SpecValidationError, match="/train/acumulate"):
        digest(*table, train={"acumulate": 2})


def test_a_field_has_one_value(table):
    assert digest(*table, train=ampcore.Train(epochs=3)) == digest(*table, epochs=3)
    with pytest.raises(InvalidModel, match=r"epochs: expected the same value in .*; received 2"):
        digest(*table, epochs=2, train=ampcore.Train(epochs=3))
    precision = ampcore.Precision(policy="mixed_bfloat16")
    with pytest.raises(InvalidModel, match="policy: expected the same value"):
        digest(*table, policy="mixed_float16", precision=precision)


def test_short_forms_are_fields_of_their_sections(table):
    overrides = [
        ampcore.Override(layers="dense", dtype="bfloat16"),
        {"layers": "x", "dtype": "float32"},
    ]
    documents = section_documents(
        {"overrides": overrides, "tf32": False, "train": {"seed": 1}, "keep": "best", "best": None}
    )
    assert documents["precision"] == {
        "overrides": [
            {"layers": "dense", "dtype": "bfloat16"},
            {"layers": "x", "dtype": "float32"},
        ],
        "tf32": False,
    }
    assert documents["train"] == {"seed": 1, "keep": "best"}
    with pytest.raises(InvalidModel, match="keep: expected the same value"):
        section_documents({"train": {"keep": "both"}, "keep": "best"})


@pytest.mark.parametrize(
    ("argument", "hint"),
    [
        ("class_weight", "sample_weight"),
        ("jit_compile", "engine="),
        ("epoch", "has no argument 'epoch'$"),
    ],
)
def test_an_unknown_argument_is_refused_with_what_to_write(table, argument, hint):
    with pytest.raises(TypeError, match=hint):
        ampcore.Trainer.from_keras(dense_model(), *table, **{argument: 1})


@pytest.mark.parametrize(
    ("loss_scale", "section"),
    [
        ("dynamic", {"mode": "dynamic"}),
        (128, {"mode": "fixed", "scale": 128.0}),
        (ampcore.FixedLossScale(8.0), {"mode": "fixed", "scale": 8.0}),
        (ampcore.NoLossScale(), {"mode": "none"}),
    ],
)
def test_a_loss_scale_is_a_mode_a_number_or_an_object(loss_scale, section):
    assert loss_scale_section(loss_scale) == section


def test_a_loss_scale_object_trains_as_its_section(table):
    scale = ampcore.DynamicLossScale(initial=4.0, growth_interval=1, maximum=64.0)
    trainer = ampcore.Trainer.from_keras(
        dense_model(), *table, loss="mse", policy="mixed_float16", loss_scale=scale, **GRAPH
    )
    blocks = []
    trainer.run(on_block=blocks.append)
    assert [value for block in blocks for value in block["loss_scale"]] == [4.0, 8.0]
    calibrated = ampcore.CalibratedLossScale(calibration_steps=7)
    section = loss_scale_section(calibrated)
    assert (section["mode"], section["calibration_steps"]) == ("calibrated", 7)


def test_a_loss_scale_of_another_class_is_refused():
    class Mine(ampcore.DynamicLossScale):
        """Its `adjust` would not be called."""

    with pytest.raises(InvalidModel, match="loss_scale: expected a mode"):
        loss_scale_section(Mine())


@pytest.mark.parametrize(
    ("name", "optimizer"),
    [
        ("sgd", keras.optimizers.SGD),
        ("adam", keras.optimizers.Adam),
        ("adamw", keras.optimizers.AdamW),
        ("rmsprop", keras.optimizers.RMSprop),
    ],
)
def test_the_name_of_an_optimizer_trains_as_the_one_of_keras(table, name, optimizer):
    histories = []
    for argument in (name, optimizer()):
        trainer = ampcore.Trainer.from_keras(
            dense_model(), *table, loss="mse", optimizer=argument, epochs=4, **GRAPH
        )
        histories.append(trainer.run().history)
    np.testing.assert_allclose(histories[0]["loss"], histories[1]["loss"], rtol=1e-5)
    assert histories[0]["learning_rate"] == histories[1]["learning_rate"]
