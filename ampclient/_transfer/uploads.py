"""Upload a file or a folder: resumes after broken connections, also of an earlier process."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from ampclient import _endpoints as endpoints
from ampclient._http.retry import POLLING_RETRY_TIMEOUT_S
from ampclient._http.transport import Transport
from ampclient._transfer.progress import OnProgress
from ampclient._transfer.upload_source import UploadSource, open_source
from ampclient.errors import AmpcoreError, Conflict, ConnectionFailed, StatusError
from ampspec.api.datasets import DatasetVersion, Upload

CHUNK_BYTES: Final = 2**30
"""The bytes of one request: what a server that is killed loses. It joins those of a larger file."""
MAX_CHUNKS: Final = 1000
"""A larger file is sent in larger requests: the server limits their number."""
MIN_BYTES_PER_S: Final = 10 * 2**20
"""How fast a server at least stores, hashes and joins what it has received."""
TIMEOUT_S: Final = 60.0


async def upload(
    transport: Transport, name: str, path: Path, on_progress: OnProgress
) -> DatasetVersion:
    """Upload a file, or a folder as a zip archive, as the next version of a dataset.

    Raises StatusError, ConnectionFailed, OSError, and ValueError for a folder without files.
    """
    source = await transport.run_in_thread(open_source, path)
    sha256 = await transport.run_in_thread(source.sha256)
    size = source.size_bytes
    started = await transport.send(endpoints.start_upload(name, source.file_name, size, sha256))
    if started.version is None:
        await _send_all(transport, source, started, on_progress)
        complete = endpoints.complete_upload(name, started.id)
        version = await transport.send(complete, timeout_s=upload_timeout_s(size))
    else:
        version = await transport.send(endpoints.get_dataset_version(name, started.version))
    on_progress(source.file_name, size, size)
    return version


async def _send_all(
    transport: Transport, source: UploadSource, started: Upload, on_progress: OnProgress
) -> None:
    """Send what the server does not have yet, over as many connections as needed."""
    size, offset = source.size_bytes, started.offset
    position = endpoints.get_upload(started.dataset, started.id)
    retries = transport.retries(position, POLLING_RETRY_TIMEOUT_S)
    chunk = max(CHUNK_BYTES, -(-size // MAX_CHUNKS))
    while offset < size:
        on_progress(source.file_name, offset, size)
        try:
            end = min(offset + chunk, size)
            offset = await _send_chunk(transport, source, started, (offset, end), on_progress)
            retries.reset()
        except (ConnectionFailed, StatusError) as error:
            delay_s = retries.next_delay_s(_repeatable(error))
            await transport.sleep(delay_s)
            offset = (await transport.send(position)).offset


async def _send_chunk(
    transport: Transport,
    source: UploadSource,
    started: Upload,
    piece: tuple[int, int],
    on_progress: OnProgress,
) -> int:
    """Send the bytes from the first offset of `piece` to its second; returns the new offset."""
    start, end = piece
    report = reporter(source, on_progress)
    pieces = source.read_reporting(start, end, report)
    request = endpoints.append_to_upload(started.dataset, started.id, start, end)
    answer = await transport.send_content(request, pieces, timeout_s=upload_timeout_s(end - start))
    return answer.offset


def _repeatable(error: AmpcoreError) -> AmpcoreError:
    """The error as one after which the rest may be sent.

    A conflict means that another request has sent these bytes, perhaps this client's own, whose
    response was lost: the next offset is read again.
    """
    if isinstance(error, Conflict):
        return ConnectionFailed(error.detail)
    return error


def reporter(source: UploadSource, on_progress: OnProgress) -> Callable[[int], object]:
    """Reports the bytes of this source that were sent."""
    return lambda sent_bytes: on_progress(source.file_name, sent_bytes, source.size_bytes)


def upload_timeout_s(size_bytes: int) -> float:
    """How long the server may take to receive and store that many bytes."""
    return TIMEOUT_S + size_bytes / MIN_BYTES_PER_S
