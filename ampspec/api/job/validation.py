"""The preflight of a spec: findings, memory and FLOPs."""

from typing import Annotated, Any

from pydantic import Field

from ampspec.api.base import ApiModel, open_enum


class Finding(ApiModel):
    """A finding of the preflight about a valid spec."""

    code: str = Field(description="The finding, as a code.")
    severity: Annotated[str, open_enum("info", "warning", "error")] = Field(
        description="error: the job cannot run; warning: it will probably not behave as intended."
    )
    pointer: str = Field(description="JSON pointer to the part of the spec to change.")
    message: str = Field(description="The finding, as text.")
    data: dict[str, Any] = Field(description="The values of the finding.")


class MemoryEstimate(ApiModel):
    """The estimated peak memory of a training step in bytes, without data and libraries."""

    weights: int
    casts: int = Field(description="16-bit copies of the weights, in bytes.")
    gradients: int
    optimizer: int = Field(description="The optimizer's slots, for example momentum.")
    ema: int
    activations: int = Field(description="The activations saved for the backward pass.")
    total: int


class PreflightFigures(ApiModel):
    """The size of a job, computed from its layers."""

    policy: str = Field(description="`auto` is resolved for a device of an online worker.")
    parameters: int
    trainable_parameters: int
    networks: dict[str, int] = Field(description="The number of parameters of each network.")
    flops_per_step: int = Field(
        description="FLOPs of the matrix products: about 3 × forward pass × batch_size × "
        "accumulate."
    )
    share_in_16_bit: float = Field(
        description="The share of these FLOPs in 16 bits or fewer, from 0 to 1."
    )
    share_in_8_bit: float = Field(
        default=0.0, description="The share of these FLOPs in float8, from 0 to 1."
    )
    memory: dict[str, MemoryEstimate] = Field(
        description="The memory by policy: float32, and the policy of the job."
    )


class PreflightLayer(ApiModel):
    """One layer; shapes and counts are per example."""

    network: str
    path: str = Field(description="The path that `precision.overrides` match.")
    kind: str
    output_shape: list[int]
    parameters: int
    multiply_adds: int
    compute_dtype: str
    variable_dtype: str


class Validation(ApiModel):
    """A valid spec, and the result of its preflight."""

    spec: dict[str, Any]
    findings: list[Finding]
    figures: PreflightFigures | None = Field(description="null: known only when the job starts.")
    layers: list[PreflightLayer] = Field(description="Empty: known only when the job starts.")
