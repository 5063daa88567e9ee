"""Workers."""

from datetime import datetime
from typing import Annotated, Any, Final

from pydantic import ConfigDict, Field

from ampspec.api.base import ApiModel, StoredModel, open_enum

MAX_DRAIN_TIMEOUT_S: Final = 604_800
"""A week."""


class DrainOptions(ApiModel):
    """How a worker is drained."""

    model_config = ConfigDict(extra="forbid")

    timeout_s: float | None = Field(
        default=None,
        ge=0,
        le=MAX_DRAIN_TIMEOUT_S,
        description="How long the worker may store the files of its jobs; by default as long as "
        "its setting AMPCORE_DRAIN_TIMEOUT_S says.",
    )


class UnsavedJob(ApiModel):
    """A job that would train steps again if its worker ended at once."""

    job: str = Field(description="The id of the job.")
    step: int = Field(description="The number of completed steps.")
    checkpoint_step: int | None = Field(
        description="The steps in its newest stored checkpoint; null without one."
    )


class Worker(StoredModel):
    """A worker process and its hardware."""

    id: str
    hostname: str
    pid: int
    slots: int
    state: Annotated[str, open_enum("online", "lost", "stopped")]
    draining: bool = Field(description="The worker was asked to requeue its jobs and to exit.")
    drain_timeout_s: float | None = Field(
        default=None,
        description="How long a drain may store files; null: as long as the worker's setting says.",
    )
    unsaved: list[UnsavedJob] = Field(
        default=[],
        description="What would be trained again if the worker ended now; only in responses with "
        "a single worker, of the jobs that the token may see.",
    )
    version: str
    queues: list[str] = Field(description="The worker runs only jobs of these queues.")
    hardware: dict[str, Any] | None = Field(
        description="The hardware that its trainer process detected."
    )
    usage: dict[str, Any] | None = Field(
        description="Measurements of the worker, updated regularly."
    )
    jobs: list[str] = Field(description="The ids of its running jobs that the token may see.")
    started_at: datetime
    last_seen_at: datetime


class WorkerList(ApiModel):
    """Workers, newest first; in `hardware`, a list leaves out what packages offer.

    `next_cursor` is the cursor of the next page.
    """

    items: list[Worker]
    next_cursor: str | None = None
