"""`client.datasets`: upload, list, read, download and delete datasets."""

import re
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
from ampclient._transfer.downloads import RemoteFile, download, is_safe_file_name
from ampclient._transfer.progress import OnProgress, current_bytes_callback, no_progress
from ampclient._transfer.upload_source import typed_name
from ampclient._transfer.uploads import upload
from ampclient.errors import UnexpectedResponse
from ampspec.api.datasets import Dataset, DatasetVersion, ListedDatasetVersion
from ampspec.data.proposal import NoProposal, Proposal, propose_job
from ampspec.old_names import old_attributes, one_class_for
from ampspec.references.dataset_reference import DATASET_NAME, VersionReference

MAX_NAME: Final = 63


class Datasets(Operations[M]):
    """The datasets of the token's project."""

    @operation
    @renamed(progress="on_progress")
    async def upload(
        self,
        path: str | PathLike[str],
        *,
        name: str | None = None,
        on_progress: OnProgress = no_progress,
    ) -> DatasetVersion:
        """Upload a file as the next version of a dataset, or a folder as a zip archive.

        An upload that was interrupted, also in another process, continues where it ended. Nothing
        is sent if the newest version has the same content; that version is returned.

        Args:
            path: The file or folder. Links are uploaded as the files that they lead to.
            name: The dataset, by default the name of the file without its ending.
            on_progress: Called with the name of the file, its bytes sent so far, and all its bytes.

        Raises:
            ValueError: `name` is not the name of a dataset, or the folder has no files, or a link
                that leads nowhere.
            DatasetQuotaExceeded: The project has not enough bytes left.
            OSError: The file cannot be read.
        """
        file = Path(path)
        dataset = target_name(file, name)
        on_progress = current_bytes_callback(on_progress)
        return await upload(self._transport, dataset, file, on_progress)

    @paginated
    def list(
        self, *, limit: int | None = None, **options: Unpack[RequestOptions]
    ) -> AsyncGenerator[Dataset, None]:
        """All datasets by name, each with its newest version; at most `limit`."""
        return read_pages(
            self._transport, endpoints.list_datasets, options, page_size=100, limit=limit
        )

    @paginated
    def versions(
        self, name: str, *, limit: int | None = None, **options: Unpack[RequestOptions]
    ) -> AsyncGenerator[ListedDatasetVersion, None]:
        """All versions of a dataset, newest first, without their previews. Raises NotFound."""
        page_request = partial(endpoints.list_dataset_versions, VersionReference.parse(name).name)
        return read_pages(self._transport, page_request, options, page_size=100, limit=limit)

    @operation
    async def get(self, reference: str, **options: Unpack[RequestOptions]) -> DatasetVersion:
        """A version such as "birds@3", or the newest one of "birds". Raises NotFound."""
        return await self._find(reference, **options)

    @operation
    async def propose(
        self, reference: str, *, target: str | None = None, **options: Unpack[RequestOptions]
    ) -> Proposal:
        """Propose a job for a version such as "birds@3", or for the newest one of "birds".

        Args:
            reference: The version.
            target: The column to predict; None: it is proposed, too.
            **options: Of the request.

        Returns:
            A spec for `client.jobs.submit`, and the reasons for its inputs, target, task,
            preprocessing and split: a start to edit.

        Raises:
            NotFound: There is no such version.
            NoProposal: The version is not described, or has no such column to predict.
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
            target=target,
        )

    @operation
    @renamed(progress="on_progress")
    async def download(
        self,
        reference: str,
        *,
        to: str | PathLike[str] = ".",
        on_progress: OnProgress = no_progress,
    ) -> Path:
        """Download the file of a version such as "birds@3", or of the newest one of "birds".

        A complete file is not downloaded again; a partial one is resumed, in this call or a later
        one.

        Args:
            reference: The version.
            to: The folder for the file, which keeps its own name.
            on_progress: Called with the name of the file, its bytes received so far, and all its
                bytes.

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
            lambda start: endpoints.get_dataset_content(name, number, start=start),
        )
        target = Path(to) / version.file_name
        await download(self._transport, file, target, current_bytes_callback(on_progress))
        return target

    @operation
    async def delete(self, reference: str, **options: Unpack[RequestOptions]) -> None:
        """Delete a version such as "birds@3", or every version of "birds".

        Raises NotFound, and Conflict while a job that has not ended uses it.
        """
        version = VersionReference.parse(reference)
        await self._transport.send(endpoints.delete_dataset(version), **options)

    async def _find(self, reference: str, **options: Unpack[RequestOptions]) -> DatasetVersion:
        version = VersionReference.parse(reference)
        number = version.number
        if number is None:
            dataset = await self._transport.send(endpoints.get_dataset(version.name), **options)
            number = dataset.newest.number
        request = endpoints.get_dataset_version(version.name, number)
        return await self._transport.send(request, **options)


def target_name(path: Path, name: str | None) -> str:
    """The name of the dataset that a file is uploaded to.

    Args:
        path: The file, or a folder.
        name: The name that was asked for; None: from the file.

    Raises:
        ValueError: It is malformed, or has the number of a version.
    """
    reference = VersionReference.parse(name_of(path) if name is None else name)
    if reference.number is not None:
        raise ValueError(f"expected a name without a version, received {name!r}")
    return reference.name


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


if not TYPE_CHECKING:
    __getattr__ = old_attributes(__name__, one_class_for("Datasets"))
