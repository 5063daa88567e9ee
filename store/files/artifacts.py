"""Artifacts of jobs: one row for each stored file, with its size and SHA-256.

The row is written after the file is complete in the storage, in the fenced transaction of the
attempt. A checkpoint without a row is ignored.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import delete, select, tuple_
from sqlalchemy.orm import Session

from store.files.artifact_quota import check_more
from store.leases import LEASE_S, LeaseStatus, renew_lease_and_take_seq
from store.tables import Artifact

CHECKPOINT: Final = "checkpoint"
EVALUATION: Final = "evaluation"
"""What the trained model gets right and wrong."""
EXAMPLES: Final = "examples"
"""The metrics of each validation example."""
EXPORT: Final = "export"
"""A model in another format, and the report of the conversions."""
MODEL: Final = "model"
PROFILE: Final = "profile"
REPORT: Final = "report"
SIGNATURE: Final = "signature"
WEIGHTS: Final = "weights"

CHECKPOINTS_KEPT: Final = 2
"""Recorded checkpoints of a job, over all its attempts."""
NOT_LIMITED: Final = frozenset({REPORT})
"""Stored whatever the quota of the project is: it says how the job has ended."""


@dataclass(frozen=True)
class StoredArtifact:
    """A file in the storage; `path` is relative to the job's folder."""

    path: str
    kind: str
    step: int | None
    size_bytes: int
    sha256: str


def add(
    session: Session, job_id: str, attempt: int, file: StoredArtifact, *, lease_s: float = LEASE_S
) -> LeaseStatus | None:
    """Record a file that is complete in the storage; None if another attempt owns the job.

    Raises ArtifactQuotaReached.
    """
    lease = renew_lease_and_take_seq(session, job_id, attempt, lease_s=lease_s)
    if lease is not None:
        check_quota(session, job_id, file.path, file.kind, file.size_bytes)
        row = Artifact(job_id=job_id, attempt=attempt, seq=lease.seq, **vars(file))
        session.merge(row)  # a repeated write replaces the first one
        session.flush()
    return lease


def check_quota(session: Session, job_id: str, path: str, kind: str, size_bytes: int) -> None:
    """Raise ArtifactQuotaReached if the project of the job may not store this file.

    What it replaces is subtracted: the file at that path, and for a checkpoint the outdated one.
    """
    if kind in NOT_LIMITED:
        return
    replaced = get(session, job_id, path)
    freed = [replaced] if replaced is not None else []
    if kind == CHECKPOINT and replaced is None:
        freed += checkpoints(session, job_id)[CHECKPOINTS_KEPT - 1 :]
    check_more(session, job_id, size_bytes - sum(row.size_bytes for row in freed))


def listing(session: Session, job_id: str) -> Sequence[Artifact]:
    """Every file of a job, in the order in which they were recorded."""
    statement = select(Artifact).where(Artifact.job_id == job_id)
    return session.scalars(statement.order_by(Artifact.seq)).all()


def get(session: Session, job_id: str, path: str) -> Artifact | None:
    """The file with that path, or None."""
    return session.get(Artifact, (job_id, path))


def checkpoints(session: Session, job_id: str) -> Sequence[Artifact]:
    """The checkpoints that a job can resume from, the newest first.

    All steps before a checkpoint are stored: its row was written after theirs.
    """
    statement = select(Artifact).where(Artifact.job_id == job_id, Artifact.kind == CHECKPOINT)
    return session.scalars(statement.order_by(Artifact.seq.desc())).all()


def weights(session: Session, job_id: str) -> Artifact | None:
    """The newest file with the trained weights of a job, or None."""
    return of_kind(session, job_id, WEIGHTS)


def of_kind(session: Session, job_id: str, kind: str) -> Artifact | None:
    """The newest file of a kind, or None."""
    statement = select(Artifact).where(Artifact.job_id == job_id, Artifact.kind == kind)
    return session.scalars(statement.order_by(Artifact.seq.desc()).limit(1)).one_or_none()


def forget(session: Session, job_id: str, paths: Collection[str]) -> None:
    """Delete the rows of these files; the files themselves are deleted after the commit."""
    session.execute(
        delete(Artifact)
        .where(tuple_(Artifact.job_id, Artifact.path).in_([(job_id, path) for path in paths]))
        .execution_options(synchronize_session=False)
    )
