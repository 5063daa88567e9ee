"""Projects and their quotas."""

from datetime import datetime
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from ampcore.api.base import ApiModel

DEFAULT_PROJECT: Final = "default"
PROJECT_NAME: Final = r"[a-z0-9][a-z0-9._-]{0,63}"
"""The regular expression of project names."""
ProjectName = Annotated[str, StringConstraints(pattern=f"^{PROJECT_NAME}$")]
Quota = Annotated[int, Field(ge=0, le=1_000_000)]
ByteQuota = Annotated[int, Field(ge=0, le=2**53)]


class Quotas(BaseModel):
    """The maximum numbers of a project's queued and running jobs and dataset bytes; null: none."""

    model_config = ConfigDict(extra="forbid")

    max_queued: Quota | None = None
    max_running: Quota | None = None
    max_dataset_bytes: ByteQuota | None = None


class Project(ApiModel):
    """A project with its quotas, its numbers of queued and running jobs, and its dataset bytes."""

    name: str
    max_queued: int | None
    max_running: int | None
    queued: int
    running: int
    max_dataset_bytes: int | None
    dataset_bytes: int = Field(
        description="Of its stored datasets and files, and of its unfinished uploads."
    )
    created_at: datetime


class ProjectList(ApiModel):
    """All projects, ordered by name."""

    items: list[Project]
