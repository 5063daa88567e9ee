"""Store a picture of a tracked run."""

from dataclasses import dataclass

from ampspec.api.runs import RunStatus
from ampspec.jobs import Problem
from ampspec.jobs.run_images import IMAGE_KIND, SIGNATURE_BYTES, image_ending, image_path
from infra.storage import Storage
from server.errors import RequestInvalid
from server.http.receive_body import ReceivedBody
from server.tracked_runs.tracked_runs import TrackedRuns
from store.files import artifacts
from store.files.artifacts import StoredArtifact


@dataclass(frozen=True)
class UploadedImage:
    """What a request says of a picture; `entry` is its number among the entries of the run."""

    job_id: str
    entry: int
    name: str
    step: int
    sha256: str


def store_image(
    runs: TrackedRuns, storage: Storage, image: UploadedImage, body: ReceivedBody
) -> RunStatus:
    """Store the file, then its row; a file for which there is no room is deleted again.

    Raises:
        RequestInvalid: The file is no PNG or JPEG file, or not the announced one.
        NotFound, Conflict, RunConflict, StorageFailed: Nothing is recorded.
    """
    try:
        if body.sha256 != image.sha256:
            raise RequestInvalid(
                [Problem("/query/sha256", "digest_mismatch", image.sha256, body.sha256)]
            )
        with body.file.open("rb") as file:
            ending = image_ending(file.read(SIGNATURE_BYTES))
        if ending is None:
            raise RequestInvalid(
                [Problem("/body", "invalid_value", "a PNG or JPEG file", "another file")]
            )
        path = image_path(image.name, image.step, body.sha256, ending)
        storage.put(image.job_id, path, body.file, sha256=body.sha256)
    finally:
        body.file.unlink(missing_ok=True)
    stored = StoredArtifact(path, IMAGE_KIND, image.step, body.size_bytes, body.sha256)
    try:
        return runs.append(image.job_id, image.entry, stored)
    finally:
        with runs.database.read() as session:
            is_recorded = artifacts.get(session, image.job_id, path) is not None
        if not is_recorded:
            storage.remove(image.job_id, [path])
