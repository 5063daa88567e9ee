"""Reads the metrics of a job's validation examples from the storage."""

import logging
from typing import Final

from sqlalchemy.orm import Session

from ampspec.studies.precision.example_results import ExampleResults
from infra.storage import Storage, StorageFailed
from store.files import artifacts

log = logging.getLogger(__name__)

MAX_EXAMPLES_BYTES: Final = 64 * 2**20
"""Of more examples only the means are compared."""


def read_example_results(session: Session, job_id: str, storage: Storage) -> ExampleResults | None:
    """The metrics of a job's validation examples; None without its file, or if it is damaged."""
    file = artifacts.of_kind(session, job_id, artifacts.EXAMPLES)
    if file is None or file.size_bytes > MAX_EXAMPLES_BYTES:
        return None
    try:
        content = b"".join(storage.read(job_id, file.path, 0, file.size_bytes))
        return ExampleResults.from_table(content)
    except (StorageFailed, ValueError) as error:
        log.warning("job %s: its validation examples cannot be read: %s", job_id, error)
        return None
