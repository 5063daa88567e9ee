"""Upload a file under its SHA-256, unless the server has it."""

from ampclient import _endpoints as endpoints
from ampclient._http.retry import POLLING_RETRY_TIMEOUT_S
from ampclient._http.transport import Transport
from ampclient._transfer.progress import OnProgress
from ampclient._transfer.upload_source import UploadSource
from ampclient._transfer.uploads import reporter, upload_timeout_s
from ampclient.errors import ConnectionFailed, NotFound, StatusError
from ampspec.api.files import StoredFile
from ampspec.references.stored_files import FileKind


async def upload_file(
    transport: Transport, kind: FileKind, source: UploadSource, on_progress: OnProgress
) -> StoredFile:
    """The file as the server has it; its bytes are sent only if it is new.

    Raises StatusError, ConnectionFailed and OSError.
    """
    size, sha256 = source.size_bytes, await transport.run_in_thread(source.sha256)
    lookup = endpoints.get_file(kind, sha256)
    retries = transport.retries(lookup, POLLING_RETRY_TIMEOUT_S)
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
    on_progress(source.file_name, size, size)
    return stored


async def _send(
    transport: Transport, kind: FileKind, sha256: str, source: UploadSource, on_progress: OnProgress
) -> StoredFile:
    size = source.size_bytes
    pieces = source.read_reporting(0, size, reporter(source, on_progress))
    request = endpoints.put_file(kind, sha256, size)
    return await transport.send_content(request, pieces, timeout_s=upload_timeout_s(size))
