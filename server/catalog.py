"""What a spec may say, read off the spec's own classes."""

import inspect
from functools import cache
from typing import Any, Final, get_args

from ampcore.spec.availability import DATA, MODELS, POLICIES
from ampcore.spec.data import DataSpec
from ampcore.spec.model import ModelSpec
from ampcore.spec.part import Part
from ampcore.spec.precision import COMPUTE_DTYPE, default_loss_scale
from ampcore.spec.precision import Policy as PolicyName
from server.views import PartKind, PartKindList, Policy, PolicyList

SIXTEEN_BIT_VARIABLES: Final = {"float16": "float16", "bfloat16": "bfloat16", "O3": "float16"}
"""Every other policy keeps its variables in float32."""


@cache
def models() -> PartKindList:
    """Every kind of model."""
    return _kinds(ModelSpec, MODELS)


@cache
def datasets() -> PartKindList:
    """Every kind of data."""
    return _kinds(DataSpec, DATA)


@cache
def policies() -> PolicyList:
    """Every precision policy."""
    return PolicyList(items=[_policy(name) for name in get_args(PolicyName)])


def _kinds(union: Any, available: tuple[str, ...]) -> PartKindList:
    classes: tuple[type[Part], ...] = get_args(get_args(union)[0])
    return PartKindList(items=[_kind(part, available) for part in classes])


def _kind(part: type[Part], available: tuple[str, ...]) -> PartKind:
    kind = part.model_fields["kind"].default
    return PartKind(
        kind=kind,
        available=kind in available,
        description=inspect.getdoc(part) or "",
        schema=part.model_json_schema(),
    )


def _policy(name: str) -> Policy:
    settled = name != "auto"
    return Policy(
        name=name,
        available=name in POLICIES,
        compute_dtype=COMPUTE_DTYPE.get(name),
        variable_dtype=SIXTEEN_BIT_VARIABLES.get(name, "float32") if settled else None,
        loss_scale=default_loss_scale(name).mode if settled else None,
    )
