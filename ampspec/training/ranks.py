"""The number of ranks of a job, and how they exchange gradients."""

from typing import Final, Literal

from pydantic import Field

from ampspec.documents.base import SpecModel

MAX_RANKS: Final = 1024
"""The largest number of ranks of a job."""


class Elastic(SpecModel):
    """The allowed numbers of ranks if not all ranks are available."""

    min: int = Field(default=1, ge=1, le=MAX_RANKS)
    max: int = Field(ge=1, le=MAX_RANKS)


class Exchange(SpecModel):
    """How the ranks of a job exchange gradients and statistics."""

    gradient_dtype: Literal["float32", "float16", "bfloat16"] = "float32"
    """The dtype in which gradients are sent; they are summed in float32. With float16 they are sent
    scaled, and the loss scale must have a finite check."""
    bucket_bytes: int = Field(default=4 * 2**20, ge=1024, le=2**30)
    """Gradients are exchanged in buckets of up to this size."""
    batch_norm: Literal["local", "mean", "sync"] = "mean"
    """The statistics of BatchNormalization. local: each rank has its own, and rank 0's are
    evaluated and saved. mean: the mean of the ranks' statistics after each step. sync: each batch
    is normalised with the moments of the examples of all ranks."""
    check_every_steps: int = Field(default=1000, ge=1, le=2**53)
    """Steps between two comparisons of the ranks' weights and loss scales; a difference ends the
    attempt."""
    timeout_s: float = Field(default=60.0, ge=1, le=86_400)
    """Seconds that a rank waits for the others, in an exchange and while connecting, before the
    attempt ends. A connected rank without heartbeats is lost after a lease of the server
    (`AMPCORE_LEASE_S`), if that is shorter."""
