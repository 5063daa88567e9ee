"""The catalog: the kinds of model, data and optimizer, and the precision policies."""

from typing import Any

from pydantic import Field

from ampspec.api.base import ApiModel


class SpecKind(ApiModel):
    """One kind of model, layer, data or optimizer that a spec can name."""

    kind: str
    description: str
    json_schema: dict[str, Any] = Field(alias="schema", description="JSON schema of this kind.")


class SpecKindList(ApiModel):
    """All kinds of one part of a spec."""

    items: list[SpecKind]


class PackageEntry(ApiModel):
    """An entry point of a Python package on the workers, for one part of a spec."""

    package: str
    version: str
    name: str
    description: str
    json_schema: dict[str, Any] = Field(alias="schema", description="JSON schema of its options.")
    workers: list[str] = Field(description="The ids of the online workers that have it.")


class ExtensibleKindList(SpecKindList):
    """All kinds of one part of a spec, and the entry points for its kind `package`."""

    packages: list[PackageEntry] = Field(
        default=[], description="For `kind: package`: the entry points on online workers."
    )


class Policy(ApiModel):
    """One precision policy that a spec can name."""

    name: str
    compute_dtype: str | None = Field(description="null: depends on the worker's device.")
    variable_dtype: str | None
    loss_scale: str | None = Field(
        description="The default loss-scale mode of a spec with this policy."
    )


class PolicyList(ApiModel):
    """All precision policies."""

    items: list[Policy]
