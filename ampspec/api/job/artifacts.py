"""The files of a job."""

from datetime import datetime

from pydantic import Field

from ampspec.api.base import ApiModel, StoredModel


class Artifact(StoredModel):
    """A file of a job."""

    path: str = Field(description="Path below the job's folder, with slashes.")
    kind: str = Field(
        description="The kind of file: checkpoint, model, weights, examples, signature, profile, "
        "report or image."
    )
    step: int | None = Field(
        description="The number of completed steps; of checkpoints. The step of a picture."
    )
    attempt: int
    size_bytes: int
    sha256: str
    created_at: datetime


class ArtifactList(ApiModel):
    """All files of a job, in the order in which they were stored."""

    items: list[Artifact]


class JobImage(Artifact):
    """A picture that the program of a tracked run has logged; its file is one of the job."""

    name: str = Field(description="What the program calls it; it has any number of steps.")


class JobImageList(ApiModel):
    """The pictures of a job by step, without those of replaced steps."""

    items: list[JobImage]
