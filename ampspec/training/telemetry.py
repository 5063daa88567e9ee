"""Measurements of a run besides its steps."""

from typing import Final

from pydantic import Field

from ampspec.documents.base import SpecModel

DEFAULT_USAGE_S: Final = 10.0


class RangeSampling(SpecModel):
    """Samples of the exponents of all layers' values and gradients."""

    enabled: bool = True
    first_steps: int = Field(default=4, ge=1, le=10_000)
    """Number of initial steps that are all sampled."""
    growth: float = Field(default=1.25, ge=1.05, le=1024)
    """Afterwards each sampled step has at least this multiple of the previous one's number."""
    max_time_share: float | None = Field(default=0.01, gt=0, le=1)
    """The share of the run's time that samples may take; samples are postponed until they fit. The
    first sample is always taken; since it is traced, it has an equal share of its own, and its
    excess reduces the time of the others. Null: no limit; exactly the steps above are sampled."""


class Telemetry(SpecModel):
    """Measurements of a run besides its steps."""

    ranges: RangeSampling = RangeSampling()
    usage_every_s: float | None = Field(
        default=DEFAULT_USAGE_S, ge=1, le=86_400, exclude_if=lambda value: value == DEFAULT_USAGE_S
    )
    """Seconds between two samples of processor, memory and GPU, which become columns of the steps;
    null: none are taken."""
