"""Requests for files that jobs name by their SHA-256."""

from ampclient._endpoints.datasets import BYTES
from ampclient._endpoints.request import (
    JsonRequest,
    Request,
    idempotency_header,
    params,
    parse_nothing,
    quote_path,
)
from ampspec.api.files import FilePage, StoredFile
from ampspec.references.stored_files import FileKind


def list_files(kind: FileKind | None, limit: int, cursor: str | None) -> JsonRequest[FilePage]:
    """A page of the files of the project."""
    page = params(kind=kind, limit=limit, cursor=cursor)
    return JsonRequest(method="GET", path="/files", params=page, read=FilePage.from_json)


def delete_file(kind: FileKind, sha256: str) -> JsonRequest[None]:
    """Delete a file."""
    return JsonRequest(
        method="DELETE",
        path=_path(kind, sha256),
        headers=idempotency_header(),
        read=parse_nothing,
    )


def get_file(kind: FileKind, sha256: str) -> JsonRequest[StoredFile]:
    """A file of the project."""
    return JsonRequest(method="GET", path=_path(kind, sha256), read=StoredFile.from_json)


def put_file(kind: FileKind, sha256: str, size_bytes: int) -> JsonRequest[StoredFile]:
    """Store a file; its content is sent separately."""
    headers = [("Content-Type", BYTES), ("Content-Length", str(size_bytes))]
    path = _path(kind, sha256)
    return JsonRequest(method="PUT", path=path, headers=headers, read=StoredFile.from_json)


def get_file_content(kind: FileKind, sha256: str, *, start: int) -> Request:
    """The bytes of a file from offset `start` on."""
    # No compression: a range of a compressed response could not be resumed.
    headers = [("Accept", "*/*"), ("Accept-Encoding", "identity")]
    if start:
        headers.append(("Range", f"bytes={start}-"))
    return Request(method="GET", path=f"{_path(kind, sha256)}/content", headers=headers)


def _path(kind: FileKind, sha256: str) -> str:
    return f"/files/{quote_path(kind)}/{quote_path(sha256)}"
