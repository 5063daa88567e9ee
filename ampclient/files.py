"""`client.files`: files that jobs name by their SHA-256, such as initial weights."""

from collections.abc import AsyncGenerator
from functools import partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Final, Unpack

from ampclient import _endpoints as endpoints
from ampclient._http.deprecation import renamed
from ampclient._http.operations import M, Operations, operation, paginated
from ampclient._http.options import RequestOptions
from ampclient._http.pages import read_pages
from ampclient._transfer.code import upload_bundle
from ampclient._transfer.downloads import RemoteFile, download
from ampclient._transfer.file_uploads import upload_file
from ampclient._transfer.progress import OnProgress, current_bytes_callback, no_progress
from ampclient._transfer.upload_source import file_source
from ampclient._transfer.weights import Weights, upload_weights
from ampspec.api.files import ListedFile, StoredFile
from ampspec.old_names import old_attributes, one_class_for
from ampspec.references.stored_files import FileKind, digest_of

ENDINGS: Final = {FileKind.WEIGHTS: ".safetensors", FileKind.BUNDLE: ".zip"}
NAME_DIGITS: Final = 16
"""Of the SHA-256, in the name of a downloaded file."""


class Files(Operations[M]):
    """The files of the token's project that jobs name by their SHA-256."""

    @operation
    @renamed(progress="on_progress")
    async def upload(
        self,
        path: str | PathLike[str],
        *,
        kind: FileKind | str,
        on_progress: OnProgress = no_progress,
    ) -> StoredFile:
        """Upload a file, unless the project has the same bytes; a spec names its `reference`.

        The server deletes a file that no job names a day after its last use.

        Args:
            path: The file.
            kind: "weights" or "bundle".
            on_progress: Called with the name of the file, its bytes sent so far, and all its bytes.

        Raises:
            ValueError: There is no such kind.
            DatasetQuotaExceeded: The project has not enough bytes left.
            OSError: The file cannot be read.
        """
        on_progress = current_bytes_callback(on_progress)
        source = file_source(Path(path))
        return await upload_file(self._transport, FileKind(kind), source, on_progress)

    @operation
    async def upload_bundle(self, folder: str | PathLike[str]) -> StoredFile:
        """Upload the code of a folder, unless the project has it; needs the scope "jobs:run-code".

        Names that begin with a dot, __pycache__, node_modules, venv and compiled modules are left
        out. `client.jobs.submit(spec, code=folder)` does this, too.

        Raises:
            ValueError: The folder has no files, links, or too many or too large files.
            Forbidden: The token does not have the scope.
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
    def list(
        self,
        *,
        kind: FileKind | str | None = None,
        limit: int | None = None,
        **options: Unpack[RequestOptions],
    ) -> AsyncGenerator[ListedFile, None]:
        """All files, the newest first, each with the jobs that use it.

        Args:
            kind: "weights" or "bundle"; None for both.
            limit: Maximum number of files; None: all.
            **options: See `RequestOptions`.
        """
        page_request = partial(endpoints.list_files, None if kind is None else FileKind(kind))
        return read_pages(self._transport, page_request, options, page_size=100, limit=limit)

    @operation
    async def delete(
        self, reference: str, *, kind: FileKind | str, **options: Unpack[RequestOptions]
    ) -> None:
        """Delete the file with a SHA-256, such as "sha256:1f0c…".

        Raises NotFound, and Conflict if a job names it, also one that has ended.
        """
        request = endpoints.delete_file(FileKind(kind), digest_of(reference))
        await self._transport.send(request, **options)

    @operation
    async def get(
        self, reference: str, *, kind: FileKind | str, **options: Unpack[RequestOptions]
    ) -> StoredFile:
        """The file with a SHA-256, such as "sha256:1f0c…". Raises NotFound."""
        request = endpoints.get_file(FileKind(kind), digest_of(reference))
        return await self._transport.send(request, **options)

    @operation
    @renamed(progress="on_progress")
    async def download(
        self,
        reference: str,
        *,
        kind: FileKind | str,
        to: str | PathLike[str] = ".",
        on_progress: OnProgress = no_progress,
    ) -> Path:
        """Download the file with a SHA-256.

        A complete file is not downloaded again; a partial one is resumed, in this call or a later
        one.

        Args:
            reference: The file, such as "sha256:1f0c…".
            kind: "weights" or "bundle".
            to: The folder for the file, which is named after its kind and its SHA-256.
            on_progress: Called with the name of the file, its bytes received so far, and all its
                bytes.

        Returns:
            The path of the file on this machine.

        Raises:
            NotFound: There is no such file.
            DigestMismatch: The bytes do not match the SHA-256.
            OSError: The file cannot be written.
        """
        file_kind, sha256 = FileKind(kind), digest_of(reference)
        stored = await self._transport.send(endpoints.get_file(file_kind, sha256))
        file = RemoteFile(
            reference,
            stored.size_bytes,
            sha256,
            lambda start: endpoints.get_file_content(file_kind, sha256, start=start),
        )
        target = Path(to) / f"{file_kind}-{sha256[:NAME_DIGITS]}{ENDINGS[file_kind]}"
        await download(self._transport, file, target, current_bytes_callback(on_progress))
        return target


if not TYPE_CHECKING:
    __getattr__ = old_attributes(__name__, one_class_for("Files"))
