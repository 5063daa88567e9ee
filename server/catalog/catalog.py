"""The catalog: every kind of each part of a spec with its JSON schema, and every policy."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Final, get_args

from ampspec.api.catalog import (
    ExtensibleKindList,
    PackageEntry,
    Policy,
    PolicyList,
    SpecKind,
    SpecKindList,
)
from ampspec.data.data import DataSpec
from ampspec.documents.base import SpecModel
from ampspec.models.model import ModelSpec
from ampspec.objectives.losses import LossSpec
from ampspec.objectives.metrics import MetricSpec
from ampspec.objectives.optimizer import OptimizerSpec
from ampspec.precision.layer_dtypes import PURE_16_BIT_POLICIES
from ampspec.precision.precision import COMPUTE_DTYPE, Precision, default_loss_scale
from ampspec.precision.precision import Policy as PolicyName
from ampspec.references.package import EntryPointGroup, PackageReference


def _classes_of(union: Any) -> Sequence[type[SpecModel]]:
    classes: tuple[type[SpecModel], ...] = get_args(get_args(union)[0])
    return classes


def _layers() -> Sequence[type[SpecModel]]:
    # They are imported only when someone asks.
    from ampspec.layers.catalog import LAYERS

    return list(LAYERS.values())


CLASSES: Final[Mapping[str, Callable[[], Sequence[type[SpecModel]]]]] = {
    "models": lambda: _classes_of(ModelSpec),
    "layers": _layers,
    "data-kinds": lambda: _classes_of(DataSpec),
    "losses": lambda: _classes_of(LossSpec),
    "metrics": lambda: _classes_of(MetricSpec),
    "optimizers": lambda: _classes_of(OptimizerSpec),
}
"""By the last part of its path, the classes of each list of kinds."""

EXTENSIBLE: Final[Mapping[str, EntryPointGroup]] = {
    name: part.group
    for name in ("models", "losses", "metrics", "optimizers", "data-kinds")
    for part in CLASSES[name]()
    if issubclass(part, PackageReference)
}
"""The lists with a kind `package`, and the group of entry points that it names."""


@cache
def kinds(name: str) -> SpecKindList:
    """The kinds in one list of `CLASSES`."""
    return SpecKindList(items=[_kind(part) for part in CLASSES[name]()])


def with_packages(
    name: str, reported: Mapping[str, Sequence[Mapping[str, Any]]]
) -> ExtensibleKindList:
    """The kinds in one list of `CLASSES`, and what packages offer for it.

    Args:
        name: The list, one of `EXTENSIBLE`.
        reported: By the id of a worker, what its packages offer, as `python -m ampcore.plugins`
            prints it.
    """
    group = EXTENSIBLE[name]
    entries_by_key: dict[tuple[str, ...], dict[str, Any]] = {}
    for worker_id, entries in sorted(reported.items()):
        for reported_entry in entries:
            if reported_entry.get("group") != group:
                continue
            key = tuple(str(reported_entry.get(part)) for part in ("package", "version", "name"))
            entry = entries_by_key.setdefault(
                key, {"description": "", "schema": {}, **reported_entry, "workers": []}
            )
            entry["workers"].append(worker_id)
    packages = [PackageEntry.model_validate(entries_by_key[key]) for key in sorted(entries_by_key)]
    return ExtensibleKindList(items=kinds(name).items, packages=packages)


@cache
def policies() -> PolicyList:
    """Every precision policy."""
    return PolicyList(items=[_policy(name) for name in get_args(PolicyName)])


def _kind(part: type[SpecModel]) -> SpecKind:
    discriminator = "kind" if "kind" in part.model_fields else "layer"
    return SpecKind(
        kind=part.model_fields[discriminator].default,
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
