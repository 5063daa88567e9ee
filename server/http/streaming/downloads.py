"""Send a stored file, or a range of it, in constant memory."""

from dataclasses import dataclass

from fastapi import Request, Response

from infra.storage import Storage
from server.http.access.authenticator import Authenticator
from server.http.etag import matches_if_none_match
from server.http.ranges import requested_range
from server.http.responses import content_disposition
from server.http.streaming.stream_limits import owner_of
from server.http.streaming.streams import (
    LongResponse,
    Streams,
    authorization_check,
    iterate_in_threads,
)


@dataclass(frozen=True)
class StoredContent:
    """A stored file: where it is, and its name for the client."""

    folder: str
    """A job's id, or another folder of the storage."""
    path: str
    name: str
    size_bytes: int
    sha256: str


async def file_response(
    request: Request,
    file: StoredContent,
    storage: Storage,
    streams: Streams,
    authenticator: Authenticator,
) -> Response:
    """The response with the requested bytes. Raises StorageFailed and RangeNotSatisfiable."""
    etag = f'"{file.sha256}"'
    headers = {
        "ETag": etag,
        "Accept-Ranges": "bytes",
        "Cache-Control": "private, no-cache",  # file and permission may change
        "Content-Disposition": content_disposition(file.name),
        "X-Content-Type-Options": "nosniff",
    }
    if matches_if_none_match(request.headers.getlist("if-none-match"), etag):
        return Response(status_code=304, headers=headers)
    part = requested_range(request.headers, etag, file.size_bytes)
    start, end = part or (0, file.size_bytes)
    headers["Content-Length"] = str(end - start)
    if part is not None:
        headers["Content-Range"] = f"bytes {start}-{end - 1}/{file.size_bytes}"
    owner = owner_of(request)
    streams.files.check(owner)
    pieces = await streams.loaders.run(
        owner.token_id, storage.read, file.folder, file.path, start, end
    )
    return LongResponse(
        streams,
        iterate_in_threads(streams, owner, pieces),
        status_code=206 if part is not None else 200,
        headers=headers,
        media_type="application/octet-stream",
        open_streams=streams.files,
        owner=owner,
        allowed=authorization_check(request, authenticator),
    )
