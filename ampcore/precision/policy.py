"""A Keras dtype policy for every layer: the spec's policy, its level, and its overrides."""

import copy
import re
from dataclasses import dataclass, field, replace
from typing import Any, Final

import keras

from ampcore.errors import InvalidModel
from ampcore.precision import float16_on_cpu
from ampcore.precision.places import Place, children, places
from ampcore.spec.devices import DeviceFacts
from ampcore.spec.layer_dtypes import (
    Kept,
    LayerDtypes,
    layer_dtypes,
    matching_override,
    settled_policy,
)
from ampcore.spec.precision import Precision

FORCED: Final[frozenset[Kept]] = frozenset({"output", "softmax", "input", "embedding"})
"""Why a layer stays in float32 whatever the spec says of it."""

ORTHOGONAL: Final = ("Orthogonal", "OrthogonalInitializer")
"""TensorFlow has no QR decomposition in bfloat16; the values are copied into the clone anyway."""

Layer = Any
Model = Any


def layer_policies(precision: Precision, device: DeviceFacts | None = None) -> "LayerPolicies":
    """The policies that a spec asks for on a device, which settles what `auto` is."""
    on_cpu = device is not None and device.kind == "cpu"
    return LayerPolicies(precision, settled_policy(precision.policy, device), on_cpu)


@dataclass
class LayerPolicies:
    """Gives the layers of a run's networks their dtypes, and remembers which it gave."""

    precision: Precision
    name: str
    """The policy; `auto` has been settled."""
    on_cpu: bool = False
    """Whether float16 layers get what they need there."""
    layers: dict[str, LayerDtypes] = field(default_factory=dict)
    """The dtypes by layer path of every network so far; `attention/query` is a sub-layer."""
    _paths: set[str] = field(default_factory=set)

    def apply(self, model: Model) -> Model:
        """The same network, its weights' values included, with the dtypes asked for.

        `model` is a functional or sequential keras.Model in float32, nested ones included; the
        result is a clone, or the model itself where nothing is to be changed. Weights kept in 16
        bits are rounded from the float32 ones. Keras's global policy is left alone.
        Raises InvalidModel for an override of a sub-layer that its layer cannot follow.
        """
        found = list(places(model))
        wanted = self._assign(found)
        if all(dtypes.policy == "float32" for dtypes in wanted.values()):
            return model
        clone = keras.models.clone_model(
            model, clone_function=lambda layer: _retyped(layer, wanted), recursive=True
        )
        # A sub-layer that its layer makes itself has no config to say it in.
        for place, made in zip(found, places(clone), strict=True):
            self._settle(made.layer, place.facts.path, wanted[id(place.layer)])
            if self.on_cpu:
                float16_on_cpu.ease(made.layer)
        _copy_values(model, clone)
        return clone

    @property
    def compute_dtypes(self) -> frozenset[str]:
        """The 16-bit dtypes that some layer computes in."""
        return frozenset(dtypes.compute for dtypes in self.layers.values()) - {"float32"}

    @property
    def kept_float32(self) -> dict[str, LayerDtypes]:
        """By path, the layers that stayed in float32 although the spec said otherwise."""
        return {path: dtypes for path, dtypes in self.layers.items() if dtypes.kept in FORCED}

    def check_all_matched(self) -> None:
        """Raise InvalidModel for an override whose regular expression no layer's path matches.

        To be called when every network has been through `apply`.
        """
        for index, override in enumerate(self.precision.overrides):
            if not any(re.search(override.layers, path) for path in self._paths):
                raise InvalidModel(
                    f"precision.overrides/{index}/layers",
                    expected="a regular expression found in the path of at least one layer "
                    f"({_listed(list(self.layers))})",
                    received=repr(override.layers),
                )

    def _assign(self, found: list[Place]) -> dict[int, LayerDtypes]:
        wanted: dict[int, LayerDtypes] = {}
        for place in found:
            self._paths.update((place.facts.path, *place.ancestors))
            own = self._dtypes(place)
            parent = wanted.get(id(place.parent))
            # What is part of a matrix product's layer computes as it does: dropout in attention.
            softmax = place.facts.softmax
            if own.kept == "level" and not softmax and parent is not None:
                own = parent
            wanted[id(place.layer)] = self.layers[place.facts.path] = own
        return wanted

    def _dtypes(self, place: Place) -> LayerDtypes:
        """The dtypes of one layer; where no override names it, its ancestors' overrides count."""
        paths = [place.facts.path, *place.ancestors]
        named = (path for path in paths if matching_override(self.precision, path) is not None)
        facts = replace(place.facts, path=next(named, place.facts.path))
        return layer_dtypes(self.precision, self.name, facts)

    def _settle(self, layer: Layer, path: str, dtypes: LayerDtypes) -> None:
        if (layer.compute_dtype, layer.variable_dtype) == (dtypes.compute, dtypes.variable):
            return
        if layer.variable_dtype != dtypes.variable and layer.variables:
            raise InvalidModel(
                f"precision.overrides/{matching_override(self.precision, path)}/layers",
                expected=f"the path of a layer whose weights can be {dtypes.variable} alone",
                received=f"{path}, whose weights are made by the layer around it",
            )
        layer.dtype_policy = keras.DTypePolicy(dtypes.policy)


def _retyped(layer: Layer, wanted: dict[int, LayerDtypes]) -> Layer:
    """A layer like this one, not built yet, with the dtypes that are wanted of it."""
    if not isinstance(layer, keras.layers.Layer):
        return layer  # an operation has neither weights nor a dtype of its own
    config = _config(copy.deepcopy(layer.get_config()), layer, wanted)
    return type(layer).from_config(config)


def _config(config: dict[str, Any], layer: Layer, wanted: dict[int, LayerDtypes]) -> dict[str, Any]:
    """A layer's config with its dtype, and those of the layers that it is configured with."""
    inside = {child.name: child for child in children(layer)}

    def rewrite(value: Any) -> Any:
        if isinstance(value, list | tuple):
            return type(value)(map(rewrite, value))
        if not isinstance(value, dict):
            return value
        if value.get("class_name") in ORTHOGONAL and wanted[id(layer)].variable == "bfloat16":
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
        if part.path and wanted[id(part)].variable != own.variable
    }
    policy = keras.DTypePolicy(own.policy)
    return keras.dtype_policies.DTypePolicyMap(policy, others) if others else policy


def _copy_values(source: Model, target: Model) -> None:
    # An initializer without a seed draws a new one for the clone.
    for old, new in zip(source.variables, target.variables, strict=True):
        new.assign(keras.ops.cast(old.value, new.dtype))


def _listed(names: list[str], most: int = 12) -> str:
    return ", ".join(names[:most]) + (", …" if len(names) > most else "")
