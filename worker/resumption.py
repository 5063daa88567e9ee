"""Bring the newest recorded checkpoint of a job here, for the next attempt to go on from."""

import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

from ampcore.series import Event, EventType
from service.storage import Damaged, NotStored, Storage, StorageFailed
from store import artifacts
from store.tables import Artifact
from worker.patience import Lease, PatientWrites

log = logging.getLogger(__name__)

FOLDER: Final = "checkpoints"
"""Where a trainer looks for them, in its output folder (ampcore.train.checkpoints)."""
WAITS_S: Final = (0.5, 2.0, 5.0)
"""Between the tries to reach a storage."""


def fetch_newest(
    storage: Storage,
    writes: PatientWrites,
    lease: Lease,
    output_dir: Path,
    warn: Callable[[Event], object],
) -> bool:
    """Whether there is a checkpoint to go on from, which then lies in the attempt's folder.

    One that is damaged or gone is warned of, and the next older one is taken. Raises
    StorageFailed when a storage that cannot be reached holds the only ones: to begin again would
    throw away what is only out of sight.
    """
    rows = writes.write(lambda session: artifacts.checkpoints(session, lease.job_id))
    unreached: StorageFailed | None = None
    for row in rows:
        try:
            _fetch(storage, row, output_dir / FOLDER, writes.over)
        except (Damaged, NotStored) as error:
            warn(_unusable(row, error))
        except StorageFailed as error:
            unreached = error
            warn(_unusable(row, error))
        else:
            return True
    if unreached is not None:
        raise unreached
    if rows:
        warn(_warning("begun_again", "No checkpoint can be used: it begins at step 0 again."))
    return False


def _fetch(storage: Storage, row: Artifact, folder: Path, over: threading.Event) -> None:
    folder.mkdir(exist_ok=True)
    # The name tells the trainer the order; it is the only one here, and so the newest.
    file = folder / Path(row.path).name
    for wait_s in WAITS_S:
        try:
            return storage.fetch(row.job_id, row.path, file, row.sha256)
        except (Damaged, NotStored):
            raise
        except StorageFailed as error:
            log.warning("next try in %g s: %s", wait_s, error)
        over.wait(wait_s)
    return storage.fetch(row.job_id, row.path, file, row.sha256)


def _unusable(row: Artifact, error: StorageFailed) -> Event:
    return _warning("checkpoint_unusable", f"{error} An older checkpoint is looked for.")


def _warning(code: str, message: str) -> Event:
    return Event(EventType.WARNING, None, {"code": code, "message": message})
