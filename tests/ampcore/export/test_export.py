"""Conversions that were reported as wrong elsewhere, rebuilt small; each is right or refused.

Reports: GELU converted to an operation that ONNX does not have, with success reported; bicubic
`Resizing` that loads and does not run; `argmax` converted to bit operations; layers in bfloat16
with products of two dtypes; NaN that passes `nan_to_num`; tables of `StringLookup`; outputs of
models with dynamic shapes that differ; inputs and outputs renamed by numbers.
"""

import json

import keras
import numpy as np
import pytest
from keras import layers

from ampcore.data import Dataset
from ampcore.data.examples import ArrayExamples, Batch
from ampcore.export import onnx_file
from ampcore.export.export import TOLERANCES, compared, export_model
from ampcore.training import Trainer
from ampspec.telemetry import EventType
from tests.tables import every_row

pytestmark = pytest.mark.slow
NEEDS_ONNX = pytest.mark.needs("onnx")


def dataset_of(**inputs):
    arrays = single = next(iter(inputs.values()))
    if len(inputs) > 1:
        arrays = inputs
    examples = ArrayExamples(Batch(arrays, np.zeros(len(single), np.int32)))
    return Dataset(examples, examples)


@pytest.fixture
def exported(tmp_path):
    """Export a model to one format; returns its entry in the report."""

    def export(model, file_format, outputs=("out",), **inputs):
        file = tmp_path / "model.keras"
        (tmp_path / "model.onnx").unlink(missing_ok=True)
        model.save(file)
        signature = {"outputs": {name: {} for name in outputs}}
        *_, report = export_model(file, [file_format], signature, dataset_of(**inputs)).files
        [entry] = json.loads(report.read_text())["exports"]
        assert (tmp_path / "model.onnx").exists() == (
            file_format == "onnx" and entry["state"] == "available"
        )
        return entry

    return export


FLOATS = np.linspace(-3, 3, 40, dtype=np.float32).reshape(8, 5)
PICTURES = np.linspace(0, 1, 4 * 9 * 9 * 3, dtype=np.float32).reshape(4, 9, 9, 3)


def network(layer, shape=(5,), **options):
    x = keras.Input(shape, name="x", **options)
    return keras.Model(x, layer(x))


def test_a_saved_model_has_the_names_of_the_signature(exported, tmp_path):
    entry = exported(network(layers.Dense(3)), "saved_model", ("logits",), x=FLOATS)
    assert (entry["state"], entry["reason"]) == ("available", None)
    assert entry["checked"] == "8 rows of the data, within 0.0001 (float32)"
    assert 0.0 <= entry["max_difference"] <= entry["tolerance"]
    assert (tmp_path / entry["file"]).stat().st_size > 1000


@NEEDS_ONNX
def test_gelu_is_converted(exported, tmp_path):
    model = network(layers.Dense(3, activation="gelu"))
    entry = exported(model, "onnx", ("logits",), x=FLOATS)
    assert (entry["state"], entry["reason"]) == ("available", None)
    import onnxruntime

    session = onnxruntime.InferenceSession(str(tmp_path / "model.onnx"))
    names = [
        [tensor.name for tensor in part] for part in (session.get_inputs(), session.get_outputs())
    ]
    assert names == [["x"], ["logits"]]


@NEEDS_ONNX
def test_a_bicubic_resizing_that_does_not_run_is_refused(exported):
    layer = layers.Resizing(5, 7, interpolation="bicubic")
    entry = exported(network(layer, (None, None, 3)), "onnx", x=PICTURES)
    assert entry["state"] == "failed"
    assert "Cubic" in entry["reason"]


@NEEDS_ONNX
def test_argmax_is_refused_with_the_operations(exported):
    model = network(lambda x: keras.ops.cast(keras.ops.argmax(x, axis=-1), "float32"))
    entry = exported(model, "onnx", x=FLOATS)
    assert entry["state"] == "failed"
    assert entry["reason"].startswith("ONNX has no counterpart of the TensorFlow operations Bit")


@NEEDS_ONNX
def test_layers_in_bfloat16_are_refused_or_right(exported):
    model = network(layers.Dense(3, dtype="mixed_bfloat16"))
    entry = exported(model, "onnx", x=FLOATS)
    assert entry["state"] == "failed"
    assert "bfloat16" in entry["reason"]


@NEEDS_ONNX
def test_values_that_are_not_finite_are_right_or_refused(exported):
    values = FLOATS.copy()
    values[0, :3] = np.nan, np.inf, -np.inf
    entry = exported(network(keras.ops.nan_to_num), "onnx", x=values)
    assert entry["state"] == "available" or "differs from that" in entry["reason"]


@NEEDS_ONNX
def test_tables_of_text_are_refused(exported):
    layer = layers.StringLookup(vocabulary=["a", "b"])
    words = np.asarray([["a"], ["c"]], object)
    entry = exported(network(layer, (1,), dtype="string"), "onnx", x=words)
    assert entry["state"] == "failed"
    assert "Lookup" in entry["reason"]


@NEEDS_ONNX
@pytest.mark.parametrize("shape", [(9, 9, 3), (None, None, 3)], ids=str)
def test_strided_and_dilated_convolutions_are_equal_at_any_size(exported, shape):
    model = keras.Sequential(
        [
            keras.Input(shape, name="x"),
            layers.Conv2D(4, 3, strides=2, padding="same"),
            layers.DepthwiseConv2D(3, dilation_rate=2, padding="same"),
            layers.Conv2DTranspose(2, 3, strides=2, padding="same"),
            layers.BatchNormalization(),
            layers.GlobalAveragePooling2D(),
        ]
    )
    entry = exported(model, "onnx", x=PICTURES)
    assert (entry["state"], entry["reason"]) == ("available", None)


@NEEDS_ONNX
def test_inputs_keep_their_order_and_outputs_their_names(exported):
    first, second = keras.Input((5,), name="zz"), keras.Input((5,), name="a b")
    outputs = {"minus": first - 2.0 * second, "b": first * 3.0}
    model = keras.Model([first, second], outputs)
    arrays = {"zz": FLOATS, "a b": FLOATS[::-1].copy()}
    for file_format in ("onnx", "saved_model"):
        entry = exported(model, file_format, tuple(model.output), **arrays)
        assert (entry["state"], entry["reason"]) == ("available", None)
        assert entry["inputs"] == {"a b": "a_b"}


def test_missing_libraries_are_named(exported, monkeypatch):
    monkeypatch.setattr(onnx_file, "LIBRARIES", ("a_library_that_nobody_has",))
    entry = exported(network(layers.Dense(3)), "onnx", x=FLOATS)
    assert entry["state"] == "failed"
    assert "does not have a_library_that_nobody_has: install the extra onnx" in entry["reason"]


class Subclassed(keras.Model):
    def call(self, x):
        return 2.0 * x


def test_a_model_without_named_inputs_is_refused(tmp_path):
    model = Subclassed()
    model(FLOATS)
    with keras.saving.custom_object_scope({"Subclassed": Subclassed}):
        model.save(tmp_path / "model.keras")
        *_, report = export_model(
            tmp_path / "model.keras", ["saved_model"], {}, dataset_of(x=FLOATS)
        ).files
    [entry] = json.loads(report.read_text())["exports"]
    assert entry["state"] == "failed"
    assert "subclassed" in entry["reason"]


@every_row(
    ("dtype", "error", "state"),
    [
        ("float32", 0.5, "available"),
        ("float32", 3.0, "failed"),
        ("float16", 0.5, "available"),
        ("float16", 3.0, "failed"),
        ("bfloat16", 3.0, "failed"),
    ],
)
def test_the_tolerance_is_that_of_the_dtype(dtype, error, state):
    values = np.asarray([1.0, -0.5, 0.0], np.float32)
    outputs = {"y": values + np.float32(error * TOLERANCES[dtype])}
    export = compared("onnx", {"y": values}, outputs, dtype, "3 rows")
    assert export.state == state


def test_outputs_that_are_not_comparable_are_refused():
    values = np.ones((3, 2), np.float32)
    for outputs in ({}, {"y": values[:2]}, {"y": values * np.nan}, {"y": values * np.inf}):
        assert compared("onnx", {"y": values}, outputs, "float32", "3 rows").state == "failed"
    integers = np.arange(3)
    same = compared("onnx", {"y": integers}, {"y": integers.astype(np.int32)}, "float32", "")
    assert same.state == "available"
    assert compared("onnx", {"y": integers}, {"y": integers + 1}, "float32", "").state == "failed"


def test_a_job_exports_its_model_and_says_what_failed(job, tmp_path, monkeypatch):
    monkeypatch.setattr(onnx_file, "LIBRARIES", ("a_library_that_nobody_has",))
    events = []
    spec = job(train={"steps": 2, "export": ["saved_model", "onnx"]})
    Trainer(spec, output_dir=tmp_path).run(on_event=events.append)
    [saved] = [event.data for event in events if event.type is EventType.MODEL_SAVED]
    assert saved["exports"] == ["model.saved_model.zip", "model.exports.json"]
    assert all((tmp_path / name).is_file() for name in saved["exports"])
    [warning] = [event.data for event in events if event.data.get("code") == "model_not_exported"]
    assert "was not exported as onnx: This worker does not have" in warning["message"]
    signature = json.loads((tmp_path / "signature.json").read_text())
    assert signature["environment"]["keras"] == keras.__version__
