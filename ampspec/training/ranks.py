"""How many ranks train a job, and how they exchange gradients."""

from typing import Final, Literal

from pydantic import Field

from ampspec.documents.base import SpecModel

MAX_RANKS: Final = 1024
"""The largest number of ranks of a job."""


class Elastic(SpecModel):
    """With how many ranks an attempt may run when not all of them can be had."""

    min: int = Field(default=1, ge=1, le=MAX_RANKS)
    max: int = Field(ge=1, le=MAX_RANKS)


class Exchange(SpecModel):
    """How the ranks of a job exchange gradients and statistics."""

    gradient_dtype: Literal["float32", "float16", "bfloat16"] = "float32"
    """The dtype in which gradients travel; they are added up in float32. With float16 they keep
    their loss scale on the way, which must be one with a finite check."""
    bucket_bytes: int = Field(default=4 * 2**20, ge=1024, le=2**30)
    """Gradients are exchanged together up to this size."""
    batch_norm: Literal["local", "mean", "sync"] = "mean"
    """The statistics of BatchNormalization. local: each rank has its own, and those of rank 0 are
    evaluated and saved. mean: the mean of the ranks' statistics after each step. sync: each batch
    is normalised with the moments of the examples of all ranks."""
    check_every_steps: int = Field(default=1000, ge=1, le=2**53)
    """After so many steps the ranks compare their weights and loss scales: a difference ends the
    attempt."""
    timeout_s: float = Field(default=60.0, ge=1, le=86_400)
    """How many seconds a rank waits for the others, in an exchange and while they connect; then the
    attempt ends. A connected rank that sends no heartbeats is lost as soon as a lease of the server
    is over (`AMPCORE_LEASE_S`), if that is shorter."""
