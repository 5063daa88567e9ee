import pytest

from ampspec.jobs import JobSpec, SpecValidationError
from ampspec.precision.layer_dtypes import LayerInfo, layer_dtypes
from ampspec.precision.precision import DynamicScale, Precision, default_loss_scale
from ampspec.precision.product_dtypes import ProductDtypes

DENSE = LayerInfo("block/dense", "Dense")
ONLY_WEIGHTS = {"layers": "dense", "dtype": "float32", "roles": ["weight_gradient"]}
BACKWARD = {"layers": "dense", "dtype": "float16", "roles": ["input_gradient", "weight_gradient"]}
WHOLE = {"layers": "block", "dtype": "bfloat16"}


def dtypes_of(*overrides, layer=DENSE, policy="mixed_float16", ancestors=("block",)):
    return layer_dtypes(Precision(policy=policy, overrides=overrides), policy, layer, ancestors)


def test_an_override_of_a_role_changes_that_product_alone():
    dtypes = dtypes_of(ONLY_WEIGHTS)
    assert dtypes.products == ProductDtypes("float16", "float16", "float32")
    assert dtypes.compute_dtype == "float16"


def test_without_roles_there_are_no_products_of_their_own():
    assert dtypes_of().products is None
    assert dtypes_of(WHOLE).products is None
    # Nor where they change nothing.
    assert dtypes_of(BACKWARD).products is None


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        ((WHOLE, ONLY_WEIGHTS), ProductDtypes("bfloat16", "bfloat16", "float32")),
        ((ONLY_WEIGHTS, WHOLE), None),
        ((ONLY_WEIGHTS, BACKWARD, WHOLE), None),
        ((WHOLE, ONLY_WEIGHTS, BACKWARD), ProductDtypes("bfloat16", "float16", "float16")),
        ((WHOLE, BACKWARD, ONLY_WEIGHTS), ProductDtypes("bfloat16", "float16", "float32")),
    ],
)
def test_the_last_override_of_each_product_wins(overrides, expected):
    assert dtypes_of(*overrides).products == expected


def test_roles_of_an_ancestor_apply_to_the_layers_inside():
    override = ONLY_WEIGHTS | {"layers": "^block$"}
    assert dtypes_of(override).products == ProductDtypes("float16", "float16", "float32")
    # Its own path decides, if an override matches it.
    own = ONLY_WEIGHTS | {"layers": "^block/dense$", "roles": ["forward"]}
    assert dtypes_of(override, own).products == ProductDtypes("float32", "float16", "float16")


@pytest.mark.parametrize(
    "layer",
    [
        LayerInfo("dense", "LayerNormalization"),
        LayerInfo("dense", "Dense", own_call=True),
        LayerInfo("dense", "LSTM"),
    ],
)
def test_other_layers_ignore_roles(layer):
    assert dtypes_of(ONLY_WEIGHTS, layer=layer).products is None


def test_the_products_of_outputs_are_never_16_bit():
    output = LayerInfo("dense", "Dense", output=True)
    assert dtypes_of(BACKWARD, layer=output, policy="float32").products is None


def test_a_float16_product_has_a_dynamic_loss_scale():
    assert default_loss_scale(Precision(overrides=[BACKWARD])) == DynamicScale()


@pytest.mark.parametrize("roles", [[], ["backward"], ["forward", "forward"]])
def test_invalid_roles_are_refused_with_their_pointer(roles):
    precision = {"overrides": [{"layers": "a", "dtype": "float32", "roles": roles}]}
    spec = {"model": {"kind": "mlp"}, "data": {"kind": "digits"}, "precision": precision}
    with pytest.raises(SpecValidationError) as caught:
        JobSpec.parse(spec)
    assert caught.value.problems[0].pointer.startswith("/precision/overrides/0/roles")
