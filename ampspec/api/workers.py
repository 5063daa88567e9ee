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
        description="Maximum time to store the files of its jobs; default: the worker's setting "
        "AMPCORE_DRAIN_TIMEOUT_S.",
    )


class UnsavedJob(ApiModel):
    """A job that would repeat steps if its worker ended now."""

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
        description="Maximum time to store files during a drain; null: the worker's setting.",
    )
    unsaved: list[UnsavedJob] = Field(
        default=[],
        description="Jobs that would repeat steps if the worker ended now, limited to jobs "
        "visible to the token; only in responses with a single worker.",
    )
    version: str
    queues: list[str] = Field(description="The worker runs only jobs of these queues.")
    job_id: str | None = Field(
        default=None,
        description="The only job that it runs before it ends, if the token may see it; null: the "
        "jobs of its queues.",
    )
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
    """Workers, newest first; `hardware` omits the entry points of packages.

    `next_cursor` is the cursor of the next page.
    """

    items: list[Worker]
    next_cursor: str | None = None
