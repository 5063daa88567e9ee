"""Clones a layer from its config with other dtypes, also of the layers inside it."""

import copy
from typing import Any, Final

import keras

from ampcore.precision.layer_paths import children
from ampcore.precision.model_copy import layer_from_config
from ampcore.spec.layer_dtypes import LayerDtypes

ORTHOGONAL_INITIALIZERS: Final = ("Orthogonal", "OrthogonalInitializer")
"""TensorFlow has no QR decomposition in bfloat16; the values are copied into the clone anyway."""

Layer = Any


def clone_with_policy(layer: Layer, wanted: dict[int, LayerDtypes]) -> Layer:
    """An unbuilt copy of a layer with its new dtypes.

    Args:
        layer: A layer or an operation.
        wanted: The dtypes of the layer and those inside it, by `id`.
    """
    if not isinstance(layer, keras.layers.Layer):
        return layer  # an operation has neither weights nor a dtype of its own
    config = _config(copy.deepcopy(layer.get_config()), layer, wanted)
    return layer_from_config(layer, config)


def _config(config: dict[str, Any], layer: Layer, wanted: dict[int, LayerDtypes]) -> dict[str, Any]:
    """A layer's config with its dtype, and the dtypes of the layers in its config."""
    inside = {child.name: child for child in children(layer)}

    def rewrite(value: Any) -> Any:
        if isinstance(value, list | tuple):
            return type(value)(map(rewrite, value))
        if not isinstance(value, dict):
            return value
        if (
            value.get("class_name") in ORTHOGONAL_INITIALIZERS
            and wanted[id(layer)].variable_dtype == "bfloat16"
        ):
            return "zeros"
        inner = value.get("config")
        if isinstance(inner, dict) and "dtype" in inner:
            return value | {"config": _config(inner, inside.get(inner.get("name"), layer), wanted)}
        return {key: rewrite(item) for key, item in value.items()}

    rewritten = {key: value if key == "dtype" else rewrite(value) for key, value in config.items()}
    policy = keras.dtype_policies.serialize(_policy(layer, wanted))
    return rewritten | {"dtype": policy} if "dtype" in config else rewritten


def _policy(layer: Layer, wanted: dict[int, LayerDtypes]) -> Any:
    """The dtype policy of a layer; a map where sub-layers keep weights of another dtype."""
    own = wanted[id(layer)]
    others = {
        part.path: keras.DTypePolicy(wanted[id(part)].policy)
        for part in layer._flatten_layers(include_self=False)
        if part.path and wanted[id(part)].variable_dtype != own.variable_dtype
    }
    policy = keras.DTypePolicy(own.policy)
    return keras.dtype_policies.DTypePolicyMap(policy, others) if others else policy
