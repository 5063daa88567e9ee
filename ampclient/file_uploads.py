"""Upload a file under its SHA-256, unless the server has it."""

from ampclient import requests
from ampclient._transport import Transport
from ampclient.errors import ConnectionFailed, NotFound, StatusError
from ampclient.retry import POLLING_RETRY_TIMEOUT_S, RetryState
from ampclient.upload_source import UploadSource
from ampclient.uploads import OnProgress, upload_timeout_s
from ampspec.api.files import StoredFile
from ampspec.references.stored_files import FileKind


async def upload_file(
    transport: Transport, kind: FileKind, source: UploadSource, on_progress: OnProgress
) -> StoredFile:
    """The file as the server has it; its bytes are sent only if it is new.

    Raises StatusError, ConnectionFailed and OSError.
    """
    size, sha256 = source.size_bytes, await transport.run_in_thread(source.sha256)
    lookup = requests.get_file(kind, sha256)
    retries = RetryState(lookup, POLLING_RETRY_TIMEOUT_S)
    while True:
        try:
            stored = await transport.send(lookup)
            break
        except NotFound:
            pass
        try:
            stored = await _send(transport, kind, sha256, source, on_progress)
            break
        except (ConnectionFailed, StatusError) as error:
            # Sending it twice is safe. It may have arrived although the response was lost.
            await transport.sleep(retries.next_delay_s(error))
    on_progress(size, size)
    return stored


async def _send(
    transport: Transport, kind: FileKind, sha256: str, source: UploadSource, progress: OnProgress
) -> StoredFile:
    size = source.size_bytes
    pieces = source.read_reporting(0, size, lambda sent: progress(sent, size))
    request = requests.put_file(kind, sha256, size)
    return await transport.send_content(request, pieces, timeout=upload_timeout_s(size))
