import re

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

from ampcore.precision import apply_policy, layer_policies
from ampspec.errors import InvalidModel
from ampspec.jobs import SpecValidationError
from ampspec.precision.devices import DeviceInfo
from ampspec.precision.precision import Override, Precision

TOKENS = tf.constant([[1, 2, 3, 4], [4, 3, 2, 1]])
BFLOAT16_CPU = DeviceInfo("cpu", features=frozenset({"avx512_bf16"}))


def network():
    """A float32 network with every kind of layer that the rules distinguish."""
    tokens = keras.Input((4,), dtype="int32", name="tokens")
    x = layers.Embedding(9, 8, name="table")(tokens)
    x = layers.Rescaling(2.0, name="rescale")(x)
    attended = layers.MultiHeadAttention(2, 4, dropout=0.1, name="attention")(x, x)
    x = layers.LayerNormalization(name="norm")(x + attended)
    x = layers.LSTM(8, return_sequences=True, name="lstm")(x)
    x = layers.TimeDistributed(layers.Dense(8, name="each_dense"), name="each")(x)
    x = block()(keras.ops.gelu(x))
    x = layers.Dropout(0.5, name="dropout")(x)
    x = layers.Dense(8, activation="softmax", name="gate")(x)
    x = layers.Dense(3, name="predictions")(x)
    return keras.Model(tokens, layers.Reshape((12,), name="flat")(x), name="network")


def block():
    """A network that is a layer of another."""
    inputs = keras.Input((4, 8))
    x = layers.Conv1D(8, 2, padding="same", name="conv")(inputs)
    return keras.Model(inputs, layers.BatchNormalization(name="norm")(x), name="block")


@pytest.fixture(scope="module")
def plain():
    return network()


def apply(model, policy, *overrides, device=None):
    """The model, its LayerPolicies, and the policies of its layers by path."""
    made = [Override(layers=pattern, dtype=dtype) for pattern, dtype in overrides]
    policies = layer_policies(Precision(policy=policy, overrides=tuple(made)), device)
    return (
        policies.apply(model),
        policies,
        {path: dtypes.policy for path, dtypes in policies.layers.items()},
    )


def part(model, path):
    """The layer at a path, found as Keras names its parts."""
    first, *rest = path.split("/")
    layer = model.get_layer(first)
    for name in rest:
        inner = layer.layers if isinstance(layer, keras.Model) else layer._flatten_layers(False)
        [layer] = [child for child in inner if child.name == name]
    return layer


ALWAYS_FLOAT32 = {
    "rescale": "float32",
    "gate": "float32",
    "predictions": "float32",
    "flat": "float32",
}
HALF = (
    "attention",
    "attention/query",
    "attention/attention_output",
    "lstm",
    "lstm/lstm_cell",
    "each",
    "each/each_dense",
    "block/conv",
)
NORMS = ("norm", "block/norm")


BY_POLICY = {  # matrix products, normalization, dropout, embedding table
    "mixed_float16": ("mixed_float16", "mixed_float16", "mixed_float16", "float32"),
    "mixed_bfloat16": ("mixed_bfloat16", "mixed_bfloat16", "mixed_bfloat16", "float32"),
    "float16": ("float16", "float16", "float16", "float16"),
    "bfloat16": ("bfloat16", "bfloat16", "bfloat16", "bfloat16"),
    "O1": ("mixed_float16", "float32", "float32", "float32"),
    "O2": ("mixed_float16", "float32", "mixed_float16", "float32"),
    "O3": ("float16", "float16", "float16", "float16"),
}


@pytest.mark.parametrize("policy", BY_POLICY)
def test_each_layer_has_the_dtypes_of_its_policy(plain, policy):
    half, norm, dropout, table = BY_POLICY[policy]
    model, _, assigned = apply(plain, policy)
    expected = ALWAYS_FLOAT32 | dict.fromkeys(HALF, half) | dict.fromkeys(NORMS, norm)
    expected |= {"dropout": dropout, "table": table}
    for path, name in expected.items():
        dtypes, layer = keras.DTypePolicy(name), part(model, path)
        assert assigned[path] == name
        assert (layer.compute_dtype, layer.variable_dtype) == (
            dtypes.compute_dtype,
            dtypes.variable_dtype,
        ), path
        floats = {v.dtype for v in layer._trainable_variables + layer._non_trainable_variables}
        assert floats <= {dtypes.variable_dtype, "int64", "uint32"}, path


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "float16", "O1"])
def test_layer_outputs_have_the_compute_dtype(plain, policy):
    model, *_ = apply(plain, policy)
    names = ("table", "attention", "norm", "lstm", "dropout", "gate", "predictions")
    made = [model.get_layer(name) for name in names]
    values = keras.Model(model.inputs, [layer.output for layer in made])(TOKENS)
    for layer, value in zip(made, values, strict=True):
        assert value.dtype == layer.compute_dtype, layer.name


@pytest.mark.parametrize("policy", ["mixed_float16", "bfloat16", "O2"])
def test_the_output_of_a_stateless_call_is_float32(plain, policy):
    model, *_ = apply(plain, policy)
    weights = [variable.value for variable in model.trainable_variables]
    non_trainable = [variable.value for variable in model.non_trainable_variables]
    outputs, _ = model.stateless_call(weights, non_trainable, TOKENS, training=True)
    assert outputs.dtype == model(TOKENS).dtype == tf.float32


def test_attention_computes_its_softmax_in_float32(plain):
    for policy in ("mixed_float16", "float16", "O1"):
        model, *_ = apply(plain, policy)
        assert model.get_layer("attention")._softmax.compute_dtype == "float32"


@pytest.mark.parametrize("policy", ["float32", "O0"])
def test_a_model_in_16_bits_computes_in_float32_again(policy):
    model, *_ = apply(network(), "float16")
    _, policies, _ = apply(model, policy)
    assert policies.compute_dtypes == frozenset()
    assert {layer.compute_dtype for layer in model._flatten_layers()} <= {"float32", "int32"}
    assert {one.dtype for one in model.variables} <= {"float32", "int64", "uint32"}


def test_the_global_dtype_policy_is_unchanged(plain):
    apply(plain, "mixed_float16")
    assert keras.config.dtype_policy().name == "float32"


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "O2", "float16", "bfloat16"])
def test_the_variables_stay_the_same_objects_with_rounded_values(policy):
    model = network()
    variables = model.variables
    before = [variable.numpy() for variable in variables]
    assert apply(model, policy)[0] is model
    for variable, old, new in zip(variables, before, model.variables, strict=True):
        assert new is variable
        expected = tf.cast(old, variable.dtype).numpy()
        np.testing.assert_array_equal(new.numpy(), expected, err_msg=new.path)


def test_the_same_seed_gives_the_same_weights_under_every_policy():
    found = []
    for policy in ("float32", "mixed_bfloat16", "O2"):
        keras.utils.set_random_seed(3)
        found.append([value.numpy() for value in apply(network(), policy)[0].variables])
    for values in zip(*found, strict=True):
        np.testing.assert_array_equal(values[0], values[1])
        np.testing.assert_array_equal(values[0], values[2])


def test_a_sequential_model_gets_its_dtypes():
    stack = keras.Sequential([keras.Input((8,)), layers.Dense(4, name="a"), layers.Dense(2)])
    model, *_ = apply(stack, "mixed_float16")
    assert model.get_layer("a").compute_dtype == "float16"
    assert model(tf.ones([1, 8])).dtype == tf.float32


def test_a_layer_that_is_called_twice_stays_one_layer():
    inputs, shared = keras.Input((8,)), layers.Dense(8, name="shared")
    model = keras.Model(inputs, layers.Dense(2)(shared(shared(inputs))))
    expected = model(tf.ones([1, 8]))
    apply(model, "mixed_float16")
    assert len(model.weights) == 4
    np.testing.assert_allclose(model(tf.ones([1, 8])), expected, atol=0.02)


def test_a_network_that_ends_in_an_operation_has_float32_outputs():
    inputs = keras.Input((8,))
    hidden = layers.Dense(8, name="hidden")(inputs)
    outputs = keras.ops.tanh(layers.Dense(8, name="last")(hidden)) * 2.0
    model, _, assigned = apply(keras.Model(inputs, outputs), "float16")
    assert assigned == {"hidden": "float16", "last": "float32"}
    assert model(tf.ones([1, 8])).dtype == tf.float32


def test_a_keras_application_gets_its_dtypes():
    shape = (32, 32, 3)
    model = keras.applications.MobileNetV3Small(shape, weights=None, classes=8, alpha=0.35)
    model, policies, assigned = apply(model, "mixed_bfloat16")
    # Keras numbers unnamed layers per process.
    kept = {re.sub(r"_\d+$", "", path) for path, name in assigned.items() if name == "float32"}
    assert kept == {"rescaling", "predictions"}
    assert model(tf.zeros([1, *shape])).dtype == tf.float32
    assert policies.compute_dtypes == {"bfloat16"}


def test_the_last_override_that_matches_wins(plain):
    overrides = [("conv|lstm", "float32"), ("lstm", "bfloat16"), ("^lstm$", "float16")]
    model, policies, assigned = apply(plain, "mixed_float16", *overrides)
    assert assigned["block/conv"] == "float32"
    assert assigned["lstm"] == "mixed_float16"
    assert assigned["lstm/lstm_cell"] == "mixed_bfloat16"
    assert part(model, "lstm/lstm_cell").compute_dtype == "bfloat16"
    assert policies.compute_dtypes == {"float16", "bfloat16"}


@pytest.mark.parametrize(
    ("base", "expected"),
    [("float32", "mixed_float16"), ("mixed_bfloat16", "mixed_float16"), ("bfloat16", "float16")],
)
def test_an_override_keeps_float32_weights_if_the_base_policy_has_them(plain, base, expected):
    model, _, assigned = apply(plain, base, ("conv", "float16"))
    assert assigned["block/conv"] == expected
    kernel = part(model, "block/conv").kernel
    assert kernel.dtype == keras.DTypePolicy(expected).variable_dtype


@pytest.mark.parametrize("base", ["mixed_float16", "float16"])
def test_sub_layers_follow_their_layer_unless_an_override_names_them(plain, base):
    model, _, assigned = apply(plain, base, ("^attention$", "bfloat16"), ("attention/q", "float32"))
    bfloat16 = "mixed_bfloat16" if base.startswith("mixed") else "bfloat16"
    assert assigned["attention"] == assigned["attention/key"] == bfloat16
    assert assigned["attention/query"] == "float32"
    assert part(model, "attention/query").kernel.dtype == "float32"
    assert part(model, "attention/key").kernel.dtype == keras.DTypePolicy(bfloat16).variable_dtype
    assert model(TOKENS).dtype == tf.float32


def test_unnamed_sub_layers_have_the_same_path_in_every_model(plain):
    again = apply(network(), "mixed_float16")[2]
    assert again == apply(plain, "mixed_float16")[2]
    assert {"attention/softmax", "attention/dropout", "lstm/lstm_cell"} <= set(again)


def test_an_override_of_a_nested_network_applies_to_all_its_layers(plain):
    _, policies, assigned = apply(plain, "mixed_float16", ("^block$", "float32"))
    policies.check_all_matched()
    assert assigned["block/conv"] == assigned["block/norm"] == "float32"


@pytest.mark.parametrize(
    ("pattern", "path", "reason"),
    [
        ("predictions", "predictions", "output"),
        ("gate", "gate", "softmax"),
        ("rescale", "rescale", "input"),
        ("table", "table", "embedding"),
    ],
)
def test_a_layer_that_stays_float32_despite_an_override_is_reported(plain, pattern, path, reason):
    model, policies, _ = apply(plain, "mixed_bfloat16", (pattern, "float16"))
    policies.check_all_matched()
    assert policies.layers[path].float32_reason == reason
    assert policies.layers[path].requested_16_bit
    assert model.get_layer(path).compute_dtype == "float32"
    assert policies.compute_dtypes == {"bfloat16"}


def test_an_override_that_matches_no_layer_is_refused_by_name(plain):
    _, policies, _ = apply(plain, "float32", ("conv", "float16"), ("cov_1", "float16"))
    with pytest.raises(InvalidModel) as caught:
        policies.check_all_matched()
    assert caught.value.field == "precision.overrides/1/layers"
    assert "attention" in caught.value.expected
    assert "cov_1" in caught.value.received


def test_an_override_may_match_in_any_of_several_networks(plain):
    overrides = (
        Override(layers="conv", dtype="float32"),
        Override(layers="critic", dtype="float32"),
    )
    policies = layer_policies(Precision(policy="mixed_float16", overrides=overrides))
    policies.apply(plain)
    policies.apply(keras.Sequential([keras.Input((2,)), layers.Dense(1, name="critic")]))
    policies.check_all_matched()


def test_an_override_can_name_a_layer_inside_a_bidirectional_layer():
    inputs = keras.Input((4, 8))
    both = layers.Bidirectional(layers.LSTM(4, name="lstm"), name="both")(inputs)
    model = keras.Model(inputs, layers.Dense(2)(both))
    model, *_ = apply(model, "bfloat16", ("backward", "float32"))
    assert model.get_layer("both").forward_layer.cell.kernel.dtype == "bfloat16"
    assert model.get_layer("both").backward_layer.cell.kernel.dtype == "float32"


def test_a_layer_that_is_applied_to_every_step_has_the_dtypes_of_its_wrapper():
    inputs = keras.Input((4, 6, 6, 3))
    each = layers.TimeDistributed(layers.Conv2D(4, 3, name="conv"), name="each")(inputs)
    flat = layers.TimeDistributed(layers.Flatten(), name="flat")(each)
    model = keras.Model(inputs, layers.LSTM(2, name="lstm")(flat))
    model, _, found = apply(model, "mixed_float16")
    assert found["each"] == found["each/conv"] == "mixed_float16"
    assert model.get_layer("each")(tf.ones((1, 4, 6, 6, 3))).dtype == "float16"
    model, _, found = apply(model, "mixed_float16", ("each", "float32"))
    assert found["each"] == found["each/conv"] == "float32"
    assert model.get_layer("each")(tf.ones((1, 4, 6, 6, 3))).dtype == "float32"
    policies = layer_policies(
        Precision(
            policy="mixed_float16", overrides=(Override(layers="each/conv", dtype="float32"),)
        )
    )
    policies.apply(model)
    with pytest.raises(InvalidModel, match="each/conv"):  # its dtype would have no effect
        policies.check_all_matched()


def test_an_override_reaches_a_sub_layer_whose_dtype_its_layer_fixes():
    model, *_ = apply(Custom.network(), "float16", ("own", "float32"))
    assert model.get_layer("custom").own.kernel.dtype == "float32"
    assert model.get_layer("custom").own.compute_dtype == "float32"


def test_a_layer_that_computes_with_two_dtypes_is_named_and_the_model_stays_as_it_was():
    class Shift(layers.Layer):
        def call(self, inputs):
            return inputs + tf.ones_like(inputs, tf.float32)

    inputs = keras.Input((4,))
    hidden = Shift(name="shift")(layers.Dense(4, name="hidden")(inputs))
    model = keras.Model(inputs, layers.Dense(2)(hidden))
    for policy in ("mixed_float16", "bfloat16"):
        with pytest.raises(InvalidModel, match=r"\^shift\$.*float32 that does not match"):
            apply_policy(model, policy)
        assert {layer.compute_dtype for layer in model.layers} == {"float32"}
        assert {variable.dtype for variable in model.variables} == {"float32"}
    apply_policy(model, "mixed_float16", [{"layers": "^shift$", "dtype": "float32"}])
    assert model(tf.ones([1, 4])).dtype == tf.float32


def test_a_policy_replaces_what_an_earlier_one_has_installed():
    model = a_network()
    inputs = tf.fill([2, 4], 1.001)
    expected = model(inputs)
    roles = [{"layers": "hidden", "dtype": "bfloat16", "roles": ["forward"]}]
    apply_policy(model, "float32", roles)
    assert (model(inputs) != expected).numpy().any()
    apply_policy(model, "float32")
    np.testing.assert_array_equal(model(inputs), expected)


class Custom(layers.Layer):
    """A layer that fixes the dtype of its sub-layer."""

    def build(self, shape):
        self.own = layers.Dense(4, dtype="float16", name="own")
        self.own.build(shape)

    def call(self, inputs):
        return self.own(inputs)

    @classmethod
    def network(cls):
        inputs = keras.Input((8,))
        return keras.Model(inputs, layers.Dense(2)(cls(name="custom")(inputs)))


@pytest.mark.parametrize(
    ("device", "policy"),
    [
        (BFLOAT16_CPU, "mixed_bfloat16"),
        (DeviceInfo("cpu", features=frozenset({"amx_bf16"})), "mixed_bfloat16"),
        (DeviceInfo("cpu", features=frozenset({"avx512f"})), "float32"),
        (DeviceInfo("gpu", compute_capability=(9, 0)), "mixed_bfloat16"),
        (DeviceInfo("gpu", compute_capability=(8, 0)), "mixed_bfloat16"),
        (DeviceInfo("gpu", compute_capability=(7, 5)), "mixed_float16"),
        (DeviceInfo("gpu", compute_capability=(7, 0)), "mixed_float16"),
        (DeviceInfo("gpu", compute_capability=(6, 1)), "float32"),
        (None, "float32"),
    ],
)
def test_auto_resolves_to_a_policy_that_the_device_computes_fast(device, policy):
    assert layer_policies(Precision(policy="auto"), device).name == policy


def test_auto_applies_the_resolved_policy_to_the_layers(plain):
    model, policies, _ = apply(plain, "auto", device=BFLOAT16_CPU)
    assert model.get_layer("lstm").compute_dtype == "bfloat16"
    assert policies.compute_dtypes == {"bfloat16"}


def a_network():
    inputs = keras.Input((4,))
    hidden = keras.layers.Dense(8, activation="relu", name="hidden")(inputs)
    return keras.Model(inputs, keras.layers.Dense(3, name="logits")(hidden))


def test_a_policy_is_applied_to_a_persons_own_model():
    model = a_network()
    inputs = tf.fill([2, 4], 1.001)
    in_float32 = model.predict(inputs, verbose=0)
    assert apply_policy(model, "mixed_float16") is model
    assert {layer.name: layer.compute_dtype for layer in model.layers[1:]} == {
        "hidden": "float16",
        "logits": "float32",
    }
    rounded = model.predict(inputs, verbose=0)  # traced again
    assert (rounded != in_float32).any()
    np.testing.assert_allclose(rounded, in_float32, atol=0.01)


def test_overrides_of_a_persons_own_model_are_mappings():
    converted = apply_policy(
        a_network(), "mixed_bfloat16", [{"layers": "^hidden$", "dtype": "float32"}]
    )
    assert converted.get_layer("hidden").compute_dtype == "float32"


def test_an_invalid_policy_or_override_names_its_field():
    with pytest.raises(SpecValidationError, match="policy"):
        apply_policy(a_network(), "float8")
    with pytest.raises(SpecValidationError, match="overrides/0/dtype"):
        apply_policy(a_network(), overrides=[{"layers": "hidden", "dtype": "int8"}])
    with pytest.raises(InvalidModel, match="at least one layer"):
        apply_policy(a_network(), overrides=[{"layers": "nothing", "dtype": "float32"}])


@pytest.mark.parametrize("model", [keras.Sequential([keras.layers.Dense(2)]), object()])
def test_a_model_without_variables_is_refused(model):
    with pytest.raises(InvalidModel, match=r"model: expected a built keras\.Model"):
        apply_policy(model)
