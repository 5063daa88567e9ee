"""What a saved model needs so that Keras creates each layer again with its dtypes.

Keras reads the dtypes of sub-layers that a layer creates itself from a map in the layer's config.
"""

from collections.abc import Sequence
from typing import Any, Final

import keras

from ampcore.keras_internals import flatten_layers
from ampcore.precision.layers.layer_paths import LayerEntry, is_network
from ampspec.precision.layer_dtypes import LayerDtypes

ORTHOGONAL: Final = keras.initializers.Orthogonal
"""TensorFlow has no QR decomposition in bfloat16; the saved values replace the initial ones."""

Layer = Any


def policy_maps(rows: Sequence[tuple[LayerEntry, LayerDtypes]]) -> list[tuple[Layer, Any]]:
    """The layers whose sub-layers store weights in another dtype, each with a map of policies."""
    dtypes_by_id = {id(entry.layer): dtypes for entry, dtypes in rows}
    maps: list[tuple[Layer, Any]] = []
    for entry, dtypes in rows:
        if is_network(entry.layer):
            continue
        part_policies = {
            part.path: keras.DTypePolicy(dtypes_by_id[id(part)].policy)
            for part in flatten_layers(entry.layer, include_self=False)
            if part.path
            and id(part) in dtypes_by_id
            and dtypes_by_id[id(part)].variable_dtype != dtypes.variable_dtype
        }
        if part_policies:
            policy = keras.DTypePolicy(dtypes.policy)
            maps.append((entry.layer, keras.dtype_policies.DTypePolicyMap(policy, part_policies)))
    return maps


def creatable_initializers(
    rows: Sequence[tuple[LayerEntry, LayerDtypes]],
) -> list[tuple[Layer, str, Any]]:
    """The initializers that fail in a layer's new dtype: layer, attribute, and what replaces it."""
    return [
        (entry.layer, name, keras.initializers.Zeros())
        for entry, dtypes in rows
        if dtypes.variable_dtype == "bfloat16"
        for name, value in vars(entry.layer).items()
        if isinstance(value, ORTHOGONAL)
    ]
