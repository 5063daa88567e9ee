"""The base class of all parts of a job spec: strict types, no unknown fields, frozen."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field


class SpecModel(BaseModel):
    """One part of a spec. Values keep the type they were written in: "256" is no integer."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


def with_default_kind(section: Any, kind: str, field: str = "kind") -> Any:
    """Add the default kind to a section that is an object without a kind."""
    if isinstance(section, dict) and field not in section:
        return {field: kind, **section}
    return section


def from_name(value: Any) -> Any:
    """Expand a name into the document of this kind."""
    return {"kind": value} if isinstance(value, str) else value


Units = Annotated[int, Field(ge=1, le=65_536)]
LayerSizes = Annotated[tuple[Units, ...], Field(strict=False, max_length=64)]
Probability = Annotated[float, Field(ge=0, lt=1)]
