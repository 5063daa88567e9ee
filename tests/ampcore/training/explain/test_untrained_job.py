"""A job is measured before its first step: variances, and what rounding one layer does."""

import keras
import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf

from ampcore.diagnostics.ranges.perturbation import round_to
from ampcore.training import Trainer
from ampspec.telemetry.ranges.number_formats import NUMBER_FORMATS
from ampspec.telemetry.ranges.range_samples import TensorKind
from ampspec.telemetry.ranges.unit_scaling import unit_scales

OFFSET = 30_000.0
WIDTH = 8


def model():
    """Two layers whose values are large and close together: rounding them leaves only noise."""
    keras.utils.set_random_seed(0)
    inputs = keras.Input((6,))
    wide = keras.layers.Dense(WIDTH, name="wide", kernel_initializer="ones")(inputs)
    normed = keras.layers.Dense(WIDTH, name="normal")(wide)
    shifted = Shift(OFFSET, name="up")(normed)
    back = Shift(-OFFSET, name="down")(shifted)
    return keras.Model(inputs, keras.layers.Dense(3, name="logits")(back))


@keras.saving.register_keras_serializable("test_first_step")
class Shift(keras.layers.Layer):
    """Adds a number."""

    def __init__(self, offset, **options):
        super().__init__(**options)
        self.offset = offset

    def call(self, inputs):
        return inputs + self.offset

    def get_config(self):
        return super().get_config() | {"offset": self.offset}


@pytest.fixture(scope="module")
def first_step():
    random = np.random.default_rng(0)
    x = random.normal(size=(64, 6)).astype(np.float32)
    y = random.integers(0, 3, 64).astype(np.int32)
    trainer = Trainer.from_keras(
        model(),
        data=(x, y),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        batch_size=64,
        shuffle=False,
        policy="mixed_float16",
    )
    return trainer.untrained(), x


@pytest.fixture(scope="module")
def changes(first_step):
    return {one.layer: one for one in first_step[0].perturb("float16")}


def test_the_perturbation_test_names_the_planted_layers_and_no_others(changes):
    assert {name for name, one in changes.items() if one.is_risky} == {"up", "down"}
    assert set(changes) == {"wide", "normal", "up", "down"}


def test_other_layers_change_the_gradients_by_about_the_precision_of_the_format(changes):
    for name in ("wide", "normal"):
        assert 1e-5 < changes[name].gradient_change < 1e-2
        assert changes[name].loss_change < 1e-2


def test_a_format_with_fewer_bits_changes_them_more(first_step, changes):
    coarse = {one.layer: one for one in first_step[0].perturb("float8_e5m2")}
    for name in ("wide", "normal"):
        assert coarse[name].gradient_change > 10 * changes[name].gradient_change


def test_ranges_give_the_variances_and_the_multipliers_of_unit_scaling(first_step):
    sample = first_step[0].ranges()
    assert sample.step == 0
    scales = {one.layer: one for one in unit_scales(sample)}
    outputs = first_step[1].sum(axis=1)
    assert scales["wide"].output_deviation == pytest.approx(outputs.std(), rel=1e-3)
    assert scales["wide"].output_multiplier == 0.5
    for one in scales.values():
        for deviation, multiplier in (
            (one.output_deviation, one.output_multiplier),
            (one.gradient_deviation, one.gradient_multiplier),
        ):
            assert 0.7 < deviation * multiplier < 1.42
    assert TensorKind.ACTIVATION_GRADIENTS in sample.layers[0].tensors


@pytest.mark.parametrize("name", NUMBER_FORMATS)
def test_values_are_rounded_as_a_cast_rounds_them(name):
    random = np.random.default_rng(0)
    values = np.exp2(random.uniform(-30, 18, 20_000)) * random.choice([-1, 1], 20_000)
    values = np.concatenate([values, [0.0, 464.0, 2.0**-10, 3 * 2.0**-10]]).astype(np.float32)
    dtype = getattr(ml_dtypes, name, None) or getattr(np, name)
    with np.errstate(over="ignore"):
        expected = values.astype(dtype).astype(np.float32)
    found = round_to(tf.constant(values), NUMBER_FORMATS[name]).numpy()
    is_finite = np.isfinite(expected)
    np.testing.assert_array_equal(found[is_finite], expected[is_finite])
    assert np.isinf(found[~is_finite]).all()
