import keras
import numpy as np
import pytest
import tensorflow as tf

from ampcore import JobSpec, Trainer
from ampcore.precision import layer_policies
from ampcore.precision.float16_on_cpu import with_float32_kernel_gradient, without_op_fusion
from ampspec.errors import InvalidModel
from ampspec.precision.devices import DeviceInfo
from ampspec.precision.precision import Override, Precision

CPU = DeviceInfo("cpu")
GPU = DeviceInfo("gpu")
SHAPES = {1: (9,), 2: (9, 9), 3: (5, 5, 5)}
OPTIONS = ({}, {"strides": 2, "padding": "same"}, {"dilation_rate": 2})
KINDS = {1: keras.layers.Conv1D, 2: keras.layers.Conv2D, 3: keras.layers.Conv3D}


def gradients(rank, worked_around, scale=1.0, policy="mixed_float16", **options):
    """The gradients of a small convolution by its inputs, its kernel and its bias."""
    keras.utils.set_random_seed(0)
    layer = KINDS[rank](8, 3, dtype=policy, **options)
    values = np.random.default_rng(0).normal(size=(4, *SHAPES[rank], 4))
    inputs = tf.constant(values, tf.float16)
    layer.build(inputs.shape)
    if worked_around:
        layer.convolution_op = with_float32_kernel_gradient(layer)

    @tf.function
    def compute():
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            loss = scale * tf.reduce_sum(tf.cast(layer(inputs), tf.float32) ** 2)
        return tape.gradient(loss, [inputs, *(variable.value for variable in layer.variables)])

    return [gradient.numpy() for gradient in compute()]


@pytest.mark.parametrize(
    ("rank", "options"),
    [
        *((rank, options) for rank in KINDS for options in OPTIONS),
        (1, {"groups": 2}),  # TensorFlow has no grouped Conv3D on a CPU
        (2, {"groups": 2}),
        (2, {"policy": "float16"}),
    ],
)
def test_the_workaround_keeps_the_gradients_of_the_layer(rank, options):
    for plain, worked_around in zip(
        gradients(rank, False, **options), gradients(rank, True, **options), strict=True
    ):
        assert plain.dtype == worked_around.dtype
        np.testing.assert_allclose(worked_around, plain, rtol=2e-3, atol=2e-3 * np.abs(plain).max())


def test_the_workaround_keeps_float16_overflows():
    _, kernel, _ = gradients(2, True, scale=2.0**14)
    assert np.isinf(kernel).any()


def test_the_workaround_supports_second_order_gradients():
    layer = keras.layers.Conv2D(2, 2, dtype="float16")
    layer.build((None, 4, 4, 1))
    layer.convolution_op = with_float32_kernel_gradient(layer)
    inputs = tf.ones((1, 4, 4, 1), tf.float16)
    with tf.GradientTape() as outer:
        outer.watch(inputs)
        with tf.GradientTape() as inner:
            inner.watch(inputs)
            outputs = tf.reduce_sum(layer(inputs) ** 2)
        penalty = tf.reduce_sum(inner.gradient(outputs, inputs) ** 2)
    assert np.abs(outer.gradient(penalty, layer.kernel.value)).max() > 0


@pytest.mark.parametrize(
    ("policy", "device", "is_worked_around"),
    [
        ("mixed_float16", CPU, True),
        ("O3", CPU, True),
        ("mixed_float16", GPU, False),
        ("mixed_float16", None, False),
        ("mixed_bfloat16", CPU, False),
        ("float32", CPU, False),
    ],
)
def test_only_float16_on_a_cpu_is_worked_around(policy, device, is_worked_around):
    inputs = keras.Input((8, 8, 1))
    x = keras.layers.Conv2D(2, 3, name="conv")(inputs)
    model = keras.Model(inputs, keras.layers.Dense(2, name="output stays in float32")(x))
    clone = layer_policies(Precision(policy=policy), device).apply(model)
    assert ("convolution_op" in vars(clone.get_layer("conv"))) is is_worked_around


def is_op_fusion_on():
    return tf.config.optimizer.get_experimental_options().get("remapping", True)


@pytest.mark.parametrize(
    ("precision", "device", "is_unfused"),
    [
        (Precision(policy="mixed_float16"), CPU, True),
        (Precision(policy="mixed_float16"), GPU, False),
        (Precision(policy="mixed_bfloat16"), CPU, False),
        (Precision(overrides=(Override(layers="head", dtype="float16"),)), CPU, True),
    ],
)
def test_op_fusion_is_off_only_while_float16_trains_on_a_cpu(precision, device, is_unfused):
    assert is_op_fusion_on()
    with without_op_fusion(precision, device):
        assert is_op_fusion_on() is not is_unfused
    assert is_op_fusion_on()
    with pytest.raises(InvalidModel), without_op_fusion(precision, device):
        raise InvalidModel("model", expected="one that trains", received="none")
    assert is_op_fusion_on()


@pytest.mark.parametrize(("policy", "is_fused"), [("mixed_float16", False), ("float32", True)])
def test_a_float16_run_trains_without_op_fusion_and_restores_it(policy, is_fused):
    spec = {
        "model": {"kind": "mlp", "hidden": [4]},
        "data": {"kind": "digits"},
        "precision": {"policy": policy},
        "runtime": {"device": "cpu"},
        "train": {"steps": 2},
    }
    seen = []
    Trainer(JobSpec.parse(spec)).run(should_stop=lambda: bool(seen.append(is_op_fusion_on())))
    assert set(seen) == {is_fused}
    assert is_op_fusion_on()
