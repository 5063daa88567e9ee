"""The files of a job."""

from datetime import datetime

from pydantic import Field

from ampcore.api.base import ApiModel, StoredModel


class Artifact(StoredModel):
    """A file that a job has left."""

    path: str = Field(description="Path below the job's folder, with slashes.")
    kind: str = Field(description="What it is: checkpoint, model, report.")
    step: int | None = Field(description="The steps done when it was written, of a checkpoint.")
    attempt: int
    size_bytes: int
    sha256: str
    created_at: datetime


class ArtifactList(ApiModel):
    """Every file of a job, in the order in which they came."""

    items: list[Artifact]
