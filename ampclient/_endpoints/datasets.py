"""Requests for datasets, their versions and uploads."""

from typing import Final

from ampclient._endpoints.request import (
    JsonRequest,
    Request,
    idempotency_header,
    params,
    parse_nothing,
    quote_path,
)
from ampspec.api.datasets import Dataset, DatasetPage, DatasetVersion, DatasetVersionPage, Upload
from ampspec.references.dataset_reference import VersionReference

BYTES: Final = "application/octet-stream"


def list_datasets(limit: int, cursor: str | None) -> JsonRequest[DatasetPage]:
    """A page of the datasets."""
    page = params(limit=limit, cursor=cursor)
    return JsonRequest(method="GET", path="/datasets", params=page, read=DatasetPage.from_json)


def get_dataset(name: str) -> JsonRequest[Dataset]:
    """A dataset with its newest version."""
    return JsonRequest(method="GET", path=_path(name), read=Dataset.from_json)


def list_dataset_versions(
    name: str, limit: int, cursor: str | None
) -> JsonRequest[DatasetVersionPage]:
    """A page of the versions of a dataset."""
    return JsonRequest(
        method="GET",
        path=_path(name, "versions"),
        params=params(limit=limit, cursor=cursor),
        read=DatasetVersionPage.from_json,
    )


def get_dataset_version(name: str, number: int) -> JsonRequest[DatasetVersion]:
    """A version of a dataset."""
    path = _path(name, "versions", str(number))
    return JsonRequest(method="GET", path=path, read=DatasetVersion.from_json)


def get_dataset_content(name: str, number: int, *, start: int) -> Request:
    """The bytes of a version from offset `start` on."""
    # No compression: a range of a compressed response could not be resumed.
    headers = [("Accept", "*/*"), ("Accept-Encoding", "identity")]
    if start:
        headers.append(("Range", f"bytes={start}-"))
    path = _path(name, "versions", str(number), "content")
    return Request(method="GET", path=path, headers=headers)


def delete_dataset(version: VersionReference) -> JsonRequest[None]:
    """Delete a version, or all of them without a number."""
    segments = [] if version.number is None else ["versions", str(version.number)]
    path = _path(version.name, *segments)
    return JsonRequest(method="DELETE", path=path, headers=idempotency_header(), read=parse_nothing)


def start_upload(name: str, file: str, size_bytes: int, sha256: str) -> JsonRequest[Upload]:
    """Start an upload; the server returns an unfinished one of the same file."""
    return JsonRequest(
        method="POST",
        path=_path(name, "uploads"),
        body={"file": file, "size_bytes": size_bytes, "sha256": sha256},
        headers=idempotency_header(),
        read=Upload.from_json,
    )


def get_upload(name: str, upload_id: str) -> JsonRequest[Upload]:
    """How many bytes of an upload are stored."""
    path = _path(name, "uploads", quote_path(upload_id))
    return JsonRequest(method="GET", path=path, read=Upload.from_json)


def append_to_upload(name: str, upload_id: str, start: int, end: int) -> JsonRequest[Upload]:
    """Append the bytes from `start` to before `end`; its content is sent separately."""
    headers = [
        ("Upload-Offset", str(start)),
        ("Content-Type", BYTES),
        ("Content-Length", str(end - start)),
    ]
    path = _path(name, "uploads", quote_path(upload_id))
    return JsonRequest(method="PATCH", path=path, headers=headers, read=Upload.from_json)


def complete_upload(name: str, upload_id: str) -> JsonRequest[DatasetVersion]:
    """Create a version from an upload; a repeat returns the same version."""
    path = _path(name, "uploads", quote_path(upload_id), "complete")
    # Its key is ignored by the server, for which a repeat is no change anyway.
    return JsonRequest(
        method="POST", path=path, headers=idempotency_header(), read=DatasetVersion.from_json
    )


def _path(name: str, *segments: str) -> str:
    return "/".join(["/datasets", quote_path(name), *segments])
