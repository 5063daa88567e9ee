"""The scale table of real gradients matches a cast of these gradients to float16."""

import json

import numpy as np
import pytest
import tensorflow as tf

from ampcore import data, models
from ampcore.data import Batch
from ampcore.diagnostics.ranges import scale_table
from ampcore.diagnostics.ranges.scale_table import Samples, ScaleTable
from ampcore.diagnostics.steps.replay import Replay
from ampcore.precision import FixedLossScale, layer_policies
from ampspec.data.data import Digits
from ampspec.models.model import Mlp
from ampspec.precision.precision import Precision
from ampspec.telemetry.ranges.exponent_histogram import SCALE_EXPONENTS, ExponentHistogram

SEED = tf.constant([0, 7], tf.int64)
SCALE = 1024.0


class Clock:
    """A clock that the test sets."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture(scope="module")
def digits():
    return data.load(Digits(validation_split=0.0))


@pytest.fixture(scope="module")
def batch(digits):
    return Batch(digits.train.arrays.x[:64], digits.train.arrays.y[:64])


@pytest.fixture(scope="module")
def replay(digits):
    policies = layer_policies(Precision(policy="mixed_float16"))
    return Replay(models.build(Mlp(hidden=(16,)), digits.signature, policies), [FixedLossScale()])


@pytest.fixture(scope="module")
def event_data(replay, batch):
    table = ScaleTable(replay)
    table.sample(3, [SCALE], batch, SEED)
    return table.event_data()


@pytest.fixture(scope="module")
def gradients(replay, batch):
    """All values of the unscaled gradients of the batch."""
    ((_, replayed),) = replay.step([SCALE], batch, SEED)
    return np.concatenate([g.numpy().ravel() for g in replayed.gradients[0]]) / SCALE


def test_the_shares_match_a_cast_of_the_gradients(event_data, gradients):
    values = np.abs(gradients[gradients != 0].astype(np.float64))
    shares = event_data["shares"]
    assert shares["first_exponent"] == SCALE_EXPONENTS[0]
    for index, exponent in enumerate(SCALE_EXPONENTS):
        with np.errstate(over="ignore"):
            cast = (values * 2.0**exponent).astype(np.float16)
        # Powers of two that are half of float16's smallest number are the exception.
        assert shares["underflow"][index] == pytest.approx(np.mean(cast == 0), abs=0.01)
        assert shares["overflow"][index] == pytest.approx(np.mean(np.isinf(cast)), abs=0.01)


def test_every_variable_has_its_histogram(event_data, replay):
    variables = replay.task.networks[0].model.trainable_variables
    sizes = {f"model/{v.path}": int(np.prod(v.shape)) for v in variables}
    found = {name: ExponentHistogram.from_json(h) for name, h in event_data["variables"].items()}
    assert {name: histogram.size for name, histogram in found.items()} == sizes
    assert ExponentHistogram.from_json(event_data["all"]).size == sum(sizes.values())


def test_the_highest_suggested_scale_does_not_overflow(event_data, replay, batch):
    highest = 2.0 ** event_data["suggested"]["highest"]
    ((_, at_highest),) = replay.step([highest], batch, SEED)
    assert at_highest.finite == [True]
    assert event_data["sentence"].startswith("Loss scales from 2^")


def test_without_a_suitable_scale_the_layers_that_cause_it_are_named(replay):
    table = ScaleTable(replay)
    table.samples.count = 1
    table.samples.variables = {
        "model/large/kernel": ExponentHistogram.of(np.array([1000.0, 900.0])),
        "model/middle/kernel": ExponentHistogram.of(np.array([0.5] * 50)),
        "model/block/faint/kernel": ExponentHistogram.of(np.array([2.0**-40] * 20)),
    }
    sentence = table.event_data()["sentence"]
    assert sentence.startswith("No loss scale fits: the gradients of large allow at most 2^5")
    assert "most of them in block/faint. Add {layers: '^large$', dtype: float32}" in sentence
    table.samples.max_activation_gradient, table.samples.max_activation_gradient_layer = (
        1e5,
        "inner",
    )
    assert "the gradients of inner allow at most 2^-2" in table.event_data()["sentence"]


def test_the_event_data_is_json(event_data):
    assert json.loads(json.dumps(event_data)) == event_data


def test_large_gradients_are_sampled_evenly(replay, batch, gradients, monkeypatch):
    monkeypatch.setattr(scale_table, "MAX_VALUES", 100)
    table = ScaleTable(replay)
    table.sample(0, [SCALE], batch, SEED)
    found = table.samples.combined
    assert found.largest == pytest.approx(np.abs(gradients).max())
    assert found.size == pytest.approx(len(gradients), rel=0.1)


def test_samples_are_taken_at_doubling_steps_of_a_long_enough_run(replay, batch):
    clock = Clock()
    table = ScaleTable(replay, clock)
    assert not table.is_due(1)
    sampled = []
    for step in range(10, 200):
        clock.now = 2.0 * step
        if table.is_due(step):
            sampled.append(step)
            table.sample(step, [SCALE], batch, SEED)
    assert sampled == [10, 20, 40, 80, 160]
    assert table.samples.count == 5


def test_samples_take_a_limited_share_of_the_run_time(replay):
    clock = Clock()
    table = ScaleTable(replay, clock)
    table.restore(table.to_json() | {"spent_s": 1.0})
    clock.now = 99.0
    assert not table.is_due(5)
    clock.now = 101.0
    assert table.is_due(5)


def test_a_resumed_run_continues_its_table(replay, batch):
    clock = Clock()
    before = ScaleTable(replay, clock)
    before.sample(3, [SCALE], batch, SEED)
    document = json.loads(json.dumps(before.to_json()))
    after = ScaleTable(replay, clock)
    after.restore(document)
    assert after.event_data() == before.event_data()
    assert after.to_json() == document


def test_the_samples_of_a_checkpoint_of_version_0_5_are_read():
    samples = Samples.from_json({"count": 2, "largest_inside": 3.0, "largest_inside_layer": "x"})
    assert (samples.count, samples.max_activation_gradient) == (2, 3.0)
    assert samples.max_activation_gradient_layer == "x"


def test_there_is_no_table_without_a_sample(replay):
    assert ScaleTable(replay).event_data() is None


def test_steps_of_one_shape_are_traced_once(replay, batch):
    ScaleTable(replay).sample(0, [SCALE], batch, SEED)
    ScaleTable(replay).sample(1, [1.0], batch, SEED)
    assert replay.function.experimental_get_tracing_count() == 1
