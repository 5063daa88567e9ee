"""The catalog: every kind of model, layer, data, optimizer and policy, with its JSON schema."""

import inspect
from functools import cache
from typing import Any, get_args

from ampcore.api.catalog import Policy, PolicyList, SpecKind, SpecKindList
from ampcore.spec.base import SpecModel
from ampcore.spec.data import DataSpec
from ampcore.spec.layer_dtypes import PURE_16_BIT_POLICIES
from ampcore.spec.model import ModelSpec
from ampcore.spec.optimizer import OptimizerSpec
from ampcore.spec.precision import COMPUTE_DTYPE, Precision, default_loss_scale
from ampcore.spec.precision import Policy as PolicyName


@cache
def models() -> SpecKindList:
    """Every kind of model."""
    return _kinds(ModelSpec)


@cache
def layers() -> SpecKindList:
    """Every kind of layer that `model: {kind: layers}` may list."""
    # Their classes are imported and their schemas built only when someone asks.
    from ampcore.spec.layers.catalog import LAYERS

    return SpecKindList(
        items=[
            SpecKind(
                kind=kind, description=inspect.getdoc(layer) or "", schema=layer.model_json_schema()
            )
            for kind, layer in LAYERS.items()
        ]
    )


@cache
def data_kinds() -> SpecKindList:
    """Every kind of data."""
    return _kinds(DataSpec)


@cache
def optimizers() -> SpecKindList:
    """Every kind of optimizer."""
    return _kinds(OptimizerSpec)


@cache
def policies() -> PolicyList:
    """Every precision policy."""
    return PolicyList(items=[_policy(name) for name in get_args(PolicyName)])


def _kinds(union: Any) -> SpecKindList:
    classes: tuple[type[SpecModel], ...] = get_args(get_args(union)[0])
    return SpecKindList(items=[_kind(part) for part in classes])


def _kind(part: type[SpecModel]) -> SpecKind:
    kind = part.model_fields["kind"].default
    return SpecKind(
        kind=kind,
        description=inspect.getdoc(part) or "",
        schema=part.model_json_schema(),
    )


def _policy(name: PolicyName) -> Policy:
    compute_dtype = COMPUTE_DTYPE.get(name)  # `auto` is resolved on the worker's device
    return Policy(
        name=name,
        compute_dtype=compute_dtype,
        # `auto` never gives 16-bit weights.
        variable_dtype=compute_dtype if name in PURE_16_BIT_POLICIES else "float32",
        loss_scale=default_loss_scale(Precision(policy=name)).mode,
    )
