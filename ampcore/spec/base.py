"""The base class of all parts of a job spec: strict types, no unknown fields, frozen."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field


class SpecModel(BaseModel):
    """One part of a spec. Values keep the type they were written in: "256" is no integer."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


Units = Annotated[int, Field(ge=1, le=65_536)]
LayerSizes = Annotated[tuple[Units, ...], Field(strict=False, max_length=64)]
Probability = Annotated[float, Field(ge=0, lt=1)]
