import pytest

from ampspec.precision.devices import DeviceInfo
from ampspec.precision.layer_dtypes import (
    LayerInfo,
    layer_dtypes,
    matching_override,
    resolve_policy,
)
from ampspec.precision.precision import Precision

DENSE = LayerInfo("dense_1", "Dense")
NORM = LayerInfo("norm_1", "BatchNormalization")


def dtypes(policy, layer, *overrides):
    chosen = [{"layers": layers, "dtype": dtype} for layers, dtype in overrides]
    found = layer_dtypes(Precision(policy=policy, overrides=chosen), policy, layer)
    return found.compute_dtype, found.variable_dtype


@pytest.mark.parametrize(
    ("policy", "dense", "norm"),
    [
        ("float32", "float32", "float32"),
        ("mixed_float16", "mixed_float16", "mixed_float16"),
        ("mixed_bfloat16", "mixed_bfloat16", "mixed_bfloat16"),
        ("float16", "float16", "float16"),
        ("bfloat16", "bfloat16", "bfloat16"),
        ("O0", "float32", "float32"),
        ("O1", "mixed_float16", "float32"),
        ("O2", "mixed_float16", "float32"),
        ("O3", "float16", "float16"),
    ],
)
def test_a_policy_sets_the_dtypes_of_dense_and_normalization_layers(policy, dense, norm):
    precision = Precision(policy=policy)
    assert layer_dtypes(precision, policy, DENSE).policy == dense
    assert layer_dtypes(precision, policy, NORM).policy == norm


@pytest.mark.parametrize(
    ("layer", "reason"),
    [
        (LayerInfo("predictions", "Dense", output=True), "output"),
        (LayerInfo("attention/softmax", "Softmax", softmax=True), "softmax"),
        (LayerInfo("resize", "Resizing"), "input"),
    ],
)
@pytest.mark.parametrize("policy", ["mixed_float16", "O3", "bfloat16", "float32"])
def test_input_output_and_softmax_layers_stay_float32_despite_an_override(layer, reason, policy):
    precision = Precision(policy=policy, overrides=[{"layers": ".", "dtype": "float16"}])
    found = layer_dtypes(precision, policy, layer)
    assert (found.policy, found.float32_reason, found.requested_16_bit) == ("float32", reason, True)


def test_an_embedding_table_is_16_bit_only_under_policies_with_16_bit_weights():
    table = LayerInfo("embedding", "Embedding")
    assert dtypes("mixed_float16", table) == ("float32", "float32")
    assert dtypes("float16", table) == ("float16", "float16")


def test_the_last_override_that_matches_wins():
    overrides = [("dense", "bfloat16"), ("_1$", "float32"), ("conv", "float16")]
    assert dtypes("mixed_float16", DENSE, *overrides) == ("float32", "float32")
    assert dtypes("mixed_float16", LayerInfo("dense_2", "Dense"), *overrides)[0] == "bfloat16"
    chosen = [{"layers": layers, "dtype": dtype} for layers, dtype in overrides]
    assert matching_override(Precision(overrides=chosen), "dense_1") == 1
    assert matching_override(Precision(overrides=chosen), "pool") is None


@pytest.mark.parametrize(
    ("policy", "weights"), [("float32", "float32"), ("O2", "float32"), ("float16", "bfloat16")]
)
def test_an_override_keeps_float32_weights_unless_the_policy_has_16_bit_weights(policy, weights):
    assert dtypes(policy, DENSE, ("dense", "bfloat16")) == ("bfloat16", weights)


@pytest.mark.parametrize(
    ("device", "policy"),
    [
        (None, "float32"),
        (DeviceInfo("cpu"), "float32"),
        (DeviceInfo("cpu", features=frozenset({"avx512_bf16"})), "mixed_bfloat16"),
        (DeviceInfo("gpu", compute_capability=(6, 0)), "float32"),
        (DeviceInfo("gpu", compute_capability=(7, 5)), "mixed_float16"),
        (DeviceInfo("gpu", compute_capability=(9, 0)), "mixed_bfloat16"),
        (DeviceInfo("xpu"), "mixed_bfloat16"),
    ],
)
def test_auto_resolves_to_a_policy_that_the_device_computes_fast(device, policy):
    assert resolve_policy("auto", device) == policy
    assert resolve_policy("O2", device) == "O2"
