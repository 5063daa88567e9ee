"""Bring the files of one attempt into the storage, each once its event is in the ledger.

A checkpoint counts when its row is written, behind all the steps before it. A storage that fails
is tried again and again, beside the training and without disturbing it.
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

from sqlalchemy.orm import Session

from ampcore.series import Event, EventType
from service.folder import folder_below
from service.storage import PathInvalid, Storage, StorageFailed, check_path
from store import artifacts, file_removals
from store.artifacts import CHECKPOINT, MODEL, Stored
from store.file_removals import Removal
from worker.patience import Lease, NobodyWaits, PatientWrites

log = logging.getLogger(__name__)

KINDS: Final = {EventType.CHECKPOINT_SAVED: CHECKPOINT, EventType.MODEL_SAVED: MODEL}
KEPT: Final = 2
"""Recorded checkpoints of a job, over all its attempts."""

FIRST_WAIT_S: Final = 0.5
LONGEST_WAIT_S: Final = 30.0
TRIES_BEFORE_WARNING: Final = 3


@dataclass(frozen=True)
class Parcel:
    """A file on its way: where it lies below a folder, and what it is."""

    kind: str
    file: str
    step: int | None = None
    folder: Path | None = None
    """None: the folder that the trainer writes to."""


def artifact_failed(parcel: Parcel, cause: str) -> Event:
    """The warning that a file is not in the storage."""
    message = f"{parcel.file} is not in the storage: {cause}"
    data = {"code": "artifact_failed", "message": message, "file": parcel.file}
    return Event(EventType.WARNING, parcel.step, data)


@dataclass
class Courier:
    """Publishes what is noted, in order; from a thread of its own.

    Args:
        storage: Where the files go.
        writes: The attempt's transactions.
        lease: Whose files they are.
        folder: Where the trainer writes them.
        warn: Hears of files that cannot be stored.
    """

    storage: Storage
    writes: PatientWrites
    lease: Lease
    folder: Path
    warn: Callable[[Event], object]
    first_wait_s: float = FIRST_WAIT_S
    _waiting: deque[Parcel] = field(default_factory=deque, init=False)
    _changed: threading.Condition = field(default_factory=threading.Condition, init=False)
    _under_way: Parcel | None = field(default=None, init=False)
    _cause: str = field(default="there was no time left for it.", init=False)
    # In a row, whatever the file: a newer checkpoint may take the place of one at its second try.
    _failures: int = field(default=0, init=False)
    _is_closing: bool = field(default=False, init=False)

    def start(self) -> None:
        """Begin to publish."""
        run = copy_context().run
        self._thread = threading.Thread(target=run, args=[self._run], name="courier", daemon=True)
        self._thread.start()

    def note(self, event: Event) -> None:
        """Publish the file that a committed event tells of, if it does."""
        if kind := KINDS.get(event.type):
            self.send(Parcel(kind, event.data["file"], event.step))

    def send(self, parcel: Parcel) -> None:
        """Publish a file, behind those that wait."""
        with self._changed:
            self._waiting.append(parcel)
            self._changed.notify_all()

    def drained(self, timeout_s: float) -> bool:
        """Wait for all files to be published; False when they are not, after that time."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._left(), timeout_s)

    def give_up(self) -> None:
        """Publish nothing more, and warn of each file that is left."""
        with self._changed:
            left, self._is_closing = self._left(), True
            self._waiting.clear()
            self._changed.notify_all()
        for parcel in left:
            self.warn(artifact_failed(parcel, self._cause))

    def _left(self) -> Sequence[Parcel]:
        return [*([self._under_way] if self._under_way else []), *self._waiting]

    def _run(self) -> None:
        while (parcel := self._next()) is not None:
            try:
                self._deliver(parcel)
            except NobodyWaits:
                return
            except Exception as error:  # one file that is odd must not stop the others
                log.exception("%s cannot be published", parcel.file)
                self.warn(artifact_failed(parcel, str(error)))
            with self._changed:
                self._under_way = None
                self._changed.notify_all()

    def _next(self) -> Parcel | None:
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._is_closing)
            self._under_way = self._waiting.popleft() if self._waiting else None
            return self._under_way

    def _deliver(self, parcel: Parcel) -> None:
        wait_s = self.first_wait_s
        # Where a newer checkpoint waits, this one has become useless.
        while not (self._is_closing or self._is_outdated(parcel)):
            try:
                self._publish(parcel)
                self._failures = 0
                return
            except PathInvalid:
                raise  # it will not become better
            except StorageFailed as error:
                if not (self._folder(parcel) / parcel.file).exists():
                    log.info("%s: the trainer has removed it meanwhile", parcel.file)
                    return
                self._failures, self._cause = self._failures + 1, str(error)
                log.warning("next try in %g s: %s", wait_s, error)
            if self._failures == TRIES_BEFORE_WARNING:
                self.warn(artifact_failed(parcel, f"{self._cause} It is tried again."))
            with self._changed:
                self._changed.wait_for(lambda: self._is_closing, wait_s)
            wait_s = min(2 * wait_s, LONGEST_WAIT_S)

    def _is_outdated(self, parcel: Parcel) -> bool:
        # Under the lock: another thread may put one in while we look through them.
        with self._changed:
            return parcel.kind == CHECKPOINT and any(
                waiting.kind == CHECKPOINT for waiting in self._waiting
            )

    def _publish(self, parcel: Parcel) -> None:
        job_id = self.lease.job_id
        path = check_path(f"attempt-{self.lease.attempt}/{parcel.file}")
        with self._found(parcel) as file:
            size_bytes, sha256 = self.storage.put(job_id, path, file)
            stored = Stored(path, parcel.kind, parcel.step, size_bytes, sha256)
            removals = self.writes.write(partial(self._record, stored))
            file.unlink(missing_ok=True)
        if removals:
            self._remove(removals)

    def _folder(self, parcel: Parcel) -> Path:
        return parcel.folder if parcel.folder is not None else self.folder

    @contextmanager
    def _found(self, parcel: Parcel) -> Iterator[Path]:
        """The file, by a path that no link of the trainer's leads elsewhere.

        Raises PathInvalid where there is a link, or no file of bytes.
        """
        *folders, name = parcel.file.split("/")
        try:
            inside = folder_below(self._folder(parcel), tuple(folders))
        except FileNotFoundError as error:
            raise StorageFailed(f"{parcel.file} is not there.") from error
        except OSError as error:
            raise PathInvalid(f"{parcel.file} is no file in its trainer's folder.") from error
        try:
            with suppress(FileNotFoundError):
                if not stat.S_ISREG(os.stat(name, dir_fd=inside, follow_symlinks=False).st_mode):
                    raise PathInvalid(f"{parcel.file} is no file of bytes.")
            yield Path(f"/dev/fd/{inside}") / name
        finally:
            os.close(inside)

    def _record(self, stored: Stored, session: Session) -> Sequence[Removal]:
        """Write the file's row; the files that are to be deleted, as their rows had to go for it.

        The file itself, when another attempt owns the job.
        """
        job_id, attempt, lease_s = self.lease.job_id, self.lease.attempt, self.lease.lease_s
        if artifacts.add(session, job_id, attempt, stored, lease_s=lease_s) is None:
            # Where the answer to a first commit was lost, the row is there and needs its file.
            is_kept = artifacts.get(session, job_id, stored.path) is not None
            return [] if is_kept else file_removals.note(session, job_id, [stored.path])
        outdated = [row.path for row in artifacts.checkpoints(session, job_id)[KEPT:]]
        if not outdated:
            return []
        artifacts.forget(session, job_id, outdated)
        return file_removals.note(session, job_id, outdated)

    def _remove(self, removals: Sequence[Removal]) -> None:
        """Delete files that have no row any more; of those that stay a server is reminded."""
        try:
            self.storage.remove(self.lease.job_id, [one.path for one in removals if one.path])
        except StorageFailed as error:
            log.warning("a file that is not needed any more stays for now: %s", error)
            return
        self.writes.write(lambda session: file_removals.done(session, removals))
