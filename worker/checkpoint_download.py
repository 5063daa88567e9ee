"""Download the newest usable checkpoint of a job, so that the next attempt resumes from it."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

from ampcore.telemetry import Event, EventType
from service.storage import FileDamaged, FileNotStored, Storage, StorageFailed
from store import artifacts
from store.tables import Artifact
from worker.database_retry import Lease, RetryingDatabase
from worker.storage_retry import fetch_with_retries

CHECKPOINT_DIR: Final = "checkpoints"
"""The trainer's checkpoint folder, in its output folder (ampcore.checkpoint.saver)."""


def fetch_latest_checkpoint(
    storage: Storage,
    database: RetryingDatabase,
    lease: Lease,
    output_dir: Path,
    on_warning: Callable[[Event], object],
) -> bool:
    """Download the newest usable checkpoint of the lease's job into `output_dir`.

    A damaged or missing checkpoint causes a warning, and the next older one is tried.

    Returns:
        True when a checkpoint was downloaded; False when the job starts at step 0.

    Raises:
        StorageFailed: The storage cannot be reached and no other checkpoint is usable. Starting
            at step 0 would discard checkpoints that are only unreachable for now.
    """
    rows = database.write(lambda session: artifacts.checkpoints(session, lease.job_id))
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
    if rows:
        on_warning(
            _warning("restarted_at_step_0", "No checkpoint is usable; training restarts at step 0.")
        )
    return False


def _fetch(storage: Storage, row: Artifact, folder: Path, attempt_ended: threading.Event) -> None:
    folder.mkdir(exist_ok=True)
    # The trainer takes the checkpoint with the highest number in its name; this is the only one.
    file = folder / Path(row.path).name
    fetch_with_retries(storage, (row.job_id, row.path), file, row.sha256, attempt_ended)


def _unusable(row: Artifact, error: StorageFailed) -> Event:
    return _warning("checkpoint_unusable", f"{error} Trying an older checkpoint.")


def _warning(code: str, message: str) -> Event:
    return Event(EventType.WARNING, None, {"code": code, "message": message})
