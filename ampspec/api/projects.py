"""Projects and their quotas."""

from datetime import datetime
from typing import Annotated, Final

from pydantic import Field, StringConstraints

from ampspec.api.base import ApiModel, RequestModel

DEFAULT_PROJECT: Final = "default"
PROJECT_NAME: Final = r"[a-z0-9][a-z0-9._-]{0,63}"
"""The regular expression of project names."""
ProjectName = Annotated[str, StringConstraints(pattern=f"^{PROJECT_NAME}$")]
Quota = Annotated[int, Field(ge=0, le=1_000_000)]
ByteQuota = Annotated[int, Field(ge=0, le=2**53)]
Hours = Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]
Weight = Annotated[float, Field(ge=0.001, le=1000, allow_inf_nan=False)]
REPLACED_QUOTAS: Final = ("max_queued", "max_running", "max_dataset_bytes")
"""PUT removes these limits if they are omitted; quotas added by later versions are kept."""


class Quotas(RequestModel):
    """The quotas of a project, and its weight; null: no limit."""

    max_queued: Quota | None = None
    max_running: Quota | None = None
    max_devices: Quota | None = Field(
        default=None, description="Devices used at the same time; each rank uses one."
    )
    max_device_hours: Hours | None = Field(
        default=None, description="Device hours in the last 30 days."
    )
    max_dataset_bytes: ByteQuota | None = None
    max_artifact_bytes: ByteQuota | None = Field(
        default=None, description="Bytes of the checkpoints, models and reports of its jobs."
    )
    weight: Weight = Field(
        default=1.0, description="The project's share of the devices relative to other projects."
    )


class Project(ApiModel):
    """A project with its quotas and its usage."""

    name: str
    max_queued: int | None
    max_running: int | None
    queued: int
    running: int
    max_dataset_bytes: int | None
    dataset_bytes: int = Field(
        description="The size of stored datasets, files and unfinished uploads."
    )
    max_artifact_bytes: int | None = None
    artifact_bytes: int = Field(
        default=0, description="The size of the stored artifacts of its jobs."
    )
    max_devices: int | None = None
    devices: int = Field(default=0, description="Devices used by running jobs.")
    max_device_hours: float | None = None
    device_hours: float = Field(default=0.0, description="Device hours in the last 30 days.")
    weight: float = 1.0
    share: float = Field(
        default=0.0,
        description="(Recent device hours + devices in use) / weight: the project with the "
        "smallest one goes first.",
    )
    created_at: datetime


class ProjectList(ApiModel):
    """All projects, ordered by name."""

    items: list[Project]
