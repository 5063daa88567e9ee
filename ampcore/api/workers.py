"""Workers."""

from datetime import datetime
from typing import Annotated, Any

from pydantic import Field

from ampcore.api.base import ApiModel, StoredModel, open_enum


class Worker(StoredModel):
    """A worker process and its hardware."""

    id: str
    hostname: str
    pid: int
    slots: int
    state: Annotated[str, open_enum("online", "lost", "stopped")]
    draining: bool = Field(description="The worker was asked to requeue its jobs and to exit.")
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
