"""Download the object that a job names as its data, and check that it is still the same.

The first attempt records the ETag, size and SHA-256 in the event `data_fetched` of the job; a later
attempt, or a job that extends it, must find the same object, since it resumes in the middle of an
epoch of it.
"""

import hashlib
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from sqlalchemy.orm import Session

from ampspec.references.object_url import InvalidUrl, ObjectUrl, is_url
from ampspec.telemetry import Event, EventType
from infra.storage import FileNotStored, StorageFailed
from store.tables import EventRow, Job
from store.telemetry import events
from store.telemetry.ingest import LogChunk
from worker.database_retry import RetryingDatabase
from worker.trainer.log_capture import STDERR
from worker.transfer.data_object import DataObject, ObjectVersion
from worker.transfer.dataset_download import DatasetMissing, JobDataset
from worker.transfer.download_cache import CacheWaitAbandoned, DownloadCache
from worker.transfer.storage_retry import RETRY_DELAYS_S

log = logging.getLogger(__name__)

PIECE_BYTES: Final = 16 * 2**20
"""The bytes of one request; a failed one is repeated without those before it."""
PROGRESS_S: Final = 10.0
"""The shortest time between two lines about progress in the job's log."""
SHA256_FILE: Final = "sha256"
"""In the folder of a cached file."""

Enqueue = Callable[..., None]
T = TypeVar("T")


class DataChanged(DatasetMissing):
    """The object is not the one that the job has trained on."""


def data_url(spec: Mapping[str, Any]) -> str | None:
    """The URL that a spec names as its data; None if it names none."""
    path = spec["data"].get("path")
    return path if is_url(path) else None


def fetch_object(
    url: str,
    job: Job,
    *,
    cache: DownloadCache,
    prefixes: Sequence[ObjectUrl],
    database: RetryingDatabase,
    enqueue: Enqueue,
) -> JobDataset:
    """Download the object that a job names, unless the cache has it.

    Args:
        url: The object.
        job: The job.
        cache: Where it is stored.
        prefixes: The prefixes of objects that this worker may read.
        database: For the recorded version; `attempt_ended` cancels the download.
        enqueue: Stores entries of the job: its event, and lines about progress in its log.

    Raises DatasetMissing (also for an object that has changed), StorageFailed, OSError,
    CacheWaitAbandoned and WriteAbandoned.
    """
    data = DataObject(_allowed(url, prefixes))
    recorded_by_job = _recorded(database, job.id, url)
    recorded = recorded_by_job or (
        _recorded(database, job.extends, url) if job.extends is not None else None
    )
    download = _Download(data, database, enqueue)
    version = download.retried(data.version)
    if recorded is not None and (recorded["etag"], recorded["size_bytes"]) != (
        version.etag,
        version.size_bytes,
    ):
        expected = ObjectVersion(recorded["etag"], recorded["size_bytes"])
        raise DataChanged(
            f"{url} has changed since this job first read it: expected {expected}; received "
            f"{version}. Restore the object, or submit a new job."
        )
    if version.size_bytes > cache.max_bytes:
        raise DatasetMissing(
            f"{url}: expected at most {cache.max_bytes:,} bytes, the size of the "
            f"worker's cache of datasets; received {version.size_bytes:,}."
        )
    cached = cache.acquire(
        version.cache_name(data.url),
        version.size_bytes,
        lambda file: download.write(version, file),
        database.attempt_ended.wait,
    )
    sha256 = (cached.path.parent / SHA256_FILE).read_text(encoding="ascii")
    if recorded_by_job is None:
        facts = {"etag": version.etag, "size_bytes": version.size_bytes, "sha256": sha256}
        enqueue(Event(EventType.DATA_FETCHED, None, {"url": url, **facts}))
    return JobDataset(url, data.url.name, cached)


def _allowed(url: str, prefixes: Sequence[ObjectUrl]) -> ObjectUrl:
    """The URL, which the server has checked against its own prefixes."""
    try:
        parsed = ObjectUrl.parse(url)
    except InvalidUrl as error:
        raise DatasetMissing(f"{url}: {error}.") from None
    if not parsed.is_below(prefixes):
        raise DatasetMissing(f"This worker's AMPCORE_DATA_PREFIXES do not allow {url}.")
    return parsed


def _recorded(database: RetryingDatabase, job_id: str, url: str) -> dict[str, Any] | None:
    """The version of the object that a job has recorded; None before its first download."""

    def find(session: Session) -> Sequence[EventRow]:
        return events.read(session, job_id, limit=1, types=(EventType.DATA_FETCHED,))

    data = [row.data for row in database.write(find) if row.data["url"] == url]
    return data[0] if data else None


class _Download:
    """Writes an object to a file, piece by piece, and logs its progress in the job."""

    def __init__(self, data: DataObject, database: RetryingDatabase, enqueue: Enqueue) -> None:
        self._data, self._enqueue = data, enqueue
        self._attempt_ended = database.attempt_ended
        self._logged_at = time.monotonic()

    def write(self, version: ObjectVersion, file: Path) -> None:
        """Write the object and, beside it, its SHA-256.

        Raises:
            CacheWaitAbandoned: The attempt has ended.
            StorageFailed: The object could not be read, or was replaced meanwhile.
        """
        sha = hashlib.sha256()
        with file.open("xb") as target:
            for start in range(0, version.size_bytes, PIECE_BYTES):
                end = min(start + PIECE_BYTES, version.size_bytes)
                piece = self.retried(partial(self._data.read, start, end))
                if len(piece) != end - start:
                    raise StorageFailed(f"{self._data.url} became shorter while it was read.")
                sha.update(piece)
                target.write(piece)
                self._log_progress(end, version.size_bytes)
        if self.retried(self._data.version) != version:
            raise StorageFailed(f"{self._data.url} was replaced while it was read.")
        (file.parent / SHA256_FILE).write_text(sha.hexdigest(), encoding="ascii")

    def retried(self, request: Callable[[], T]) -> T:
        """The result of a request, repeated while the store cannot be reached.

        Raises:
            CacheWaitAbandoned: The attempt has ended.
            DatasetMissing: There is no such object, or access is denied.
            StorageFailed: The store could not be reached.
        """
        for wait_s in (*RETRY_DELAYS_S, None):
            if self._attempt_ended.is_set():
                raise CacheWaitAbandoned
            try:
                return request()
            except FileNotStored as error:
                raise DatasetMissing(str(error)) from error
            except StorageFailed as error:
                if wait_s is None:
                    raise
                log.warning("a request for data failed, retrying in %g s: %s", wait_s, error)
                self._attempt_ended.wait(wait_s)
        raise AssertionError("the last request returns or raises")

    def _log_progress(self, done: int, total: int) -> None:
        now = time.monotonic()
        if done < total and now - self._logged_at < PROGRESS_S:
            return
        self._logged_at = now
        text = f"downloaded {done / 1e6:,.1f} of {total / 1e6:,.1f} MB of {self._data.url}\n"
        self._enqueue(LogChunk(STDERR, text))
