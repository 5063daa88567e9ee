"""Answer with a file of a job, or with a range of its bytes, in constant memory."""

import anyio.to_thread
from fastapi import Request, Response

from server.access.keyring import Keyring
from server.http.etag import is_known
from server.http.ranges import wanted
from server.http.responses import attachment
from server.streaming.live import still_allowed
from server.streaming.shares import owner_of
from server.streaming.streams import LongResponse, Streams, loaded
from service.storage import Storage
from store.tables import Artifact


async def answer(
    request: Request, file: Artifact, storage: Storage, streams: Streams, keyring: Keyring
) -> Response:
    """The bytes that the request asks for. Raises StorageFailed and RangeNotSatisfiable."""
    etag = f'"{file.sha256}"'
    headers = {
        "ETag": etag,
        "Accept-Ranges": "bytes",
        "Cache-Control": "private, no-cache",  # a name may get other bytes; who may read, too
        "Content-Disposition": attachment(file.path.rpartition("/")[2]),
        "X-Content-Type-Options": "nosniff",
    }
    if is_known(request.headers.getlist("if-none-match"), etag):
        return Response(status_code=304, headers=headers)
    part = wanted(request.headers, etag, file.size_bytes)
    start, end = part or (0, file.size_bytes)
    headers["Content-Length"] = str(end - start)
    if part is not None:
        headers["Content-Range"] = f"bytes {start}-{end - 1}/{file.size_bytes}"
    owner = owner_of(request)
    streams.files.check(owner)
    pieces = await anyio.to_thread.run_sync(
        storage.read, file.job_id, file.path, start, end, limiter=streams.loaders
    )
    return LongResponse(
        streams,
        loaded(streams, pieces),
        status_code=206 if part is not None else 200,
        headers=headers,
        media_type="application/octet-stream",
        among=streams.files,
        owner=owner,
        allowed=still_allowed(request, keyring),
    )
