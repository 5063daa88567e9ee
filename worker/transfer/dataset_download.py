"""Provide the dataset of a job: download it into the cache, and place it where its trainer reads.

A trainer reads a file of its own folder, so that it sees no dataset of another project.
"""

import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ampspec.jobs import Reason
from ampspec.references.dataset_reference import VersionReference
from infra.job_failure import JobFailure
from infra.storage import FileNotStored, Storage
from store.files import datasets
from store.files.datasets import STORAGE_FOLDER
from store.tables import DatasetVersion
from worker.database_retry import RetryingDatabase
from worker.trainer.isolation import TrainerFolder
from worker.transfer.download_cache import CachedFile, DownloadCache, content_name
from worker.transfer.storage_retry import fetch_with_retries

DATA_DIR: Final = "data"
"""In the folder of a trainer, or of an attempt whose trainer is not isolated."""


class DatasetMissing(JobFailure):
    """The dataset that a job names has been deleted; another attempt would not find it either."""

    reason = Reason.INVALID_DATA


@dataclass(frozen=True)
class JobDataset:
    """The dataset of a job, in the cache."""

    reference: str
    file_name: str
    cached: CachedFile


def fetch_dataset(
    cache: DownloadCache,
    storage: Storage,
    database: RetryingDatabase,
    project: str,
    spec: Mapping[str, Any],
) -> JobDataset | None:
    """Download the dataset that a spec names, unless the cache has it; None if it names none.

    Raises DatasetMissing, StorageFailed, OSError, CacheWaitAbandoned and WriteAbandoned.
    """
    reference = spec["data"].get("dataset")
    if reference is None:
        return None
    version_reference = VersionReference.parse(reference)
    version = database.write(lambda session: datasets.find(session, project, version_reference))
    if version is None:
        raise DatasetMissing(f"The dataset {reference} was deleted. Submit a job with another one.")

    def fetch(file: Path) -> None:
        source = (STORAGE_FOLDER, version.path)
        fetch_with_retries(storage, source, file, version.sha256, database.attempt_ended)

    return JobDataset(
        reference, version.file_name, _acquire(cache, database, reference, version, fetch)
    )


def _acquire(
    cache: DownloadCache,
    database: RetryingDatabase,
    reference: str,
    version: DatasetVersion,
    fetch: Any,
) -> CachedFile:
    try:
        name, wait = content_name(version.sha256), database.attempt_ended.wait
        return cache.acquire(name, version.size_bytes, fetch, wait)
    except FileNotStored as error:
        raise DatasetMissing(f"The storage has no file for the dataset {reference}.") from error


def place_dataset(dataset: JobDataset, trainer: TrainerFolder | None, folder: Path) -> Path:
    """The path at which the job's trainer reads its dataset.

    Args:
        dataset: in the cache.
        trainer: the trainer's folder; None if it is not isolated.
        folder: the attempt's folder, for a trainer that is not isolated.
    """
    data = (trainer.path if trainer is not None else folder) / DATA_DIR
    data.mkdir()
    data.chmod(0o755)  # for the trainer's user, whatever the umask is
    target = data / dataset.file_name
    # A trainer that runs as this user could change a linked file for all later jobs.
    may_link = trainer is None or trainer.user is not None
    if may_link:
        with suppress(OSError):  # another file system, or one without hard links
            os.link(dataset.cached.path, target)
            return target
    _copy(dataset.cached.path, target)
    target.chmod(0o444)
    return target


def _copy(source: Path, target: Path) -> None:
    """Copy a file; file systems that can do so share its blocks."""
    try:
        with source.open("rb") as source_file, target.open("xb") as target_file:
            unread_bytes = os.fstat(source_file.fileno()).st_size
            while unread_bytes > 0:
                copied = os.copy_file_range(
                    source_file.fileno(), target_file.fileno(), unread_bytes
                )
                if copied == 0:
                    raise OSError("no bytes were copied")
                unread_bytes -= copied
    except OSError:  # not between these file systems
        target.unlink(missing_ok=True)
        shutil.copyfile(source, target)
