"""The precision policy and the loss scale of a job.

Source: Micikevicius et al. 2018, arXiv:1710.03740; the constants' defaults are Keras's,
with the floor of jmp and DeepSpeed and a cap that float32 arithmetic keeps finite.
"""

from typing import Annotated, Literal

from pydantic import Field

from ampcore.spec.part import Part

Policy = Literal[
    "float32",
    "mixed_float16",
    "mixed_bfloat16",
    "float16",
    "bfloat16",
    "O0",
    "O1",
    "O2",
    "O3",
    "auto",
]
Dtype = Literal["float32", "float16", "bfloat16"]

COMPUTE_DTYPE: dict[str, Dtype] = {
    "float32": "float32",
    "mixed_float16": "float16",
    "mixed_bfloat16": "bfloat16",
    "float16": "float16",
    "bfloat16": "bfloat16",
    "O0": "float32",
    "O1": "float16",
    "O2": "float16",
    "O3": "float16",
}
"""The compute dtype that each policy stands for; `auto` is settled on the worker's device."""

SMALLEST_SCALE = 2.0**-96
LARGEST_SCALE = 2.0**96
"""Between them a scale and its inverse are normal float32 numbers, and so is a product of two."""

Scale = Annotated[float, Field(ge=SMALLEST_SCALE, le=LARGEST_SCALE)]


class Override(Part):
    """A dtype for the layers whose path matches a regular expression; the last match wins."""

    layers: str = Field(min_length=1, max_length=256)
    dtype: Dtype


class Precision(Part):
    """The policy of the whole model, and the layers that differ from it."""

    policy: Policy = "float32"
    overrides: Annotated[tuple[Override, ...], Field(strict=False, max_length=256)] = ()


class NoScale(Part):
    """No loss scaling and no finite check."""

    mode: Literal["none"] = "none"


class FixedScale(Part):
    """A constant loss scale; a step with non-finite gradients is skipped."""

    mode: Literal["fixed"] = "fixed"
    scale: Scale = 1024.0


class DynamicScale(Part):
    """A loss scale that grows after finite steps and backs off after non-finite ones."""

    mode: Literal["dynamic"] = "dynamic"
    initial: Scale = 2.0**15
    growth_interval: int = Field(default=2000, ge=1, le=2**31 - 1)
    growth_factor: float = Field(default=2.0, gt=1, le=2.0**16)
    backoff_factor: float = Field(default=0.5, gt=0, lt=1)
    minimum: Scale = 1.0
    maximum: Scale = 2.0**24
    hysteresis: int = Field(default=1, ge=1, le=2**31 - 1)


LossScaleSpec = Annotated[NoScale | FixedScale | DynamicScale, Field(discriminator="mode")]


def default_loss_scale(policy: str) -> NoScale | DynamicScale:
    """Dynamic for every policy that computes in float16, however it is named; none otherwise."""
    return DynamicScale() if COMPUTE_DTYPE.get(policy) == "float16" else NoScale()
