"""What a spec may say, read off the spec's own classes."""

import inspect
from functools import cache
from typing import Any, get_args

from ampcore.spec.data import DataSpec
from ampcore.spec.layer_dtypes import PURE
from ampcore.spec.model import ModelSpec
from ampcore.spec.optimizer import OptimizerSpec
from ampcore.spec.part import Part
from ampcore.spec.precision import COMPUTE_DTYPE, Precision, default_loss_scale
from ampcore.spec.precision import Policy as PolicyName
from server.views import PartKind, PartKindList, Policy, PolicyList


@cache
def models() -> PartKindList:
    """Every kind of model."""
    return _kinds(ModelSpec)


@cache
def datasets() -> PartKindList:
    """Every kind of data."""
    return _kinds(DataSpec)


@cache
def optimizers() -> PartKindList:
    """Every kind of optimizer."""
    return _kinds(OptimizerSpec)


@cache
def policies() -> PolicyList:
    """Every precision policy."""
    return PolicyList(items=[_policy(name) for name in get_args(PolicyName)])


def _kinds(union: Any) -> PartKindList:
    classes: tuple[type[Part], ...] = get_args(get_args(union)[0])
    return PartKindList(items=[_kind(part) for part in classes])


def _kind(part: type[Part]) -> PartKind:
    kind = part.model_fields["kind"].default
    return PartKind(
        kind=kind,
        description=inspect.getdoc(part) or "",
        schema=part.model_json_schema(),
    )


def _policy(name: PolicyName) -> Policy:
    compute_dtype = COMPUTE_DTYPE.get(name)  # that of `auto` is settled on the worker's device
    return Policy(
        name=name,
        compute_dtype=compute_dtype,
        # Even so, `auto` never gives weights 16 bits.
        variable_dtype=compute_dtype if name in PURE else "float32",
        loss_scale=default_loss_scale(Precision(policy=name)).mode,
    )
