"""`client.datasets`: upload, list, read, download and delete datasets."""

import re
from collections.abc import AsyncGenerator
from os import PathLike
from pathlib import Path
from typing import Final, Unpack

from ampclient import requests
from ampclient._request_options import RequestOptions
from ampclient._sync_async import Async, AsyncRaw, Sync, SyncRaw, operation, paginated
from ampclient._transport import Transport
from ampclient.downloads import RemoteFile, download, is_safe_file_name
from ampclient.errors import UnexpectedResponse
from ampclient.upload_source import typed_name
from ampclient.uploads import OnProgress, upload
from ampspec.api.datasets import Dataset, DatasetVersion, ListedDatasetVersion
from ampspec.data.proposal import NoProposal, Proposal, propose_job
from ampspec.references.dataset_reference import DATASET_NAME, VersionReference

MAX_NAME: Final = 63


class BaseDatasets:
    """The datasets of the token's project."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    @operation
    async def upload(
        self,
        path: str | PathLike[str],
        *,
        name: str | None = None,
        progress: OnProgress = lambda sent_bytes, all_bytes: None,
    ) -> DatasetVersion:
        """Upload a file as the next version of a dataset, or a folder as a zip archive.

        An upload that was interrupted, also in another process, continues where it ended. Nothing
        is sent if the newest version has the same content; that version is returned.

        Args:
            path: The file or folder. Links are uploaded as the files that they lead to.
            name: The dataset, by default the name of the file without its ending.
            progress: Called with the number of bytes sent so far, and of all bytes.

        Raises:
            ValueError: `name` is not the name of a dataset, or the folder has no files, or a link
                that leads nowhere.
            DatasetQuotaExceeded: The project has not enough bytes left.
            OSError: The file cannot be read.
        """
        file = Path(path)
        wanted = VersionReference.parse(name if name is not None else name_of(file))
        if wanted.number is not None:
            raise ValueError(f"expected a name without a version, received {name!r}")
        return await upload(self._transport, wanted.name, file, progress)

    @paginated
    async def list(self, **options: Unpack[RequestOptions]) -> AsyncGenerator[Dataset, None]:
        """All datasets by name, each with its newest version; lazy, as `client.jobs.list` is."""
        cursor = None
        while True:
            request = requests.list_datasets(limit=requests.DATASETS_PER_PAGE, cursor=cursor)
            page = await self._transport.send(request, **options)
            for dataset in page.items:
                yield dataset
            cursor = page.next_cursor
            if cursor is None:
                return

    @paginated
    async def versions(
        self, name: str, **options: Unpack[RequestOptions]
    ) -> AsyncGenerator[ListedDatasetVersion, None]:
        """All versions of a dataset, newest first, without their previews. Raises NotFound."""
        name = VersionReference.parse(name).name
        cursor = None
        while True:
            request = requests.list_dataset_versions(
                name, limit=requests.DATASETS_PER_PAGE, cursor=cursor
            )
            page = await self._transport.send(request, **options)
            for version in page.items:
                yield version
            cursor = page.next_cursor
            if cursor is None:
                return

    @operation
    async def get(self, reference: str, **options: Unpack[RequestOptions]) -> DatasetVersion:
        """A version such as "birds@3", or the newest one of "birds". Raises NotFound."""
        return await self._find(reference, **options)

    @operation
    async def propose(self, reference: str, **options: Unpack[RequestOptions]) -> Proposal:
        """Propose a job for a version such as "birds@3", or for the newest one of "birds".

        Returns:
            A spec for `client.jobs.submit`, and the reasons for its inputs, target, task,
            preprocessing and split: a start to edit.

        Raises:
            NotFound: There is no such version.
            NoProposal: The version is not described, or has no column to predict.
        """
        version = await self._find(reference, **options)
        if version.kind is None or version.columns is None:
            why = version.message or "no reader supports its file"
            raise NoProposal(f"{version.reference} is not described: {why}")
        return propose_job(
            version.reference,
            version.kind,
            version.rows or 0,
            version.columns,
            version.splits or {},
        )

    @operation
    async def download(
        self,
        reference: str,
        *,
        to: str | PathLike[str] = ".",
        progress: OnProgress = lambda received_bytes, all_bytes: None,
    ) -> Path:
        """Download the file of a version such as "birds@3", or of the newest one of "birds".

        A complete file is not downloaded again; a partial one is resumed, in this call or a later
        one.

        Args:
            reference: The version.
            to: The folder for the file, which keeps its own name.
            progress: Called with the number of bytes received so far, and of all bytes.

        Returns:
            The path of the file on this machine.

        Raises:
            NotFound: There is no such version.
            DigestMismatch: The file does not match its SHA-256.
            OSError: The file cannot be written.
        """
        version = await self._find(reference)
        if not is_safe_file_name(version.file_name):
            raise UnexpectedResponse(f"The server sent an unsafe file name: {version.file_name!r}.")
        name, number = version.dataset, version.number
        file = RemoteFile(
            version.reference,
            version.size_bytes,
            version.sha256,
            lambda start: requests.get_dataset_content(name, number, start=start),
        )
        target = Path(to) / version.file_name
        await download(
            self._transport, file, target, lambda size: progress(size, version.size_bytes)
        )
        return target

    @operation
    async def delete(self, reference: str, **options: Unpack[RequestOptions]) -> None:
        """Delete a version such as "birds@3", or every version of "birds".

        Raises NotFound, and Conflict while a job that has not ended uses it.
        """
        wanted = VersionReference.parse(reference)
        await self._transport.send(requests.delete_dataset(wanted), **options)

    async def _find(self, reference: str, **options: Unpack[RequestOptions]) -> DatasetVersion:
        wanted = VersionReference.parse(reference)
        number = wanted.number
        if number is None:
            dataset = await self._transport.send(requests.get_dataset(wanted.name), **options)
            number = dataset.newest.number
        request = requests.get_dataset_version(wanted.name, number)
        return await self._transport.send(request, **options)


class Datasets(Sync, BaseDatasets):
    """The datasets of the token's project."""


class AsyncDatasets(Async, BaseDatasets):
    """The datasets of the token's project."""


class RawDatasets(SyncRaw, BaseDatasets):
    """The same operations, each with its HTTP response."""


class AsyncRawDatasets(AsyncRaw, BaseDatasets):
    """The same operations for asyncio, each with its HTTP response."""


def name_of(path: Path) -> str:
    """The name of a dataset for a file: its name in lower case, without its ending.

    Other characters than letters, digits, dots and underscores become dashes. Raises ValueError.
    """
    typed = typed_name(path)
    stem = typed if path.is_dir() else Path(typed).stem
    name = re.sub(r"[^a-z0-9._-]+", "-", stem.lower()).strip("-._")[:MAX_NAME]
    if not re.fullmatch(DATASET_NAME, name):
        raise ValueError(f"expected a file name that makes a name, received {path.name!r}")
    return name
