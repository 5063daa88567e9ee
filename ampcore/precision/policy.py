"""A Keras dtype policy for every layer: the spec's policy, its level, and its overrides."""

import copy
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import keras
from pydantic import ValidationError

from ampcore.errors import InvalidModel
from ampcore.precision import float16_on_cpu
from ampcore.precision.float8_products import Float8Scaling
from ampcore.precision.in_place import InPlaceDtypes
from ampcore.precision.layer_paths import (
    LayerEntry,
    applied_layer,
    children,
    is_network,
    layers_of_outputs,
    walk_layers,
)
from ampcore.precision.layer_products import LayerProducts
from ampcore.precision.model_copy import (
    assign_values,
    build_subclassed,
    clone_network,
    layer_from_config,
    recreate_subclassed,
)
from ampcore.spec.devices import DeviceInfo
from ampcore.spec.layer_dtypes import (
    Float32Reason,
    LayerDtypes,
    layer_dtypes,
    matching_override,
    resolve_policy,
)
from ampcore.spec.precision import Override, Policy, Precision
from ampcore.spec.problems import SpecValidationError, from_pydantic
from ampcore.spec.product_dtypes import ProductDtypes, has_products
from ampcore.spec.text import join_names

ALWAYS_FLOAT32: Final[frozenset[Float32Reason]] = frozenset(
    {"output", "softmax", "input", "embedding"}
)
"""The reasons for which a layer stays in float32 regardless of the spec."""

MAX_PATHS: Final = 12
"""The maximum number of layer paths in a message."""

ORTHOGONAL_INITIALIZERS: Final = ("Orthogonal", "OrthogonalInitializer")
"""TensorFlow has no QR decomposition in bfloat16; the values are copied into the clone anyway."""

Layer = Any
Model = Any


def apply_policy(
    model: Model,
    policy: Policy = "mixed_float16",
    overrides: Sequence[Override | Mapping[str, Any]] = (),
    *,
    device: DeviceInfo | None = None,
    example: Any = None,
) -> Model:
    """A copy of a Keras model that computes in a precision policy.

        model = ampcore.apply_policy(
            model, "mixed_float16", [{"layers": "^logits$", "dtype": "float32"}]
        )

    Outputs, softmax, embeddings and inputs stay in float32, as in a job; an override changes the
    layers whose path matches its regular expression, and the last match wins.

    Args:
        model: A built keras.Model in float32, nested ones included.
        policy: A policy of Keras (`mixed_float16`, `mixed_bfloat16`, `float16`, `bfloat16`,
            `float32`), an optimization level (`O0` to `O3`), or `auto`: the best one for `device`.
        overrides: Mappings with `layers`, a regular expression, and `dtype`: `float32`,
            `float16` or `bfloat16`; with `roles`, only for these products of the layers.
        device: What the model will run on; None: a device that computes in all dtypes.
        example: Inputs of one or more examples, for a subclassed model: they tell which layers
            compute its outputs. Without them the last layer counts as the output.

    Returns:
        A clone with the same weights, rounded where they are stored in 16 bits; the model itself
        if nothing changes.

    Raises:
        SpecValidationError: The policy or an override is invalid.
        InvalidModel: The model is not built or cannot be created again, or an override matches no
            layer, or one that cannot follow it.

    Source: the rules are those of a job's spec, docs/reference/spec.md, "precision".
    """
    if not (isinstance(model, keras.Model) and model.variables):
        raise InvalidModel(
            "model",
            expected="a built keras.Model; call it on an example, or begin it with keras.Input",
            received=type(model).__name__,
        )
    policies = layer_policies(_precision(policy, overrides), device)
    converted = policies.apply(model, example)
    policies.check_all_matched()
    return converted


def _precision(policy: str, overrides: Sequence[Override | Mapping[str, Any]]) -> Precision:
    given = [dict(one) if isinstance(one, Mapping) else one.model_dump() for one in overrides]
    try:
        return Precision.model_validate({"policy": policy, "overrides": given})
    except ValidationError as error:
        raise SpecValidationError(from_pydantic(error, Precision)) from None


def layer_policies(precision: Precision, device: DeviceInfo | None = None) -> "LayerPolicies":
    """The dtype policies of a spec, with `auto` resolved for the device."""
    on_cpu = device is not None and device.kind == "cpu"
    has_float8 = device is not None and device.has_float8
    return LayerPolicies(precision, resolve_policy(precision.policy, device), on_cpu, has_float8)


@dataclass
class LayerPolicies:
    """Sets the dtypes of the layers of a run's networks, and records them."""

    precision: Precision
    name: str
    """The policy, with `auto` resolved."""
    on_cpu: bool = False
    """Whether float16 layers get the workarounds for CPUs."""
    has_float8: bool = False
    """Whether the device multiplies 8-bit numbers; otherwise float8 is emulated."""
    layers: dict[str, LayerDtypes] = field(default_factory=dict)
    """The dtypes by layer path, of every network so far; `attention/query` is a sub-layer."""
    _paths: set[str] = field(default_factory=set)
    _paths_with_products: set[str] = field(default_factory=set)
    """Those that overrides of products match."""

    def apply(self, model: Model, example: Any = None) -> Model:
        """The same network with the dtypes of this policy; Keras's global policy is not changed.

        Args:
            model: A built keras.Model in float32, nested ones included.
            example: Inputs of one or more examples, for a subclassed model: they tell which layers
                compute its outputs. Without them the last layer counts as the output.

        Returns:
            A clone with the same weights, rounded if they are stored in 16 bits; the model itself
            if nothing changes.

        Raises:
            InvalidModel: An override of a sub-layer that its layer cannot follow.
        """
        outputs = None if is_network(model) else layers_of_outputs(model, example)
        found = list(walk_layers(model, outputs))
        wanted = self._assign(found)
        if all(_is_plain_float32(dtypes) for dtypes in wanted.values()):
            return model
        if is_network(model):
            clone = clone_network(model, lambda layer: _clone_with_policy(layer, wanted))
        else:
            clone = recreate_subclassed(model)
            # Before they are built: with 16-bit weights the policy decides the variables.
            self._set_policies(found, clone, wanted)
            build_subclassed(clone, model, example)
        self._set_policies(found, clone, wanted)
        assign_values(model, clone)
        return clone

    def in_place(self, model: Model, example: Any = None) -> InPlaceDtypes:
        """The dtypes of this policy for the layers of a model that cannot be created again.

        Raises:
            InvalidModel: The policy stores weights in 16 bits.
        """
        found = list(walk_layers(model, layers_of_outputs(model, example)))
        wanted = self._assign(found)
        for entry in found:
            dtypes = wanted[id(entry.layer)]
            if dtypes.variable_dtype != "float32" and entry.layer.variables:
                raise InvalidModel(
                    "precision.policy",
                    expected="a policy with float32 weights, such as mixed_"
                    f"{dtypes.compute_dtype}, for a subclassed model without a get_config",
                    received=self.name,
                )
        rows = [(entry.layer, wanted[id(entry.layer)]) for entry in found]
        return InPlaceDtypes(
            [(layer, dtypes.policy) for layer, dtypes in rows if dtypes.policy != "float32"],
            [
                self._products(entry.layer, entry.info.path, dtypes.products, dtypes.compute_dtype)
                for entry in found
                if (dtypes := wanted[id(entry.layer)]).products is not None
                and applied_layer(entry.layer) is entry.layer
            ],
        )

    def _set_policies(
        self, found: list[LayerEntry], clone: Model, wanted: dict[int, LayerDtypes]
    ) -> None:
        """Give the layers of a clone the dtypes wanted for those of the model.

        A sub-layer that its parent creates gets no dtype from a config.
        """
        layers = {entry.info.path: entry.layer for entry in found}
        for made in walk_layers(clone, set()):
            original = layers.get(made.info.path)
            if original is None:
                continue
            self._set_policy(made.layer, made.info.path, wanted[id(original)])
            if self.on_cpu:
                float16_on_cpu.use_float32_kernel_gradient(made.layer)
            products = wanted[id(original)].products
            if products is not None and applied_layer(made.layer) is made.layer:
                self._products(
                    made.layer, made.info.path, products, made.layer.compute_dtype
                ).install()

    def _products(
        self, layer: Layer, path: str, dtypes: ProductDtypes, compute_dtype: str
    ) -> LayerProducts:
        scaling = None
        if "float8" in dtypes.all:
            scaling = Float8Scaling(path, self.precision.float8, native=self.has_float8)
        return LayerProducts.of(layer, dtypes, compute_dtype, scaling)

    @property
    def compute_dtypes(self) -> frozenset[str]:
        """The 16-bit dtypes that some layer, or a product of it, computes in."""
        found: set[str] = {dtypes.compute_dtype for dtypes in self.layers.values()}
        for dtypes in self.layers.values():
            found.update(dtypes.products.all if dtypes.products is not None else ())
        return frozenset(found) - {"float32", "float8"}

    @property
    def kept_float32(self) -> dict[str, LayerDtypes]:
        """By path, the layers that stayed in float32 regardless of the spec."""
        return {
            path: dtypes
            for path, dtypes in self.layers.items()
            if dtypes.float32_reason in ALWAYS_FLOAT32
        }

    def check_all_matched(self) -> None:
        """Check that every override matches a layer, once `apply` has seen every network.

        Raises:
            InvalidModel: An override whose regular expression no layer's path matches.
        """
        for index, override in enumerate(self.precision.overrides):
            whole = override.is_of_whole_layer
            kind = "layer" if whole else "dense layer or convolution of Keras"
            paths = self._paths if whole else self._paths_with_products
            if not any(re.search(override.layers, path) for path in paths):
                raise InvalidModel(
                    f"precision.overrides/{index}/layers",
                    expected=f"a regular expression found in the path of at least one {kind} "
                    f"({join_names(self.layers if whole else sorted(paths), MAX_PATHS)})",
                    received=repr(override.layers),
                )

    def _assign(self, found: list[LayerEntry]) -> dict[int, LayerDtypes]:
        wanted: dict[int, LayerDtypes] = {}
        for entry in found:
            parent = wanted.get(id(entry.parent))
            if parent is not None and applied_layer(entry.parent) is entry.layer:
                wanted[id(entry.layer)] = self.layers[entry.info.path] = parent
                continue
            paths = (entry.info.path, *entry.ancestors)
            self._paths.update(paths)
            if has_products(entry.info):
                self._paths_with_products.update(paths)
            own = layer_dtypes(self.precision, self.name, entry.info, entry.ancestors)
            # Parts of a layer with matrix products compute in its dtype: dropout in attention.
            softmax = entry.info.softmax
            if own.float32_reason == "level" and not softmax and parent is not None:
                own = parent
            wanted[id(entry.layer)] = self.layers[entry.info.path] = own
        return wanted

    def _set_policy(self, layer: Layer, path: str, dtypes: LayerDtypes) -> None:
        if (layer.compute_dtype, layer.variable_dtype) == (
            dtypes.compute_dtype,
            dtypes.variable_dtype,
        ):
            return
        if layer.variable_dtype != dtypes.variable_dtype and layer.variables:
            raise InvalidModel(
                f"precision.overrides/{matching_override(self.precision, path)}/layers",
                expected="the path of a layer whose weights can be stored in "
                f"{dtypes.variable_dtype} on their own",
                received=f"{path}, whose weights are created by its parent layer",
            )
        layer.dtype_policy = keras.DTypePolicy(dtypes.policy)


def _is_plain_float32(dtypes: LayerDtypes) -> bool:
    return dtypes.policy == "float32" and dtypes.products is None


def _clone_with_policy(layer: Layer, wanted: dict[int, LayerDtypes]) -> Layer:
    """An unbuilt copy of this layer with its new dtypes."""
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
