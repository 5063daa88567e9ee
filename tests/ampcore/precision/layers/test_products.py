"""Products by role: compared with TensorFlow's operations in each dtype, bit for bit."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

from ampcore.diagnostics.layer_outputs import layer_outputs
from ampcore.models.task import Network
from ampcore.precision import apply_policy, layer_policies
from ampcore.precision.layers.layer_paths import layers_of_outputs
from ampspec.errors import InvalidModel
from ampspec.precision.precision import ROLES, Precision

EQUATION = "abc,cde->abde"
LAYERS = {
    "dense": (lambda **options: layers.Dense(8, **options), (6, 16), tf.matmul),
    "einsum": (
        lambda **options: layers.EinsumDense(EQUATION, (None, 2, 8), bias_axes="de", **options),
        (6, 5, 16),
        lambda x, w: keras.ops.einsum(EQUATION, x, w),
    ),
    "conv1": (
        lambda **options: layers.Conv1D(8, 3, padding="causal", **options),
        (6, 9, 4),
        lambda x, w: tf.nn.conv1d(tf.pad(x, [[0, 0], [2, 0], [0, 0]]), w, 1, "VALID"),
    ),
    "conv2": (
        lambda **options: layers.Conv2D(8, 3, strides=2, padding="same", **options),
        (6, 9, 9, 4),
        lambda x, w: tf.nn.conv2d(x, w, 2, "SAME"),
    ),
}
DTYPES = {
    "float32 weight gradient": ("bfloat16", "bfloat16", "float32"),
    "float32 input gradient": ("bfloat16", "float32", "bfloat16"),
    "float32 forward": ("float32", "bfloat16", "bfloat16"),
    "three dtypes": ("float32", "bfloat16", "float16"),
}


def random(*shape, dtype="float32", seed=0):
    return tf.cast(tf.constant(np.random.default_rng(seed).normal(size=shape), tf.float32), dtype)


def model_with(
    kind, policy="mixed_bfloat16", dtypes=("bfloat16",) * 3, whole="bfloat16", **options
):
    """A model of one layer, which is not its output, with these dtypes of its products."""
    make, shape, _ = LAYERS[kind]
    keras.utils.set_random_seed(0)
    inputs = keras.Input(shape[1:])
    layer = make(name="layer", bias_initializer="normal", activation="relu", **options)
    model = keras.Model(inputs, layers.Dense(1, name="out")(layer(inputs)))
    overrides = [
        {"layers": "^layer$", "dtype": dtype, "roles": [role]}
        for role, dtype in zip(ROLES, dtypes, strict=True)
        if dtype != whole
    ]
    return apply_policy(model, policy, overrides)


def by_hand(product, dtypes, inputs, kernel, upstream):
    """The three products, each with its operands rounded to its own dtype once."""

    def gradient(dtype, of):
        operands = [tf.cast(inputs, dtype), tf.cast(kernel, dtype)]
        with tf.GradientTape() as tape:
            tape.watch(operands)
            outputs = product(*operands)
        return tape.gradient(outputs, operands, tf.cast(upstream, dtype))[of]

    forward, of_inputs, of_kernel = dtypes
    output = product(tf.cast(inputs, forward), tf.cast(kernel, forward))
    return output, gradient(of_inputs, 0), gradient(of_kernel, 1)


@pytest.mark.parametrize("kind", LAYERS)
@pytest.mark.parametrize("dtypes", DTYPES.values(), ids=DTYPES)
def test_each_product_is_computed_in_its_own_dtype(kind, dtypes):
    layer = model_with(kind, dtypes=dtypes).get_layer("layer")
    _, shape, product = LAYERS[kind]
    inputs = random(*shape, dtype="bfloat16")
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        outputs = layer(inputs)
        upstream = random(*outputs.shape, dtype="bfloat16", seed=1)
    of_inputs, of_kernel = tape.gradient(outputs, [inputs, layer.kernel.value], upstream)
    products = by_hand(
        product, dtypes, inputs, layer.kernel.value, tf.where(outputs > 0, upstream, 0)
    )
    expected = tf.nn.relu(tf.cast(products[0], "bfloat16") + tf.cast(layer.bias.value, "bfloat16"))
    np.testing.assert_array_equal(outputs.numpy(), expected.numpy())
    np.testing.assert_array_equal(of_inputs, tf.cast(products[1], "bfloat16"))
    np.testing.assert_array_equal(of_kernel, tf.cast(products[2], "float32"))
    assert (outputs.dtype, of_inputs.dtype, of_kernel.dtype) == ("bfloat16", "bfloat16", "float32")


def test_a_float32_product_uses_the_weights_themselves():
    """Not weights that were rounded to 16 bits and back."""
    layer = model_with("dense", dtypes=("float32", "bfloat16", "bfloat16")).get_layer("layer")
    inputs = random(6, 16, dtype="bfloat16")
    sums = tf.matmul(tf.cast(inputs, "float32"), layer.kernel.value)
    rounded = tf.matmul(
        tf.cast(inputs, "float32"), tf.cast(tf.cast(layer.kernel.value, "bfloat16"), "float32")
    )
    assert np.abs(sums - rounded).max() > 0
    with keras.StatelessScope():  # as in a training step
        outputs = layer(inputs)
    expected = tf.nn.relu(tf.cast(sums, "bfloat16") + tf.cast(layer.bias.value, "bfloat16"))
    np.testing.assert_array_equal(outputs, expected)


def test_a_convolution_of_channels_first_keeps_its_bias():
    """Graphs only: TensorFlow has no such convolution on a CPU without XLA."""
    layer = layers.Conv2D(8, 3, data_format="channels_first", bias_initializer="normal", name="c")
    inputs = keras.Input((4, 9, 9))
    model = keras.Model(inputs, layers.GlobalMaxPooling2D(name="pool")(layer(inputs)))
    override = {"layers": "^c$", "dtype": "float32", "roles": ["weight_gradient"]}
    made = apply_policy(model, "mixed_bfloat16", [override]).get_layer("c")
    plain = apply_policy(model, "mixed_bfloat16").get_layer("c")
    x = random(2, 4, 9, 9, dtype="bfloat16")
    outputs, expected = (tf.function(one, jit_compile=True)(x) for one in (made, plain))
    np.testing.assert_array_equal(outputs, expected)


def test_an_override_without_roles_leaves_the_layers_of_keras_as_they_are():
    model = model_with("dense")
    assert "call" not in vars(model.get_layer("layer"))
    assert "call" in vars(model_with("dense", dtypes=DTYPES["three dtypes"]).get_layer("layer"))


def test_the_projections_of_an_attention_compute_by_role():
    x = keras.Input((4, 8))
    attention = layers.MultiHeadAttention(2, 4, name="attention")
    model = keras.Model(x, layers.Dense(3, name="out")(attention(x, x)))
    override = {"layers": "^attention/query$", "dtype": "float32", "roles": ["forward"]}
    policies = layer_policies(Precision(policy="mixed_bfloat16", overrides=[override]))
    made = policies.apply(model)
    policies.check_all_matched()
    attention = made.get_layer("attention")
    assert "call" in vars(attention._query_dense)
    assert "call" not in vars(attention._key_dense)
    assert policies.layers["attention/query"].products.forward == "float32"
    assert made(random(2, 4, 8)).shape == (2, 4, 3)


def test_the_products_of_a_float32_policy_may_be_16_bit():
    model = model_with("dense", "float32", ("bfloat16", "float32", "float32"), whole="float32")
    policies = layer_policies(
        Precision(overrides=[{"layers": "layer", "dtype": "float16", "roles": ["weight_gradient"]}])
    )
    policies.apply(model_with("dense", "float32", whole="bfloat16", dtypes=("bfloat16",) * 3))
    # So that the loss is scaled, although no whole layer computes in float16.
    assert policies.compute_dtypes == {"float16"}
    layer, inputs = model.get_layer("layer"), random(6, 16)
    expected = tf.cast(
        tf.matmul(tf.cast(inputs, "bfloat16"), tf.cast(layer.kernel.value, "bfloat16")), "float32"
    )
    np.testing.assert_array_equal(layer(inputs), tf.nn.relu(expected + layer.bias.value))


class OwnDense(layers.Dense):
    """A dense layer that computes in its own way."""

    def call(self, inputs):
        return super().call(inputs) * 2


@pytest.mark.parametrize(
    ("layer", "pattern"),
    [
        (lambda: layers.LayerNormalization(name="layer"), "layer"),
        (lambda: OwnDense(4), "own_dense"),
    ],
)
def test_roles_for_layers_without_such_products_are_an_error(layer, pattern):
    inputs = keras.Input((4,))
    model = keras.Model(inputs, layers.Dense(1, name="out")(layer()(inputs)))
    override = {"layers": pattern, "dtype": "float32", "roles": ["forward"]}
    with pytest.raises(InvalidModel, match="dense layer or convolution of Keras") as caught:
        apply_policy(model, "mixed_bfloat16", [override])
    assert "precision.overrides/0/layers" in str(caught.value)


def test_recording_the_outputs_of_layers_keeps_their_products():
    model = model_with("dense", dtypes=DTYPES["three dtypes"])
    layer = model.get_layer("layer")
    call = vars(layer)["call"]

    class Task:
        networks = (Network("model", model),)

    @tf.function
    def traced(x):
        with layer_outputs(Task()) as found:
            model(x)
        assert found[0].layer_ref.path == "layer"
        return found[0].tensor

    traced(random(6, 16))
    layers_of_outputs(model, random(6, 16))
    assert vars(layer)["call"] == call


class Subclassed(keras.Model):
    """A model that cannot be created again."""

    def __init__(self):
        super().__init__()
        self.inner = layers.Dense(8, name="inner")
        self.head = layers.Dense(1, name="head")

    def call(self, x):
        return self.head(self.inner(x))


def test_a_model_that_cannot_be_created_again_has_its_products_only_while_it_is_called():
    model = Subclassed()
    inputs = random(4, 16)
    plain = model(inputs)
    override = {"layers": "inner", "dtype": "bfloat16", "roles": ["forward"]}
    policies = layer_policies(Precision(overrides=[override]))
    network = Network("model", model, policies.in_place(model, inputs))
    weights, others = ([v.value for v in part] for part in (model.trainable_variables, []))
    outputs, _ = network(weights, others, inputs, training=True)
    hidden = tf.matmul(tf.cast(inputs, "bfloat16"), tf.cast(model.inner.kernel.value, "bfloat16"))
    np.testing.assert_array_equal(outputs, model.head(tf.cast(hidden, "float32")))
    np.testing.assert_array_equal(model(inputs), plain)
