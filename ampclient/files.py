"""`client.files`: files that jobs name by their SHA-256, such as initial weights."""

from collections.abc import AsyncGenerator
from os import PathLike
from pathlib import Path
from typing import Unpack

from ampclient import requests
from ampclient._request_options import RequestOptions
from ampclient._sync_async import Async, AsyncRaw, Sync, SyncRaw, operation, paginated
from ampclient._transport import Transport
from ampclient.code_upload import upload_bundle
from ampclient.downloads import RemoteFile, download
from ampclient.file_uploads import upload_file
from ampclient.upload_source import file_source
from ampclient.uploads import OnProgress
from ampclient.weights_upload import Weights, upload_weights
from ampspec.api.files import ListedFile, StoredFile
from ampspec.references.stored_files import FileKind, digest_of


class BaseFiles:
    """The files of the token's project that jobs name by their SHA-256."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    @operation
    async def upload(
        self,
        path: str | PathLike[str],
        *,
        kind: FileKind | str,
        progress: OnProgress = lambda sent_bytes, all_bytes: None,
    ) -> StoredFile:
        """Upload a file, unless the project has the same bytes; a spec names its `reference`.

        The server deletes a file that no job names a day after its last use.

        Args:
            path: The file.
            kind: "weights" or "bundle".
            progress: Called with the number of bytes sent so far, and of all bytes.

        Raises:
            ValueError: There is no such kind.
            DatasetQuotaExceeded: The project has not enough bytes left.
            OSError: The file cannot be read.
        """
        source = file_source(Path(path))
        return await upload_file(self._transport, FileKind(kind), source, progress)

    @operation
    async def upload_bundle(self, folder: str | PathLike[str]) -> StoredFile:
        """Upload the code of a folder, unless the project has it; needs the right "code".

        Names that begin with a dot, __pycache__, node_modules, venv and compiled modules are left
        out. `client.jobs.submit(spec, code=folder)` does this, too.

        Raises:
            ValueError: The folder has no files, links, or too many or too large files.
            Forbidden: The token does not have the right.
            OSError: A file cannot be read.
        """
        return await upload_bundle(self._transport, Path(folder))

    @operation
    async def upload_weights(self, weights: Weights) -> StoredFile:
        """Upload weights for jobs to start from, unless the project has the same.

        A spec names them as `init: {weights: REFERENCE}`; `client.jobs.submit(spec, weights=…)`
        does all of this.

        Args:
            weights: A safetensors file, its bytes, or arrays by name, as in
                `{"conv2d/kernel": array}`: the path of the layer, and the name of its weight.

        Raises:
            ValueError: An array is not of numbers.
            DatasetQuotaExceeded: The project has not enough bytes left.
            OSError: The file cannot be read.
        """
        return await upload_weights(self._transport, weights)

    @paginated
    async def list(
        self, *, kind: FileKind | str | None = None, **options: Unpack[RequestOptions]
    ) -> AsyncGenerator[ListedFile, None]:
        """All files, the newest first, each with the jobs that name it; lazy.

        Args:
            kind: "weights" or "bundle"; None for both.
            **options: See `RequestOptions`.
        """
        wanted = FileKind(kind) if kind is not None else None
        cursor = None
        while True:
            request = requests.list_files(wanted, limit=requests.FILES_PER_PAGE, cursor=cursor)
            page = await self._transport.send(request, **options)
            for file in page.items:
                yield file
            cursor = page.next_cursor
            if cursor is None:
                return

    @operation
    async def delete(
        self, reference: str, *, kind: FileKind | str, **options: Unpack[RequestOptions]
    ) -> None:
        """Delete the file with a SHA-256, such as "sha256:1f0c…".

        Raises NotFound, and Conflict if a job names it, also one that has ended.
        """
        request = requests.delete_file(FileKind(kind), digest_of(reference))
        await self._transport.send(request, **options)

    @operation
    async def get(
        self, reference: str, *, kind: FileKind | str, **options: Unpack[RequestOptions]
    ) -> StoredFile:
        """The file with a SHA-256, such as "sha256:1f0c…". Raises NotFound."""
        request = requests.get_file(FileKind(kind), digest_of(reference))
        return await self._transport.send(request, **options)

    @operation
    async def download(
        self,
        reference: str,
        *,
        kind: FileKind | str,
        to: str | PathLike[str],
        progress: OnProgress = lambda received_bytes, all_bytes: None,
    ) -> Path:
        """Download the file with a SHA-256 to the path `to`, and return that path.

        A partial download is resumed.

        Raises:
            NotFound: There is no such file.
            DigestMismatch: The bytes do not match the SHA-256.
            OSError: The file cannot be written.
        """
        wanted, sha256 = FileKind(kind), digest_of(reference)
        stored = await self._transport.send(requests.get_file(wanted, sha256))
        file = RemoteFile(
            reference,
            stored.size_bytes,
            sha256,
            lambda start: requests.get_file_content(wanted, sha256, start=start),
        )
        target = Path(to)
        await download(
            self._transport, file, target, lambda size: progress(size, stored.size_bytes)
        )
        return target


class Files(Sync, BaseFiles):
    """The files of the token's project that jobs name by their SHA-256."""


class AsyncFiles(Async, BaseFiles):
    """The files of the token's project that jobs name by their SHA-256."""


class RawFiles(SyncRaw, BaseFiles):
    """The same operations, each with its HTTP response."""


class AsyncRawFiles(AsyncRaw, BaseFiles):
    """The same operations for asyncio, each with its HTTP response."""
