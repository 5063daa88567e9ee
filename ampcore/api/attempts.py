"""The attempts at a job."""

from datetime import datetime

from pydantic import Field

from ampcore.api.base import AnyReason, ApiModel, StoredModel


class Attempt(StoredModel):
    """One attempt of a worker to run a job; a tracked run has one, without a worker."""

    attempt: int
    worker_id: str | None
    outcome: str | None = Field(description="How it ended; null while it runs.")
    reason: AnyReason | None
    message: str | None
    waited_s: float = Field(description="Seconds that the job waited in the queue before.")
    first_step: int | None = Field(
        description="The first step: 0, or the step after the checkpoint."
    )
    started_at: datetime
    finished_at: datetime | None


class AttemptList(ApiModel):
    """All attempts at a job, in order."""

    items: list[Attempt]
