"""Uploads the files of one attempt to the artifact storage, each after its event is committed.

A checkpoint counts once its row is committed, which follows all steps before it. Uploads that fail
are retried in a thread of their own, so that training never waits for the storage.
"""

import logging
import os
import stat
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import copy_context
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from ampspec.jobs import Reason
from ampspec.telemetry import Event, EventType
from infra.folder_store import open_folder
from infra.storage import PathInvalid, Storage, StorageFailed, check_path
from store.database_errors import describe
from store.files import artifacts, file_removals
from store.files.artifact_quota import ArtifactQuotaReached
from store.files.artifacts import CHECKPOINT, CHECKPOINTS_KEPT, StoredArtifact
from store.files.file_removals import Removal
from worker.database_retry import Lease, RetryingDatabase, WriteAbandoned
from worker.transfer.named_files import ArtifactUpload, uploads_of
from worker.transfer.storage_limit import StorageLimit, TooMuchStored
from worker.transfer.upload_progress import PendingUploads, UploadProgress

log = logging.getLogger(__name__)

INITIAL_BACKOFF_S: Final = 0.5
MAX_BACKOFF_S: Final = 30.0
FAILURES_BEFORE_WARNING: Final = 3


class FileMissing(Exception):
    """A file that the trainer has named does not exist."""


@dataclass(frozen=True)
class NotStored:
    """A file that can never be stored."""

    file: str
    cause: str
    reason: Reason
    """The reason of an attempt that fails because of it."""


def upload_failed_event(upload: ArtifactUpload, cause: str) -> Event:
    """The warning event that says why a file was not uploaded."""
    message = f"{upload.file} was not uploaded: {cause}"
    data = {"code": "artifact_failed", "message": message, "file": upload.file}
    return Event(EventType.WARNING, upload.step, data)


@dataclass
class ArtifactUploader:
    """Uploads files in order, in a separate thread.

    Args:
        storage: The artifact storage.
        database: The attempt's transactions.
        lease: The attempt that the files belong to.
        folder: The trainer's output folder.
        on_warning: Called with a warning event for each file that cannot be uploaded.
        limit: How much it stores.
        initial_backoff_s: Wait after the first failure; it doubles up to `MAX_BACKOFF_S`.
        progress: How far the current file is.
    """

    storage: Storage
    database: RetryingDatabase
    lease: Lease
    folder: Path
    on_warning: Callable[[Event], object]
    limit: StorageLimit = field(default_factory=StorageLimit)
    initial_backoff_s: float = INITIAL_BACKOFF_S
    progress: UploadProgress = field(default_factory=UploadProgress)
    uploaded_bytes: int = field(default=0, init=False)
    """The size of all files that were stored so far."""
    not_stored: list[NotStored] = field(default_factory=list, init=False)
    """The files that were given up, other than checkpoints that newer ones replaced."""
    _refused_checkpoint: NotStored | None = field(default=None, init=False)
    """The newest checkpoint, if the project's quota did not allow it."""
    _uploaded: set[str] = field(default_factory=set, init=False)
    """The paths of the files that were stored, other than checkpoints."""
    _queue: deque[ArtifactUpload] = field(default_factory=deque, init=False)
    _changed: threading.Condition = field(default_factory=threading.Condition, init=False)
    _current: ArtifactUpload | None = field(default=None, init=False)
    _unless_recorded: Sequence[Removal] = field(default=(), init=False)
    """Deletes the current file, should this worker die before it has written its row."""
    _last_error: str = field(default="the attempt ended before it was uploaded.", init=False)
    # Consecutive failures over all files: a newer checkpoint may replace one after its second try.
    _failures: int = field(default=0, init=False)
    _is_closing: bool = field(default=False, init=False)
    _has_too_many_files: bool = field(default=False, init=False)

    def start(self) -> None:
        """Start the upload thread."""
        run = copy_context().run
        self._thread = threading.Thread(
            target=run, args=[self._run], name="artifact-uploader", daemon=True
        )
        self._thread.start()

    def on_event(self, event: Event) -> None:
        """Upload the files that a committed event names, if it names some."""
        uploads = uploads_of(event)
        if not uploads:
            return
        try:
            self.limit.check_files()
        except TooMuchStored as error:
            if not self._has_too_many_files:  # said once: each takes memory, and lines of the log
                self.give_up(uploads[0], error)
            self._has_too_many_files = True
            return
        for upload in uploads:
            self.enqueue(upload)

    def enqueue(self, upload: ArtifactUpload) -> None:
        """Upload a file after those already in the queue."""
        with self._changed:
            self._queue.append(upload)
            self._changed.notify_all()

    def wait_until_empty(self, timeout_s: float) -> bool:
        """Wait until every file is uploaded; False when the timeout elapses first."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._pending(), timeout_s)

    def pending(self) -> PendingUploads | None:
        """The files that are not stored yet; None when all are."""
        with self._changed:
            uploads = self._pending()
            sent_bytes = self.progress.sent_bytes if self._current is not None else 0
        if not uploads:
            return None
        size_bytes = sum(self._size_of(upload) for upload in uploads)
        files = tuple(upload.file for upload in uploads)
        return PendingUploads(files, size_bytes, min(sent_bytes, size_bytes))

    def _size_of(self, upload: ArtifactUpload) -> int:
        """The size of a file, only for what is shown; 0 if it cannot be read."""
        try:
            return os.lstat(self._folder(upload) / upload.file).st_size
        except (OSError, ValueError):
            return 0

    @property
    def last_error(self) -> str:
        """Why the last try failed."""
        return self._last_error

    def abandon_pending(self) -> None:
        """Stop uploading, and warn of each file that is still in the queue."""
        with self._changed:
            uploads, self._is_closing = self._pending(), True
            self._queue.clear()
            self._changed.notify_all()
        for upload in uploads:
            self.on_warning(upload_failed_event(upload, self._last_error))

    def _pending(self) -> Sequence[ArtifactUpload]:
        return [*([self._current] if self._current else []), *self._queue]

    def _run(self) -> None:
        while (upload := self._next()) is not None:
            try:
                self._upload_with_retries(upload)
            except WriteAbandoned:
                return
            except ArtifactQuotaReached as error:
                self._refuse(upload, error)
            except Exception as error:  # one bad file must not stop the others
                log.exception("cannot upload %s", upload.file)
                self.give_up(upload, error)
            with self._changed:
                self._current = None
                self.progress.end()
                self._changed.notify_all()

    @property
    def missing(self) -> Sequence[NotStored]:
        """The files without which the attempt has not stored all that it had to."""
        refused = self._refused_checkpoint
        return [*self.not_stored, *([refused] if refused is not None else [])]

    def _refuse(self, upload: ArtifactUpload, error: ArtifactQuotaReached) -> None:
        """Go on without a file that the project's quota does not allow, and warn of it.

        The job keeps the checkpoints that it has, and tries again with the next one.
        """
        refused = NotStored(upload.file, str(error), Reason.RESOURCE_LIMIT)
        is_first = self._refused_checkpoint is None  # said once: there may be one each epoch
        if upload.kind == CHECKPOINT:
            self._refused_checkpoint = refused
        else:
            self.not_stored.append(refused)
        if is_first or upload.kind != CHECKPOINT:
            self.on_warning(upload_failed_event(upload, str(error)))

    def give_up(self, upload: ArtifactUpload, error: Exception) -> None:
        """Note that a file can never be stored, and warn of it."""
        cause = str(error)
        if isinstance(error, SQLAlchemyError):
            cause = describe(error)
        elif isinstance(error, OSError) and error.strerror:
            cause = f"{error.strerror}."  # without the path on this machine
        reason = Reason.INTERNAL_ERROR
        if isinstance(error, TooMuchStored):
            reason = Reason.RESOURCE_LIMIT
        elif isinstance(error, PathInvalid | FileMissing) and self.limit.max_bytes is not None:
            reason = Reason.CODE_FAILED  # only custom code names such files
        self.not_stored.append(NotStored(upload.file, cause, reason))
        self.on_warning(upload_failed_event(upload, cause))

    def _next(self) -> ArtifactUpload | None:
        with self._changed:
            self._changed.wait_for(lambda: self._queue or self._is_closing)
            self._current = self._queue.popleft() if self._queue else None
            return self._current

    def _upload_with_retries(self, upload: ArtifactUpload) -> None:
        backoff_s, self._unless_recorded = self.initial_backoff_s, ()
        # A checkpoint is obsolete once a newer one is in the queue.
        while not (self._is_closing or self._is_superseded(upload)):
            try:
                self._upload(upload)
                self._failures = 0
                return
            except PathInvalid:
                raise  # retrying cannot help
            except StorageFailed as error:
                self.progress.fail()
                if not (self._folder(upload) / upload.file).exists():
                    if upload.file in self._uploaded:
                        return  # two events named it, and the first upload has removed it
                    if upload.kind != CHECKPOINT:
                        raise FileMissing("the trainer named it, but it does not exist.") from error
                    log.info("%s: removed by the trainer before it was uploaded", upload.file)
                    return
                self._failures, self._last_error = self._failures + 1, str(error)
                log.warning("upload failed, retrying in %g s: %s", backoff_s, error)
            if self._failures == FAILURES_BEFORE_WARNING:
                self.on_warning(
                    upload_failed_event(upload, f"{self._last_error} The worker keeps retrying.")
                )
            with self._changed:
                self._changed.wait_for(lambda: self._is_closing, backoff_s)
            backoff_s = min(2 * backoff_s, MAX_BACKOFF_S)

    def _is_superseded(self, upload: ArtifactUpload) -> bool:
        # Under the lock: another thread may append to the queue meanwhile.
        with self._changed:
            return upload.kind == CHECKPOINT and any(
                upload_in_queue.kind == CHECKPOINT for upload_in_queue in self._queue
            )

    def _upload(self, upload: ArtifactUpload) -> None:
        job_id = self.lease.job_id
        path = check_path(f"attempt-{self.lease.attempt}/{upload.file}")
        with self._path_without_links(upload) as file:
            with suppress(FileNotFoundError):  # storing it reports that
                self.limit.check(upload, file.stat().st_size)
            size_bytes = self._size_of(upload)
            self._unless_recorded = self._unless_recorded or self.database.write(
                partial(self._prepare, upload, path, size_bytes)
            )
            self.progress.begin(size_bytes)
            size_bytes, sha256 = self.storage.put(
                job_id, path, file, on_progress=self.progress.report
            )
            self.progress.sent()
            self.uploaded_bytes += size_bytes
            self.limit.add(upload, size_bytes)
            # Steps count from 0: after step 54, 55 steps are done, as in the file's name.
            steps_done = None if upload.step is None else upload.step + 1
            artifact = StoredArtifact(path, upload.kind, steps_done, size_bytes, sha256)
            try:
                removals = self.database.write(partial(self._record, artifact))
            except ArtifactQuotaReached:  # another job has stored a file meanwhile
                self._remove(self._unless_recorded)
                raise
            file.unlink(missing_ok=True)
            if upload.kind == CHECKPOINT:
                self._refused_checkpoint = None
            else:
                self._uploaded.add(upload.file)
        if removals:
            self._remove(removals)

    def _folder(self, upload: ArtifactUpload) -> Path:
        return upload.folder if upload.folder is not None else self.folder

    @contextmanager
    def _path_without_links(self, upload: ArtifactUpload) -> Iterator[Path]:
        """The file's path, below a folder that was opened without following symbolic links.

        A trainer could otherwise link to a file of the worker and have it uploaded.

        Raises:
            PathInvalid: The path leaves the folder, contains a link or is not a regular file.
            StorageFailed: The folder does not exist.
        """
        *folders, name = upload.file.split("/")
        try:
            inside = open_folder(self._folder(upload), tuple(folders))
        except FileNotFoundError as error:
            raise StorageFailed(f"{upload.file} does not exist.") from error
        except OSError as error:
            raise PathInvalid(f"{upload.file} is not inside the trainer's folder.") from error
        try:
            with suppress(FileNotFoundError):
                if not stat.S_ISREG(os.stat(name, dir_fd=inside, follow_symlinks=False).st_mode):
                    raise PathInvalid(f"{upload.file} is not a regular file.")
            yield Path(f"/dev/fd/{inside}") / name
        finally:
            os.close(inside)

    def _prepare(
        self, upload: ArtifactUpload, path: str, size_bytes: int, session: Session
    ) -> Sequence[Removal]:
        """Check the quota before the file is sent, and schedule its removal, should it stay alone.

        Raises ArtifactQuotaReached.
        """
        job_id = self.lease.job_id
        artifacts.check_quota(session, job_id, path, upload.kind, size_bytes)
        return file_removals.schedule_unless_recorded(session, job_id, path)

    def _record(self, artifact: StoredArtifact, session: Session) -> Sequence[Removal]:
        """Write the file's row, and return the files to delete: outdated checkpoints.

        The file itself is returned when another attempt owns the job.
        """
        job_id, attempt, lease_s = self.lease.job_id, self.lease.attempt, self.lease.lease_s
        if artifacts.add(session, job_id, attempt, artifact, lease_s=lease_s) is None:
            # If the response to a first commit was lost, the row exists and needs its file.
            is_kept = artifacts.get(session, job_id, artifact.path) is not None
            return [] if is_kept else self._unless_recorded
        file_removals.mark_done(session, self._unless_recorded)
        outdated = [row.path for row in artifacts.checkpoints(session, job_id)[CHECKPOINTS_KEPT:]]
        if not outdated:
            return []
        artifacts.forget(session, job_id, outdated)
        return file_removals.schedule(session, job_id, outdated)

    def _remove(self, removals: Sequence[Removal]) -> None:
        """Delete files whose rows are deleted; a server retries those that cannot be deleted."""
        try:
            self.storage.remove(
                self.lease.job_id, [removal.path for removal in removals if removal.path]
            )
        except StorageFailed as error:
            log.warning("an outdated file could not be deleted yet: %s", error)
            return
        self.database.write(lambda session: file_removals.mark_done(session, removals))
