"""Datasets, their versions and their uploads."""

from datetime import datetime
from typing import Annotated, Any, Final

from pydantic import AfterValidator, Field, StringConstraints

from ampspec.api.base import ApiModel, RequestModel, StoredModel
from ampspec.references.dataset_reference import DATASET_NAME

MAX_FILE_NAME_BYTES: Final = 200
"""File systems allow 255; programs that write the file append suffixes."""


def _check_length(name: str) -> str:
    if (size := len(name.encode())) > MAX_FILE_NAME_BYTES:
        raise ValueError(f"Expected at most {MAX_FILE_NAME_BYTES} bytes of UTF-8, received {size}.")
    return name


DatasetName = Annotated[str, StringConstraints(pattern=f"^{DATASET_NAME}$")]
Sha256 = Annotated[str, StringConstraints(pattern="^[0-9a-f]{64}$")]
FileName = Annotated[
    str,
    StringConstraints(
        min_length=1,
        max_length=MAX_FILE_NAME_BYTES,
        pattern=r"^[^/\\\x00-\x1f\x7f.][^/\\\x00-\x1f\x7f]*$",
    ),
    AfterValidator(_check_length),
]
"""A plain file name: no path, no control characters, not hidden."""


class UploadRequest(RequestModel):
    """The request to start an upload."""

    file: FileName = Field(description="The name of the file; its suffix tells the format.")
    size_bytes: int = Field(ge=0, le=2**53)
    sha256: Sha256 | None = Field(
        None, description="The SHA-256 of the file; checked when the upload is completed."
    )


class ListedDatasetVersion(StoredModel):
    """A version of a dataset, without its columns and its preview."""

    dataset: str = Field(description="The name of the dataset.")
    number: int
    file_name: str
    size_bytes: int
    sha256: str
    state: str = Field(
        description="described, undescribed (no reader supports the file) or invalid."
    )
    message: str | None = Field(description="Why the file is invalid or could not be described.")
    kind: str | None = Field(description="The format of the file, if a reader supports it.")
    rows: int | None
    created_at: datetime
    created_by: str | None = Field(description="The name of the token that uploaded it.")

    @property
    def reference(self) -> str:
        """The reference to use in a spec: `birds@3`."""
        return f"{self.dataset}@{self.number}"


class DatasetVersion(ListedDatasetVersion):
    """A version of a dataset."""

    options: dict[str, Any] | None = Field(
        None,
        description="How the file is read, unless a spec says otherwise.",
    )
    splits: dict[str, int] | None = Field(
        None, description="The rows of each split; empty for data without splits."
    )
    left_out: list[dict[str, str]] | None = Field(
        None, description="Parts of the file that are not read, each with a `name` and a `reason`."
    )
    columns: list[dict[str, Any]] | None = Field(
        description="The columns or arrays: name, shape, dtype, and classes of labels."
    )
    preview: dict[str, Any] | None = Field(
        description="`rows` as values by column, and `pictures` as small PNG files in base64."
    )


class Dataset(StoredModel):
    """A dataset with its newest version."""

    name: str
    project: str
    created_at: datetime
    created_by: str | None
    version_count: int
    size_bytes: int = Field(description="The total size of all versions.")
    newest: ListedDatasetVersion


class DatasetPage(ApiModel):
    """A page of datasets, ordered by name."""

    items: list[Dataset]
    next_cursor: str | None = Field(description="null on the last page.")


class DatasetVersionPage(ApiModel):
    """A page of the versions of a dataset, newest first."""

    items: list[ListedDatasetVersion]
    next_cursor: str | None = Field(description="null on the last page.")


class Upload(ApiModel):
    """An upload of a file."""

    id: str
    dataset: str = Field(description="The name of the dataset.")
    file: str
    size_bytes: int
    offset: int = Field(description="The number of stored bytes; the next PATCH starts here.")
    expires_at: datetime = Field(
        description="The upload is deleted if no data arrives before this time."
    )
    version: int | None = Field(
        description="The version created from the upload; null while it is in progress."
    )
