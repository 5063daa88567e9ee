"""The attempts at a job."""

from datetime import datetime

from pydantic import Field

from ampcore.api.base import AnyReason, ApiModel, StoredModel


class Attempt(StoredModel):
    """One time that a worker took a job."""

    attempt: int
    worker_id: str
    outcome: str | None = Field(description="How it ended; null while it lasts.")
    reason: AnyReason | None
    message: str | None
    waited_s: float = Field(description="How long the job was in the queue before.")
    first_step: int | None = Field(description="Where it began: 0, or behind a checkpoint.")
    started_at: datetime
    finished_at: datetime | None


class AttemptList(ApiModel):
    """Every attempt at a job, the first one first."""

    items: list[Attempt]
