"""The attempts at a job."""

from datetime import datetime
from typing import Annotated

from pydantic import Field

from ampspec.api.base import AnyReason, ApiModel, StoredModel, open_enum


class Rank(ApiModel):
    """One of the processes that train a job together, each on one device."""

    rank: int = Field(description="Its number, from 0.")
    worker_id: str = Field(description="The worker that runs it.")
    device: str | None = Field(description="Null until its process has started.")
    state: Annotated[
        str, open_enum("starting", "running", "succeeded", "failed", "stopped", "lost")
    ] = Field(description="`lost`: its worker no longer responds.")


class Attempt(StoredModel):
    """One attempt of a worker to run a job; those of a tracked run have no worker.

    A tracked run begins an attempt when its program goes on from an earlier step.
    """

    attempt: int
    worker_id: str | None
    outcome: str | None = Field(description="How it ended; null while it runs.")
    reason: AnyReason | None
    message: str | None
    waited_s: float = Field(description="Seconds in the queue before this attempt.")
    ranks: list[Rank] = Field(
        default=[], description="The ranks of the attempt; empty for a job with one rank."
    )
    first_step: int | None = Field(
        description="The first step: 0, or the step after the checkpoint."
    )
    started_at: datetime
    finished_at: datetime | None


class AttemptList(ApiModel):
    """All attempts at a job, in order."""

    items: list[Attempt]
