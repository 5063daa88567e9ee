"""A Keras dtype policy for every layer: the spec's policy, its level, and its overrides."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

import keras
import tensorflow as tf
from pydantic import ValidationError

from ampcore.keras_internals import flatten_layers
from ampcore.precision import float16_on_cpu
from ampcore.precision.layers.dtype_conflict import explain_dtype_conflict
from ampcore.precision.layers.float8_products import Float8Scaling
from ampcore.precision.layers.in_place import InPlaceDtypes
from ampcore.precision.layers.layer_paths import (
    LayerEntry,
    applied_layer,
    children,
    computes_itself,
    is_network,
    layers_of_outputs,
    walk_layers,
)
from ampcore.precision.layers.layer_products import LayerProducts, has_installed_call
from ampcore.precision.layers.saved_layers import creatable_initializers, policy_maps
from ampcore.precision.layers.weight_storage import (
    FLOATS,
    KeptVariables,
    direct_variables,
    store_as,
)
from ampspec.documents.problems import SpecValidationError, from_pydantic
from ampspec.documents.text import join_names
from ampspec.errors import InvalidModel
from ampspec.precision.devices import DeviceInfo
from ampspec.precision.layer_dtypes import (
    LayerDtypes,
    layer_dtypes,
    nearest_override,
    resolve_policy,
)
from ampspec.precision.precision import (
    COMPUTE_DTYPE,
    DTYPES_OF_16_BITS,
    Override,
    Policy,
    Precision,
)
from ampspec.precision.product_dtypes import ProductDtypes, has_products

MAX_PATHS: Final = 12
"""The maximum number of layer paths in a message."""

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
    """Have a Keras model compute in a precision policy, as if it had been created in it.

        ampcore.apply_policy(model, "mixed_float16", [{"layers": "^logits$", "dtype": "float32"}])

    Outputs, softmax, embeddings and inputs stay in float32, as in a job; an override changes the
    layers whose path matches its regular expression, and the last match wins.

    A file of the model has the policies of its layers, but Keras saves none of a layer that another
    layer creates. To load such a model, set the global policy before, as for one that was created
    in it: `keras.config.set_dtype_policy("mixed_float16")`.

    Args:
        model: A built keras.Model, nested ones included. Its layers and variables stay the same
            objects. Compile it again, if it is compiled.
        policy: A policy of Keras (`mixed_float16`, `mixed_bfloat16`, `float16`, `bfloat16`,
            `float32`), an optimization level (`O0` to `O3`), or `auto`: the best one for `device`.
        overrides: Mappings with `layers`, a regular expression, and `dtype`: `float32`,
            `float16` or `bfloat16`; with `roles`, only for these products of the layers.
        device: What the model will run on; None: a device that computes in all dtypes.
        example: Inputs of one or more examples, for a subclassed model: they tell which layers
            compute its outputs. Without them the last layer counts as the output.

    Returns:
        The same model. Its weights are rounded where they are stored in 16 bits.

    Raises:
        SpecValidationError: The policy or an override is invalid.
        InvalidModel: The model is not built, an override matches no layer, or a layer of a person's
            own computes with tensors of two dtypes.

    Source: the rules are those of a job's spec, docs/reference/spec.md, "precision".
    """
    if not (isinstance(model, keras.Model) and model.variables):
        raise InvalidModel(
            "model",
            expected="a built keras.Model; call it on an example, or begin it with keras.Input",
            received=type(model).__name__,
        )
    policies = layer_policies(_precision(policy, overrides), device)
    kept = KeptVariables(model.variables)
    dtypes = policies.in_place(model, example)
    try:
        policies.check_all_matched()
        with dtypes.applied():
            _check_callable(model, example)
    except Exception:
        kept.put_back()
        raise
    dtypes.install(model)
    return model


def _check_callable(model: Model, example: Any) -> None:
    """Raise InvalidModel if a custom layer computes with two dtypes."""
    custom_layers = [layer for layer in flatten_layers(model) if computes_itself(layer)]
    inputs = _input_specs(model) if is_network(model) else example
    if not custom_layers or inputs is None:
        return

    def call(x: Any) -> Any:
        with keras.StatelessScope():
            return model(x)

    try:
        tf.function(call, autograph=False).get_concrete_function(inputs)
    except (TypeError, ValueError, tf.errors.InvalidArgumentError) as error:
        raise explain_dtype_conflict(model, error) or error from error


def _input_specs(model: Model) -> Any:
    """The inputs of a functional or sequential model, with their structure."""
    inputs = model.input if not isinstance(model, keras.Sequential) else model.inputs[0]
    return keras.tree.map_structure(
        lambda tensor: tf.TensorSpec(tensor.shape, keras.backend.standardize_dtype(tensor.dtype)),
        inputs,
    )


def _precision(policy: str, overrides: Sequence[Override | Mapping[str, Any]]) -> Precision:
    rows = [
        dict(override) if isinstance(override, Mapping) else override.model_dump()
        for override in overrides
    ]
    try:
        return Precision.model_validate({"policy": policy, "overrides": rows})
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
    keeps_dtypes: bool = False
    """Whether layers without an override keep the dtypes that they have."""
    layers: dict[str, LayerDtypes] = field(default_factory=dict)
    """The dtypes by layer path, of every network so far; `attention/query` is a sub-layer."""
    _paths: set[str] = field(default_factory=set)
    _paths_with_products: set[str] = field(default_factory=set)
    """Those that overrides of products match."""

    def apply(self, model: Model, example: Any = None) -> Model:
        """Give the layers of a model the dtypes of this policy for good.

        Keras's global policy is not changed.

        Args:
            model: A built keras.Model, nested ones included.
            example: Inputs of one or more examples, for a subclassed model: they tell which layers
                compute its outputs. Without them the last layer counts as the output.

        Returns:
            The same model. Its variables are rounded if they are stored in 16 bits.
        """
        self.in_place(model, example).install(model)
        return model

    def in_place(self, model: Model, example: Any = None) -> InPlaceDtypes:
        """Store the weights of a model as this policy says; return the dtypes of its layers.

        Args:
            model: As of `apply`, and so is `example`.
            example: As of `apply`.
        """
        outputs = None if is_network(model) else layers_of_outputs(model, example)
        entries = list(walk_layers(model, outputs))
        dtypes_by_id = self._assign(entries)
        rows = [(entry, dtypes_by_id[id(entry.layer)]) for entry in entries]
        for entry, dtypes in rows:
            for variable in direct_variables(entry.layer):
                store_as(variable, dtypes.variable_dtype)
        return InPlaceDtypes(
            [*_policy_of_model(model), *_layer_policies(rows)],
            [
                self._products(entry.layer, entry.info.path, dtypes.products, dtypes.compute_dtype)
                for entry, dtypes in rows
                if dtypes.products is not None and applied_layer(entry.layer) is entry.layer
            ],
            [
                (entry.layer, float16_on_cpu.with_float32_kernel_gradient(entry.layer))
                for entry, dtypes in rows
                if self.on_cpu
                and dtypes.compute_dtype == "float16"
                and isinstance(entry.layer, float16_on_cpu.CONVOLUTIONS)
            ],
            casts=list(self._casts(model, rows, outputs or set())),
            plain=[]
            if self.keeps_dtypes
            else [layer for layer in flatten_layers(model) if has_installed_call(layer)],
            saves_dtypes=not any(
                children(owner)
                for owner in [model, *(entry.layer for entry in entries)]
                if computes_itself(owner)
            ),
            saved_policies=policy_maps(rows),
            saved_initializers=creatable_initializers(rows),
        )

    def _casts(
        self,
        model: Model,
        rows: Sequence[tuple[LayerEntry, LayerDtypes]],
        output_layers: set[int],
    ) -> Iterator[tuple[Layer, Any]]:
        """The sub-layers of classes that compute with their outputs, and in whose dtype."""
        if self.keeps_dtypes:
            return
        dtypes_by_id = {id(entry.layer): dtypes for entry, dtypes in rows}
        outputs = {id(entry.layer) for entry, _ in rows if entry.info.output}
        for owner in [model, *(entry.layer for entry, _ in rows)]:
            if not computes_itself(owner):
                continue
            around = owner
            dtype = dtypes_by_id[id(owner)].compute_dtype if id(owner) in dtypes_by_id else None
            if owner is model:
                # Outputs stay in float32, also those that the model itself computes.
                is_float32 = self.name == "O1" or id(model) in output_layers
                around = dtype = "float32" if is_float32 else COMPUTE_DTYPE[self.name]
            for child in children(owner):
                parts = {id(part) for part in flatten_layers(child)}
                child_dtypes = dtypes_by_id.get(id(child))
                if parts & outputs or (
                    child_dtypes is not None and child_dtypes.compute_dtype == dtype
                ):
                    continue
                if is_network(child) or child_dtypes is not None:
                    yield child, around

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
        dtypes_in_use: set[str] = {dtypes.compute_dtype for dtypes in self.layers.values()}
        for dtypes in self.layers.values():
            dtypes_in_use.update(dtypes.products.all if dtypes.products is not None else ())
        return frozenset(dtypes_in_use) - {"float32", "float8"}

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

    def _assign(self, entries: list[LayerEntry]) -> dict[int, LayerDtypes]:
        dtypes_by_id: dict[int, LayerDtypes] = {}
        for entry in entries:
            parent = dtypes_by_id.get(id(entry.parent))
            if parent is not None and applied_layer(entry.parent) is entry.layer:
                dtypes_by_id[id(entry.layer)] = self.layers[entry.info.path] = parent
                continue
            paths = (entry.info.path, *entry.ancestors)
            self._paths.update(paths)
            if has_products(entry.info):
                self._paths_with_products.update(paths)
            if self.keeps_dtypes and nearest_override(self.precision, paths) is None:
                dtypes_by_id[id(entry.layer)] = self.layers[entry.info.path] = _dtypes_of(
                    entry.layer
                )
                continue
            dtypes = layer_dtypes(self.precision, self.name, entry.info, entry.ancestors)
            # Parts of a layer with matrix products compute in its dtype: dropout in attention.
            softmax = entry.info.softmax
            if dtypes.float32_reason == "level" and not softmax and parent is not None:
                dtypes = parent
            dtypes_by_id[id(entry.layer)] = self.layers[entry.info.path] = dtypes
        return dtypes_by_id


def _dtypes_of(layer: Layer) -> LayerDtypes:
    """The dtypes that a layer has; float32 for one that computes in another dtype, and keeps it."""
    if layer.compute_dtype not in FLOATS or layer.variable_dtype not in FLOATS:
        return LayerDtypes("float32", "float32")
    return LayerDtypes(layer.compute_dtype, layer.variable_dtype)


def own_policy(model: Model) -> Policy:
    """The policy that a model was created in, by the dtypes of its layers; float16 comes first."""
    layers = [entry.layer for entry in walk_layers(model, set())]
    for dtype in ("float16", "bfloat16"):
        of_dtype = [layer for layer in layers if layer.compute_dtype == dtype]
        if of_dtype:
            pure = all(layer.variable_dtype == dtype for layer in of_dtype)
            return cast("Policy", dtype if pure else f"mixed_{dtype}")
    return "float32"


def _policy_of_model(model: Model) -> list[tuple[Model, Any]]:
    """Float32 for a model that was created in another policy: it would round its inputs."""
    changed = model.compute_dtype in DTYPES_OF_16_BITS
    return [(model, keras.DTypePolicy("float32"))] if changed else []


def _layer_policies(rows: Sequence[tuple[LayerEntry, LayerDtypes]]) -> list[tuple[Layer, Any]]:
    """The layers whose dtype policy is not the wanted one, with this one."""
    return [
        (entry.layer, keras.DTypePolicy(dtypes.policy))
        for entry, dtypes in rows
        if (entry.layer.compute_dtype, entry.layer.variable_dtype)
        != (dtypes.compute_dtype, dtypes.variable_dtype)
        and entry.layer.compute_dtype in FLOATS
    ]
