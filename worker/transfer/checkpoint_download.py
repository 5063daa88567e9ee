"""Download the newest usable checkpoint of a job, so that the next attempt resumes from it."""

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from ampspec.jobs import Reason
from ampspec.telemetry import Event, EventType
from infra.job_failure import JobFailure
from infra.storage import FileDamaged, FileNotStored, Storage, StorageFailed
from store.files import artifacts
from store.tables import Artifact
from worker.database_retry import Lease, RetryingDatabase
from worker.transfer.storage_retry import fetch_with_retries

CHECKPOINT_DIR: Final = "checkpoints"
"""The trainer's checkpoint folder, in its output folder (ampcore.checkpoint.saver)."""


class ExtendedCheckpointMissing(JobFailure):
    """The job that is extended has no usable checkpoint."""

    reason = Reason.INVALID_CHECKPOINT


def fetch_latest_checkpoint(
    storage: Storage,
    database: RetryingDatabase,
    lease: Lease,
    output_dir: Path,
    on_warning: Callable[[Event], object],
    *,
    extends: str | None = None,
    trained_steps: int = 0,
) -> bool:
    """Download the newest usable checkpoint of the lease's job into `output_dir`.

    A damaged or missing checkpoint causes a warning, and the next older one is tried; then the
    checkpoints of the job that it extends, if any. `trained_steps` is the number of steps that
    earlier attempts trained: if none of them is kept, a warning says so.

    Returns:
        True when a checkpoint was downloaded; False when the job starts at step 0.

    Raises:
        StorageFailed: The storage cannot be reached and no other checkpoint is usable. Starting
            at step 0 would discard checkpoints that are only unreachable for now.
        ExtendedCheckpointMissing: There is no usable checkpoint of the job that it extends.
    """
    rows = _checkpoints(database, lease.job_id)
    if extends is not None:
        rows = [*rows, *_checkpoints(database, extends)]
    if _fetch_first_usable(storage, database, rows, output_dir, on_warning):
        return True
    if extends is not None:
        raise ExtendedCheckpointMissing(
            f"Job {extends}, which this job extends, has no usable checkpoint. "
            "Clone the job to train from the beginning."
        )
    if rows or trained_steps > 0:
        cause = "No checkpoint is usable" if rows else "No checkpoint was stored"
        on_warning(_warning("restarted_at_step_0", f"{cause}; training restarts at step 0."))
    return False


def fetch_earlier_checkpoint(
    storage: Storage,
    database: RetryingDatabase,
    output_dir: Path,
    on_warning: Callable[[Event], object],
    *,
    job_id: str,
    step: int,
) -> bool:
    """Download the newest usable checkpoint of a job with at most `step` completed steps.

    Returns:
        True when a checkpoint was downloaded; False when its steps are repeated from step 0.

    Raises:
        StorageFailed: The storage cannot be reached and no other checkpoint is usable.
    """
    rows = [row for row in _checkpoints(database, job_id) if row.step is not None]
    earlier = [row for row in rows if (row.step or 0) <= step]
    return _fetch_first_usable(storage, database, earlier, output_dir, on_warning)


def _fetch_first_usable(
    storage: Storage,
    database: RetryingDatabase,
    rows: Sequence[Artifact],
    output_dir: Path,
    on_warning: Callable[[Event], object],
) -> bool:
    """Download the first of these checkpoints that is intact; False without one.

    Raises StorageFailed if there is none, and one cannot be reached for now.
    """
    unreachable: StorageFailed | None = None
    for row in rows:
        try:
            _fetch(storage, row, output_dir / CHECKPOINT_DIR, database.attempt_ended)
        except (FileDamaged, FileNotStored) as error:
            on_warning(_unusable(row, error))
        except StorageFailed as error:
            unreachable = error
            on_warning(_unusable(row, error))
        else:
            return True
    if unreachable is not None:
        raise unreachable
    return False


def _checkpoints(database: RetryingDatabase, job_id: str) -> Sequence[Artifact]:
    return database.write(lambda session: artifacts.checkpoints(session, job_id))


def _fetch(storage: Storage, row: Artifact, folder: Path, attempt_ended: threading.Event) -> None:
    folder.mkdir(exist_ok=True)
    # The trainer takes the checkpoint with the highest number in its name; this is the only one.
    file = folder / Path(row.path).name
    fetch_with_retries(storage, (row.job_id, row.path), file, row.sha256, attempt_ended)


def _unusable(row: Artifact, error: StorageFailed) -> Event:
    return _warning("checkpoint_unusable", f"{error} Trying an older checkpoint.")


def _warning(code: str, message: str) -> Event:
    return Event(EventType.WARNING, None, {"code": code, "message": message})
