"""How long a job trains, when it gives up, and where it runs."""

from typing import Annotated, Literal

from pydantic import Field

from ampcore.spec.base import SpecModel


class Train(SpecModel):
    """The length of the training and what happens along the way."""

    epochs: int = Field(default=1, ge=1, le=10_000_000)
    steps: int | None = Field(default=None, ge=1, le=2**53)
    """Train exactly so many steps, whatever `epochs` says."""
    seed: int = Field(default=0, ge=0, le=2**31 - 1)
    accumulate: int = Field(default=1, ge=1, le=65_536)
    eval_every_epochs: int = Field(default=1, ge=1, le=10_000_000)
    checkpoint_every_s: float | None = Field(default=60.0, gt=0)
    """Seconds between two checkpoints; null: only a run that is stopped or fails saves one."""


class Guard(SpecModel):
    """What to do about a run that no longer learns."""

    max_consecutive_skips: int = Field(default=200, ge=1, le=2**31 - 1)
    """So many skipped steps in a row; without a finite check, non-finite losses or gradients."""
    on_exceeded: Literal["fail", "rollback", "float32"] = "fail"
    keep_state_every_steps: int = Field(default=500, ge=1, le=2**53)
    """Steps between two states to go back to; before the first one, after 1, 2, 4, 8, … steps."""


QueueName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,62}$")]
"""Lower-case letters, digits, dots, dashes."""


class Runtime(SpecModel):
    """Where and how the job runs."""

    queue: QueueName | None = None
    """Only workers that serve this queue may take the job; null: as `device` asks."""
    priority: int = Field(default=5, ge=0, le=9)
    """Of two waiting jobs the one with the higher priority goes first."""
    max_attempts: int = Field(default=3, ge=1, le=100)
    """How many attempts may fail for a reason that another one could do away with."""
    timeout_s: float | None = Field(default=None, gt=0, le=10 * 365 * 86_400)
    """Seconds that the job may be on a worker, over all attempts; null: no limit."""
    device: Literal["auto", "cpu", "gpu"] = "auto"
    engine: Literal["auto", "graph", "xla_step", "xla_loop"] = "auto"
    devices: int = Field(default=1, ge=1, le=1024)


LabelKey = Annotated[str, Field(min_length=1, max_length=64)]
LabelValue = Annotated[str, Field(max_length=256)]
Labels = Annotated[dict[LabelKey, LabelValue], Field(max_length=64)]
