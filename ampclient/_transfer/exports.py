"""Exports the steps of a job to a file, in a format that the server writes."""

import errno
import os
import re
from collections.abc import AsyncGenerator, Mapping
from os import PathLike
from pathlib import Path
from typing import Final
from uuid import uuid4

from ampclient import _endpoints as endpoints
from ampclient._http.backend import StreamedResponse
from ampclient._http.responses import unexpected_response
from ampclient._http.retry import POLLING_RETRY_TIMEOUT_S, RetryState
from ampclient._http.transport import Transport
from ampclient._transfer.downloads import is_safe_file_name
from ampclient._transfer.progress import OnProgress
from ampclient.errors import ConnectionFailed, StatusError

MAX_TRIES: Final = 3
"""Tries for a complete response: it is generated while it is sent, so it cannot be resumed."""
FILE_NAME: Final = re.compile(r'filename="([^"]+)"')
TFEVENTS: Final = "tfevents"
"""TensorBoard reads files with this text in their names."""
FILE_ENDINGS: Final = {
    "arrow": b"\xff\xff\xff\xff\0\0\0\0",
    "csv": b"\n",
    "ndjson": b"\n",
    "parquet": b"PAR1",
}
"""The last bytes of complete files: an HTTP/1.0 proxy may hide that a response was cut off."""


async def export(
    transport: Transport,
    request: endpoints.Request,
    path: str | PathLike[str],
    export_format: str,
    on_progress: OnProgress,
) -> Path:
    """Write the response to `path`, or into that folder under the server's file name.

    Raises OSError, StatusError and, if no response arrives completely, ConnectionFailed.
    """
    retries = transport.retries(request, POLLING_RETRY_TIMEOUT_S)
    tries = 0
    while True:
        try:
            async with transport.open(request) as response:
                tries += 1
                target = _target(path, export_format, response)
                await _receive(response, retries, target, export_format, on_progress)
                return target
        except (ConnectionFailed, StatusError) as error:
            if tries == MAX_TRIES:
                raise
            await transport.sleep(retries.next_delay_s(error))


async def iter_response(
    transport: Transport, request: endpoints.Request
) -> AsyncGenerator[bytes, None]:
    """The response in chunks; the request is retried only until the first chunk has arrived."""
    retries = transport.retries(request, POLLING_RETRY_TIMEOUT_S)
    begun = False
    while True:
        try:
            async with transport.open(request) as response:
                async for chunk in response.chunks:
                    begun = True
                    yield chunk
                return
        except (ConnectionFailed, StatusError) as error:
            if begun:
                raise
            await transport.sleep(retries.next_delay_s(error))


def _target(path: str | PathLike[str], export_format: str, response: StreamedResponse) -> Path:
    """The path of the file, which may not be a device or a pipe. Raises OSError."""
    target = Path(path)
    if _is_folder(path, export_format):
        target /= _name_in(response.headers, response.status)
    if target.exists() and not target.is_file():
        raise OSError(errno.EINVAL, "Expected a file or a folder", str(target))
    return target


def _is_folder(path: str | PathLike[str], export_format: str) -> bool:
    """Whether `path` is a folder, existing or new; TensorBoard's files need one."""
    if export_format == "tensorboard" and TFEVENTS not in Path(path).name:
        return True
    return os.fspath(path).endswith(("/", os.sep)) or Path(path).is_dir()


def _name_in(headers: Mapping[str, str], status: int) -> str:
    """The file name in Content-Disposition, in ASCII. Raises UnexpectedResponse."""
    disposition = headers.get("content-disposition", "")
    match = FILE_NAME.search(disposition)
    if match is None or not is_safe_file_name(match[1]):
        raise unexpected_response(
            f"Expected a file's name, received {disposition!r}.", status, headers
        )
    return match[1]


async def _receive(
    response: StreamedResponse,
    retries: RetryState,
    target: Path,
    export_format: str,
    on_progress: OnProgress,
) -> None:
    """Write to a temporary file in the same folder and rename it once it is complete."""
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f".{target.name}.{uuid4().hex[:8]}.part")
    try:
        with part.open("xb") as file:
            async for chunk in response.chunks:
                file.write(chunk)
                on_progress(target.name, file.tell(), None)
                retries.reset()
        if not _is_whole(part, export_format):
            raise ConnectionFailed("The connection closed before the response was complete.")
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def _is_whole(file: Path, export_format: str) -> bool:
    """Whether the file ends as complete files of its format do, where that can be checked."""
    ending, size_bytes = FILE_ENDINGS.get(export_format, b""), file.stat().st_size
    if export_format == "ndjson" and size_bytes == 0:
        return True  # there are no steps
    with file.open("rb") as content:
        content.seek(max(0, size_bytes - len(ending)))
        return content.read() == ending
