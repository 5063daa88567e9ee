"""What a run measures besides its steps."""

from pydantic import Field

from ampspec.documents.base import SpecModel


class RangeSampling(SpecModel):
    """Samples of the exponents of all layers' values and gradients."""

    enabled: bool = True
    first_steps: int = Field(default=4, ge=1, le=10_000)
    """Sample each of the first steps, so many."""
    growth: float = Field(default=1.25, ge=1.05, le=1024)
    """Afterwards the number of each sampled step is at least this times that of the last one."""
    max_time_share: float | None = Field(default=0.01, gt=0, le=1)
    """The share of the run's time that samples may take; they are postponed until they fit. The
    first one of a run is always taken; since it is traced, it may take as much again, and what
    it takes beyond that is missing for the others. Null: no limit, and exactly the steps above are
    sampled."""


class Telemetry(SpecModel):
    """What a run measures besides its steps."""

    ranges: RangeSampling = RangeSampling()
