"""The ranges of a batch are those of the layers' values in float32, and name planted faults."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from ampcore.data import Batch
from ampcore.diagnostics.ranges import range_probe
from ampcore.diagnostics.ranges.range_probe import RangeProbe, sample_stride
from ampcore.models.classification import Classification
from ampcore.models.task import Network
from ampcore.precision import apply_policy
from ampspec.precision.precision import float32_overrides
from ampspec.telemetry.ranges.exponent_histogram import ExponentHistogram
from ampspec.telemetry.ranges.number_formats import BFLOAT16, FLOAT16
from ampspec.telemetry.ranges.range_report import RangeProblem, range_report
from ampspec.telemetry.ranges.range_samples import TensorKind

SEED = tf.constant([0, 7], tf.int64)
SCALE = 1024.0


@keras.saving.register_keras_serializable("test_range_probe")
class Factor(keras.layers.Layer):
    """Multiplies its inputs by a number, and their gradients by another."""

    def __init__(self, forward, backward, **options):
        super().__init__(**options)
        self.factors = forward, backward

    def call(self, inputs):
        @tf.custom_gradient
        def multiplied(x):
            forward, backward = (tf.cast(factor, x.dtype) for factor in self.factors)
            return x * forward, lambda upstream: upstream * backward

        return multiplied(inputs)

    def get_config(self):
        return super().get_config() | {"forward": self.factors[0], "backward": self.factors[1]}


def model():
    """A layer that overflows float16, and a branch whose gradients are too small for it."""
    keras.utils.set_random_seed(0)
    inputs = keras.Input((6,))
    first = keras.layers.Dense(8, name="first")(inputs)
    hot = Factor(1e6, 1.0, name="hot")(first)
    cold = Factor(1e-6, 1.0, name="cold")(hot)
    faint = keras.layers.Dense(8, name="faint")(first)
    branch = Factor(1.0, 1e-18, name="factor")(faint)
    joined = keras.layers.Add(name="joined")([cold, branch])
    return keras.Model(inputs, keras.layers.Dense(3, name="logits")(joined))


@pytest.fixture(scope="module")
def batch():
    random = np.random.default_rng(0)
    x = random.normal(size=(32, 6)).astype(np.float32)
    return Batch(x, random.integers(0, 3, 32).astype(np.int32))


@pytest.fixture(scope="module")
def task():
    return Classification([Network("model", apply_policy(model(), "mixed_float16"))])


@pytest.fixture(scope="module")
def probe(task):
    return RangeProbe(task)


@pytest.fixture(scope="module")
def sample(probe, batch):
    return probe(5, [SCALE], batch, SEED)


def tensors(sample):
    return {(layer.layer, kind): found for layer, kind, found in sample.tensors()}


def test_the_values_are_those_of_the_same_weights_in_float32(sample, task, batch):
    plain = model()
    plain.set_weights(task.networks[0].model.get_weights())
    outputs = keras.Model(plain.input, [layer.output for layer in plain.layers[1:]])
    with tf.GradientTape() as tape:
        values = outputs(batch.x)
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(batch.y, values[-1]))
    gradients = tape.gradient(loss, plain.get_layer("logits").trainable_variables)
    found = tensors(sample)
    for layer, value in zip(plain.layers[1:], values, strict=True):
        measured = found[layer.name, TensorKind.ACTIVATIONS]
        expected = ExponentHistogram.of(value.numpy())
        assert measured.histogram.counts == pytest.approx(expected.counts, abs=1)
        assert measured.histogram.largest == pytest.approx(expected.largest, rel=1e-5)
        assert measured.mean == pytest.approx(float(np.mean(value)), rel=1e-3)
        assert measured.variance == pytest.approx(float(np.var(value)), rel=1e-3)
    weights = np.concatenate([gradient.numpy().ravel() for gradient in gradients])
    logits = found["logits", TensorKind.WEIGHT_GRADIENTS].histogram
    assert logits.counts == pytest.approx(ExponentHistogram.of(weights).counts, abs=1)


def test_layers_keep_the_dtypes_that_they_train_in(sample, task):
    assert {layer.layer: layer.dtype for layer in sample.layers} == {
        layer.name: layer.compute_dtype for layer in task.networks[0].model.layers[1:]
    }
    assert task.networks[0].model.get_layer("hot").compute_dtype == "float16"


def test_the_layers_with_planted_faults_are_named_and_no_others(sample):
    report = range_report([sample], FLOAT16)
    assert {(one.layer, one.tensor, one.problem) for one in report.tensors if one.problem} == {
        ("hot", TensorKind.ACTIVATIONS, RangeProblem.OVERFLOW),
        ("faint", TensorKind.ACTIVATION_GRADIENTS, RangeProblem.UNDERFLOW),
        ("faint", TensorKind.WEIGHT_GRADIENTS, RangeProblem.UNDERFLOW),
    }
    assert sorted(report.layers) == ["faint", "hot"]
    [scales] = report.scales
    assert scales.lowest is None
    assert min(scales.suffering_layers) == 1
    assert "the outputs of hot overflow" in report.sentence
    assert "No loss scale suits all layers" in report.sentence


def test_the_proposed_overrides_repair_the_planted_faults(sample, batch, probe):
    overrides = float32_overrides(range_report([sample], FLOAT16).float32_layers)
    repaired = apply_policy(model(), "mixed_float16", overrides)
    dtypes = {layer.name: layer.compute_dtype for layer in repaired.layers}
    assert (dtypes["hot"], dtypes["cold"], dtypes["faint"]) == ("float32",) * 3
    assert dtypes["first"] == "float16"
    after = RangeProbe(Classification([Network("model", repaired)]))(5, [SCALE], batch, SEED)
    assert range_report([after], FLOAT16).layers == []


def test_bfloat16_suits_the_layer_that_overflows_in_float16(sample):
    assert range_report([sample], BFLOAT16).layers == []


def test_a_later_batch_of_the_same_shape_is_not_traced_again(probe, batch, sample):
    probe(6, [1.0], batch, SEED)
    assert probe.function.experimental_get_tracing_count() == 1


def test_large_tensors_are_sampled_evenly(monkeypatch, task, batch, sample):
    monkeypatch.setattr(range_probe, "MAX_VALUES", 50)
    sampled = tensors(RangeProbe(task)(5, [SCALE], batch, SEED))
    whole = tensors(sample)
    key = "first", TensorKind.ACTIVATIONS
    assert sampled[key].histogram.largest == whole[key].histogram.largest
    assert sampled[key].histogram.size == pytest.approx(whole[key].histogram.size, rel=0.1)


@pytest.mark.parametrize("size", [128 * 26 * 26 * 32, 2**24, 3 * 2**20])
def test_the_stride_reaches_every_channel(size):
    stride = sample_stride(size)
    assert size / stride <= range_probe.MAX_VALUES
    assert np.gcd(stride, size) == 1


def test_values_that_are_not_finite_are_counted_wherever_they_are():
    flat = np.ones(1000, np.float32)
    flat[[501, 502]] = np.inf, np.nan
    _, stats = range_probe.measure(tf.constant(flat), 10)
    assert stats.numpy()[0] == 2
