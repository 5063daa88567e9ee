"""Pictures of tracked runs: artifacts, of which a run has a limited number."""

from collections.abc import Sequence

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from ampspec.jobs.run_images import IMAGE_KIND, MAX_IMAGES
from ampspec.telemetry import Event
from store.files import artifacts
from store.files.artifact_quota import ArtifactQuotaReached
from store.files.artifacts import StoredArtifact
from store.tables import Artifact, Attempt


def admit(session: Session, job_id: str, image: StoredArtifact) -> StoredArtifact | Event:
    """The picture, or the warning that takes its place because there is no room for it.

    The same picture of the same step replaces the one before.
    """
    count = select(func.count()).where(
        Artifact.job_id == job_id, Artifact.kind == IMAGE_KIND, Artifact.path != image.path
    )
    if (session.scalar(count) or 0) >= MAX_IMAGES:
        return _warning(image, f"a run has at most {MAX_IMAGES:,} pictures.")
    try:
        artifacts.check_quota(session, job_id, image.path, image.kind, image.size_bytes)
    except ArtifactQuotaReached as error:
        return _warning(image, str(error))
    artifacts.forget(session, job_id, [image.path])
    return image


def listing(session: Session, job_id: str) -> Sequence[Artifact]:
    """The pictures of a job in the order of their steps, without those of replaced steps."""
    later_attempt = select(1).where(
        Attempt.job_id == Artifact.job_id,
        Attempt.attempt > Artifact.attempt,
        Attempt.first_step <= Artifact.step,
    )
    statement = (
        select(Artifact)
        .where(Artifact.job_id == job_id, Artifact.kind == IMAGE_KIND, ~later_attempt.exists())
        .order_by(Artifact.step, Artifact.seq)
    )
    return session.scalars(statement).all()


def _warning(image: StoredArtifact, reason: str) -> Event:
    return Event.warning("image_dropped", f"A picture was not stored: {reason}", image.step)
