"""Products in float8, compared with operands that ml_dtypes rounds."""

import itertools

import keras
import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

from ampcore.precision import apply_policy, layer_policies
from ampcore.precision.layers.float8_products import recorded_amaxes
from ampcore.precision.layers.layer_products import installed_products
from ampspec.precision.devices import DeviceInfo
from ampspec.precision.precision import Precision

H100 = DeviceInfo("gpu", compute_capability=(9, 0))


def random(*shape, scale=1.0, seed=0, dtype="bfloat16"):
    values = np.random.default_rng(seed).normal(size=shape, scale=scale)
    return tf.cast(tf.constant(values, tf.float32), dtype)


def model_of(*hidden, shape=(16,), float8=(), overrides=(), device=None):
    """A chain of layers under mixed_float8 before an output in float32; its policies."""
    keras.utils.set_random_seed(0)
    x = inputs = keras.Input(shape)
    for layer in hidden:
        x = layer(x)
    model = keras.Model(inputs, layers.Dense(1, name="out")(x))
    precision = Precision(policy="mixed_float8", float8=dict(float8), overrides=overrides)
    policies = layer_policies(precision, device)
    return policies.apply(model), policies


def layer_of(make=lambda: layers.Dense(8, name="layer"), **options):
    model, _ = model_of(make(), **options)
    return model.get_layer("layer")


def rounded(values, name, amax=None):
    """The values in float8 by ml_dtypes, at the scale for their largest magnitude."""
    values = np.asarray(tf.cast(values, tf.float32))
    largest = float(ml_dtypes.finfo(name).max)
    scale = 2.0 ** np.floor(np.log2(largest / (np.abs(values).max() if amax is None else amax)))
    scaled = np.clip(values * scale, -largest, largest)
    return tf.constant(scaled.astype(getattr(ml_dtypes, name)).astype(np.float32) / scale)


def gradients_of(layer, inputs, upstream):
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        outputs = layer(inputs)
    return outputs, *tape.gradient(outputs, [inputs, layer.kernel.value], upstream)


@pytest.mark.parametrize("scaling", ["delayed", "current"])
@pytest.mark.parametrize("native", [False, True], ids=["emulated", "stored in 8 bits"])
def test_operands_are_rounded_and_their_products_are_exact(scaling, native):
    layer = layer_of(float8={"scaling": scaling}, device=H100 if native else None)
    inputs, upstream = random(6, 16, scale=1e-3), random(6, 8, scale=1e-6, seed=1)
    outputs, of_inputs, of_kernel = gradients_of(layer, inputs, upstream)
    x, w = rounded(inputs, "float8_e4m3fn"), rounded(layer.kernel.value, "float8_e4m3fn")
    dy = rounded(upstream, "float8_e5m2")
    expected = tf.cast(x @ w, "bfloat16") + tf.cast(layer.bias.value, "bfloat16")
    np.testing.assert_array_equal(outputs.numpy(), expected.numpy())
    np.testing.assert_array_equal(of_inputs, tf.cast(dy @ tf.transpose(w), "bfloat16"))
    np.testing.assert_array_equal(of_kernel, tf.transpose(x) @ dy)
    assert (outputs.dtype, of_kernel.dtype) == ("bfloat16", "float32")


LAYERS = {
    "einsum": (lambda: layers.EinsumDense("abc,cd->abd", (5, 8), name="layer"), (5, 16)),
    "conv1": (lambda: layers.Conv1D(8, 3, name="layer"), (9, 16)),
    "conv2": (lambda: layers.Conv2D(8, 3, name="layer"), (7, 7, 16)),
    "conv3": (lambda: layers.Conv3D(8, 2, name="layer"), (4, 4, 4, 16)),
}


@pytest.mark.parametrize("kind", LAYERS)
def test_every_kind_of_layer_multiplies_rounded_operands(kind):
    make, shape = LAYERS[kind]
    layer, plain = layer_of(make, shape=shape), make()
    inputs = random(4, *shape)
    plain.build(inputs.shape)
    plain.kernel.assign(rounded(layer.kernel.value, "float8_e4m3fn"))
    upstream = random(*plain.compute_output_shape(inputs.shape), seed=1)
    found = gradients_of(layer, inputs, upstream)
    expected = gradients_of(
        plain,
        rounded(inputs, "float8_e4m3fn"),
        rounded(upstream, "float8_e5m2"),
    )
    for value, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(value, tf.cast(other, value.dtype))


def test_a_role_may_stay_out_of_float8():
    override = {"layers": "^layer$", "dtype": "float32", "roles": ["weight_gradient"]}
    layer = layer_of(overrides=[override])
    inputs, upstream = random(6, 16), random(6, 8, seed=1)
    outputs, _, of_kernel = gradients_of(layer, inputs, upstream)
    wide = (tf.cast(each, tf.float32) for each in (tf.transpose(inputs), upstream))
    np.testing.assert_array_equal(of_kernel, tf.matmul(*wide))
    x, w = rounded(inputs, "float8_e4m3fn"), rounded(layer.kernel.value, "float8_e4m3fn")
    np.testing.assert_array_equal(outputs, tf.cast(x @ w, "bfloat16"))


def scaling_of(layer):
    return layer.__dict__["call"].__self__.scaling


def test_delayed_scaling_uses_the_largest_recorded_magnitude():
    layer = layer_of(float8={"amax_history": 2})
    scaling, inputs = scaling_of(layer), random(6, 16)
    scaling.history.assign([[3.0, 64.0], [1.0, 1.0], [1.0, 1.0]])
    expected = rounded(inputs, "float8_e4m3fn", amax=64.0) @ rounded(
        layer.kernel.value, "float8_e4m3fn", amax=1.0
    )
    np.testing.assert_array_equal(layer(inputs), tf.cast(expected, "bfloat16"))


def test_the_margin_leaves_room_for_larger_values():
    scaling = scaling_of(layer_of(float8={"amax_history": 1, "margin": 2}))
    scaling.history.assign([[1.0], [1.0], [1.0]])
    # At the full scale of 256, 4 × 1 would saturate.
    quantized = scaling.quantized(tf.constant([1.0, 4.0, 100.0]), "inputs")
    np.testing.assert_array_equal(quantized, [1.0, 4.0, 448 / 64])


def test_a_history_takes_the_newest_first_and_ignores_what_is_not_finite():
    scaling = scaling_of(layer_of(float8={"amax_history": 3}))
    for amaxes in ([1.0, 2.0, 3.0], [4.0, np.inf, np.nan]):
        scaling.history.assign(scaling.next_history(tf.constant(amaxes)))
    np.testing.assert_array_equal(scaling.history, [[4, 1, 0], [2, 0, 0], [3, 0, 0]])


def recorded(model, inputs, weight=1.0):
    """The amaxes of the layers, recorded in one forward and backward pass."""
    scalings = [products.scaling for products in installed_products(model)]

    @tf.function
    def traced(x):
        with tf.GradientTape() as tape, recorded_amaxes(scalings, tape) as probes:
            loss = weight * tf.reduce_sum(model(x))
        return tape.gradient(loss, probes)

    return [found.numpy() for found in traced(inputs)]


def test_a_training_step_records_the_magnitudes_of_its_operands():
    model, _ = model_of(layers.Dense(8, name="layer"))
    [found] = recorded(model, inputs := random(6, 16, dtype="float32"))
    head = tf.cast(model.get_layer("out").kernel.value, "bfloat16")
    kernel = model.get_layer("layer").kernel.value
    narrow = tf.cast(inputs, "bfloat16")
    expected = [np.abs(np.asarray(each, np.float32)).max() for each in (narrow, kernel, head)]
    np.testing.assert_array_equal(found, np.array(expected, np.float32))


def test_of_several_calls_of_one_layer_the_largest_magnitude_counts():
    shared = layers.Dense(16, name="shared")
    once, _ = model_of(shared)
    keras.utils.set_random_seed(0)
    inputs = keras.Input((16,))
    outputs = sum(shared(inputs * factor) for factor in (0.5, 1.0, 0.25))
    three, _ = model_of(keras.Model(inputs, outputs, name="inner"))
    x = random(6, 16, dtype="float32")
    [once], [three] = recorded(once, x), recorded(three, x)
    np.testing.assert_array_equal(once[:2], three[:2])
    assert once[2] > 0


def test_calls_outside_of_a_training_step_record_nothing():
    model, _ = model_of(layers.Dense(8, name="layer"))
    before = scaling_of(model.get_layer("layer")).history.numpy()
    model(random(6, 16), training=True)
    model.predict(np.ones((4, 16)), verbose=0)
    np.testing.assert_array_equal(scaling_of(model.get_layer("layer")).history, before)


class OwnDense(layers.Dense):
    """A dense layer that computes in its own way."""

    def call(self, inputs):
        return super().call(inputs) * 2


def test_each_layer_outside_of_float8_has_a_reason():
    chain = (
        layers.TimeDistributed(layers.Dense(8, name="inside"), name="each"),
        layers.MultiHeadAttention(2, 4, name="attention"),
        layers.LSTM(8, name="lstm"),
        layers.Dense(8, name="dense"),
        OwnDense(8, name="own"),
        layers.Dense(8, name="wide"),
        layers.Dense(8, activation="softmax", name="gate"),
    )
    keras.utils.set_random_seed(0)
    x = inputs = keras.Input((5, 16))
    for layer in chain:
        x = layer(x, x) if layer.name == "attention" else layer(x)
    model = keras.Model(inputs, layers.Dense(1, name="out")(x))
    override = {"layers": "^wide$", "dtype": "bfloat16"}
    policies = layer_policies(Precision(policy="mixed_float8", overrides=[override]))
    policies.apply(model)
    reasons = {path: dtypes.not_float8 for path, dtypes in policies.layers.items()}
    assert {
        "each": "loop",
        "each/inside": "loop",
        "attention": "kind",
        "attention/query": None,
        "attention/attention_output": None,
        "lstm": "kind",
        "dense": None,
        "own": "own_call",
        "wide": "override",
        "gate": "softmax",
        "out": "output",
    }.items() <= reasons.items()
    computed = {path for path, dtypes in policies.layers.items() if dtypes.products}
    assert computed == {path for path, reason in reasons.items() if reason is None}
    assert policies.compute_dtypes == {"bfloat16"}


def test_a_converted_model_has_the_variables_of_keras_and_loads_without_ampcore(tmp_path):
    x = inputs = keras.Input((16,))
    model = keras.Model(inputs, layers.Dense(1)(layers.Dense(8, name="layer")(x)))
    made = apply_policy(model, "mixed_float8")
    assert [each.path for each in made.variables] == [each.path for each in model.variables]
    made.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert loaded.get_layer("layer").compute_dtype == "bfloat16"
    assert "call" not in vars(loaded.get_layer("layer"))


def test_a_converted_model_trains_in_fit_with_current_scaling():
    """`fit` records no histories; without one the scale is that of the tensor itself."""
    made, _ = model_of(layers.Dense(8, name="layer"))
    made.compile(keras.optimizers.SGD(1e4), "mse")
    before = made.get_layer("layer").kernel.numpy()
    made.fit(np.full((8, 16), 1e-6), np.ones((8, 1)), verbose=0)
    assert (made.get_layer("layer").kernel.numpy() != before).all()


@pytest.mark.parametrize(
    ("capability", "native"), [((9, 0), True), ((8, 9), True), ((8, 6), False), (None, False)]
)
def test_the_device_decides_whether_numbers_are_stored_in_8_bits(capability, native):
    layer = layer_of(device=DeviceInfo("gpu", compute_capability=capability))
    assert scaling_of(layer).native is native
    function = tf.function(layer.call).get_concrete_function(tf.TensorSpec((4, 16), tf.bfloat16))
    dtypes = {
        tensor.dtype.name
        for tensor in itertools.chain(*(each.outputs for each in function.graph.get_operations()))
    }
    assert ("float8_e4m3fn" in dtypes) is native
