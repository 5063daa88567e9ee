"""The preflight of a spec: findings, memory and FLOPs."""

from typing import Annotated, Any

from pydantic import Field

from ampcore.api.base import ApiModel, open_enum


class Finding(ApiModel):
    """Something worth knowing about a valid spec."""

    code: str = Field(description="What was found, for programs.")
    severity: Annotated[str, open_enum("info", "warning", "error")] = Field(
        description="error: the job cannot run as it is; warning: it will disappoint."
    )
    pointer: str = Field(description="The JSON pointer of the part of the spec to change.")
    message: str = Field(description="What was found, for people.")
    data: dict[str, Any] = Field(description="The numbers behind it.")


class Memory(ApiModel):
    """Bytes at the peak of a training step, estimated; without the data and the libraries."""

    weights: int
    casts: int = Field(description="16-bit copies of the weights, in bytes.")
    gradients: int
    optimizer: int = Field(description="Its slots: momentum, second moment.")
    ema: int
    activations: int = Field(description="What a batch keeps for its backward pass.")
    total: int


class Figures(ApiModel):
    """The size of a job, from its layers."""

    policy: str = Field(description="`auto` is settled on a device of an online worker.")
    parameters: int
    trainable_parameters: int
    networks: dict[str, int] = Field(description="The parameters of each network.")
    flops_per_step: int = Field(
        description="Of matrix products: about 3 × the forward pass × batch_size × accumulate."
    )
    share_in_16_bit: float = Field(description="Of those FLOPs, from 0 to 1.")
    memory: dict[str, Memory] = Field(description="By policy: float32, and the one chosen.")


class Layer(ApiModel):
    """One layer; shapes and counts are of one example."""

    network: str
    path: str = Field(description="What `precision.overrides` match.")
    kind: str
    output_shape: list[int]
    parameters: int
    multiply_adds: int
    compute_dtype: str
    variable_dtype: str


class Validation(ApiModel):
    """A spec that would be accepted, and what the preflight says of it."""

    spec: dict[str, Any]
    findings: list[Finding]
    figures: Figures | None = Field(description="null: known when the job starts.")
    layers: list[Layer] = Field(description="Empty: known when the job starts.")
