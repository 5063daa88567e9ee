"""Files of a project that jobs name by their SHA-256: code bundles and weights."""

from datetime import datetime
from typing import Annotated

from pydantic import Field, StringConstraints

from ampspec.api.base import ApiModel, StoredModel, open_enum
from ampspec.references.stored_files import DIGEST_PREFIX, SHA256, FileKind

Sha256 = Annotated[str, StringConstraints(pattern=f"^{SHA256}$")]
AnyFileKind = Annotated[FileKind | str, Field(union_mode="left_to_right"), open_enum(*FileKind)]
"""A newer server may have kinds that this version does not know."""


class BundledFile(ApiModel):
    """A file in a bundle."""

    name: str
    size_bytes: int = Field(ge=0)


class FileFields(StoredModel):
    """The fields of every stored file."""

    kind: AnyFileKind
    sha256: str
    size_bytes: int
    created_at: datetime
    created_by: str | None = Field(description="The name of the token that uploaded it.")
    last_used_at: datetime = Field(
        description="When it was last uploaded, looked up, or used by a new job."
    )

    @property
    def reference(self) -> str:
        """The reference to use in a spec: `sha256:1f0c…`."""
        return f"{DIGEST_PREFIX}{self.sha256}"


class StoredFile(FileFields):
    """A file of a project, which never changes."""

    contents: list[BundledFile] | None = Field(
        default=None, description="The files of a bundle; null for other kinds."
    )


class NamingJob(ApiModel):
    """A job whose spec names a file."""

    id: str
    name: str
    state: str


class ListedFile(FileFields):
    """A file of a project, with the jobs that name it."""

    job_count: int = Field(
        description="The number of jobs that use it. An unused file is deleted a day after its "
        "last use."
    )
    jobs: list[NamingJob] = Field(description="The newest of these jobs, at most 10.")


class FilePage(ApiModel):
    """A page of files, the newest first."""

    items: list[ListedFile]
    next_cursor: str | None = Field(description="null on the last page.")
