"""Workers."""

from datetime import datetime
from typing import Annotated, Any

from pydantic import Field

from ampcore.api.base import ApiModel, StoredModel, open_enum


class Worker(StoredModel):
    """A worker process and what it runs on."""

    id: str
    hostname: str
    pid: int
    slots: int
    state: Annotated[str, open_enum("online", "lost", "stopped")]
    draining: bool = Field(description="It was asked to give its jobs back and to end.")
    version: str
    queues: list[str] = Field(description="It takes the jobs of these queues alone.")
    hardware: dict[str, Any] | None = Field(description="As its trainer process saw it.")
    usage: dict[str, Any] | None = Field(description="What it measures of itself now and then.")
    jobs: list[str] = Field(
        description="The ids of the jobs that it runs, of those that the token sees."
    )
    started_at: datetime
    last_seen_at: datetime


class WorkerList(ApiModel):
    """Every worker, the newest first."""

    items: list[Worker]
