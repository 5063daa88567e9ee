"""Download the weights that a job starts from, of another job or of a file of its project."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from sqlalchemy.orm import Session

from ampspec.jobs import Reason
from ampspec.references.stored_files import FileKind, digest_of
from infra.job_failure import JobFailure
from infra.storage import FileDamaged, FileNotStored, Storage
from store.files import artifacts, project_files
from store.files.project_files import STORAGE_FOLDER, FileKey
from store.tables import Job
from worker.database_retry import RetryingDatabase
from worker.transfer.storage_retry import fetch_with_retries

INIT_DIR: Final = "init"
"""In the trainer's output folder."""
WEIGHTS_FILE: Final = "weights.safetensors"


class WeightsMissing(JobFailure):
    """The weights that a job starts from are gone; another attempt would not find them either."""

    reason = Reason.INVALID_WEIGHTS


@dataclass(frozen=True)
class _StoredWeights:
    """A file of weights: its folder and path in the storage, and its SHA-256."""

    folder: str
    path: str
    sha256: str


def fetch_initial_weights(
    storage: Storage, database: RetryingDatabase, job: Job, folder: Path
) -> str | None:
    """Download the weights that a job's spec names into `folder`.

    Returns:
        The path of the file in the folder; None if the spec names no weights.

    Raises:
        WeightsMissing: The other job or the file is gone, or damaged.
        StorageFailed: The storage cannot be reached.
    """
    init = job.spec.get("init")
    if init is None:
        return None
    weights = database.write(lambda session: _find(session, job.project, init))
    origin = f"job {init['job']}" if init["job"] is not None else f"the file {init['weights']}"
    if weights is None:
        raise WeightsMissing(
            f"This job starts from the weights of {origin}, which were deleted. Submit a job that "
            "starts from others."
        )
    path = f"{INIT_DIR}/{WEIGHTS_FILE}"
    (folder / INIT_DIR).mkdir()
    source = (weights.folder, weights.path)
    try:
        fetch_with_retries(storage, source, folder / path, weights.sha256, database.attempt_ended)
    except (FileDamaged, FileNotStored) as error:
        raise WeightsMissing(f"This job starts from the weights of {origin}: {error}") from error
    return path


def _find(session: Session, project: str, init: dict[str, Any]) -> _StoredWeights | None:
    if init["job"] is not None:
        artifact = artifacts.weights(session, init["job"])
        if artifact is None:
            return None
        return _StoredWeights(artifact.job_id, artifact.path, artifact.sha256)
    key = FileKey(project, FileKind.WEIGHTS, digest_of(init["weights"]))
    file = project_files.find(session, key)
    return None if file is None else _StoredWeights(STORAGE_FOLDER, file.path, file.sha256)
