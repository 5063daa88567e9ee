"""Bring the steps of a job into a file, in a form that the server writes."""

import errno
import os
import re
from collections.abc import AsyncGenerator, Callable, Mapping
from os import PathLike
from pathlib import Path
from typing import Final
from uuid import uuid4

from ampclient import requests
from ampclient._responses import unexpected_response
from ampclient._transport import StreamedResponse, Transport
from ampclient.downloads import is_safe_file_name
from ampclient.errors import ConnectionFailed, StatusError
from ampclient.retry import POLLING_RETRY_TIMEOUT_S, RetryState

OnProgress = Callable[[int], object]
"""Called with how many bytes are here."""

MAX_TRIES: Final = 3
"""At a whole answer: it is made while it is sent, so one that breaks off begins from the start."""
FILE_NAME: Final = re.compile(r'filename="([^"]+)"')
TFEVENTS: Final = "tfevents"
"""TensorBoard reads the files of a folder whose names have this in them."""
FILE_ENDINGS: Final = {
    "arrow": b"\xff\xff\xff\xff\0\0\0\0",
    "csv": b"\n",
    "ndjson": b"\n",
    "parquet": b"PAR1",
}
"""Of whole files: a proxy that speaks HTTP/1.0 may hide that an answer broke off."""


async def export(
    transport: Transport,
    request: requests.Request,
    path: str | PathLike[str],
    export_format: str,
    on_progress: OnProgress,
) -> Path:
    """Bring the answer to `path`, or under the server's name into that folder.

    Raises OSError, StatusError and, where no answer comes whole, ConnectionFailed.
    """
    retries = RetryState(request, POLLING_RETRY_TIMEOUT_S)
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
    transport: Transport, request: requests.Request
) -> AsyncGenerator[bytes, None]:
    """The answer piece by piece; it is asked for again only while none of it has come."""
    retries = RetryState(request, POLLING_RETRY_TIMEOUT_S)
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
    """Where the file goes; never to the place of a device or a pipe. Raises OSError."""
    target = Path(path)
    if _is_folder(path, export_format):
        target /= _name_in(response.headers, response.status)
    if target.exists() and not target.is_file():
        raise OSError(errno.EINVAL, "Expected a file or a folder", str(target))
    return target


def _is_folder(path: str | PathLike[str], export_format: str) -> bool:
    """One that is there or is to be made; TensorBoard's files have no other place."""
    if export_format == "tensorboard" and TFEVENTS not in Path(path).name:
        return True
    return os.fspath(path).endswith(("/", os.sep)) or Path(path).is_dir()


def _name_in(headers: Mapping[str, str], status: int) -> str:
    """The server's name for the file, its ASCII form. Raises UnexpectedResponse."""
    disposition = headers.get("content-disposition", "")
    found = FILE_NAME.search(disposition)
    if found is None or not is_safe_file_name(found[1]):
        raise unexpected_response(
            f"Expected a file's name, received {disposition!r}.", status, headers
        )
    return found[1]


async def _receive(
    response: StreamedResponse,
    retries: RetryState,
    target: Path,
    export_format: str,
    on_progress: OnProgress,
) -> None:
    """Write the file beside its place and move it there once it is whole."""
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f".{target.name}.{uuid4().hex[:8]}.part")
    try:
        with part.open("xb") as file:
            async for chunk in response.chunks:
                file.write(chunk)
                on_progress(file.tell())
                retries.reset()
        if not _is_whole(part, export_format):
            raise ConnectionFailed("The connection closed before the response was complete.")
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def _is_whole(file: Path, export_format: str) -> bool:
    """Whether it ends as files of its form do, as far as that can be seen."""
    ending, size_bytes = FILE_ENDINGS.get(export_format, b""), file.stat().st_size
    if export_format == "ndjson" and size_bytes == 0:
        return True  # there are no steps
    with file.open("rb") as content:
        content.seek(max(0, size_bytes - len(ending)))
        return content.read() == ending
