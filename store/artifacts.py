"""The files that a job has left: which there are, and what their bytes must be.

A row appears when its file is whole in the storage, in the attempt's own fenced transaction: a
checkpoint without a row does not count, whoever wrote it.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import delete, select, tuple_
from sqlalchemy.orm import Session

from store.leases import LEASE_S, Standing, take_seq
from store.tables import Artifact

CHECKPOINT: Final = "checkpoint"
MODEL: Final = "model"
REPORT: Final = "report"


@dataclass(frozen=True)
class Stored:
    """A file in the storage: its path below the job's folder, and what it is."""

    path: str
    kind: str
    step: int | None
    size_bytes: int
    sha256: str


def add(
    session: Session, job_id: str, attempt: int, file: Stored, *, lease_s: float = LEASE_S
) -> Standing | None:
    """Write down a file that is whole in the storage; None when another attempt owns the job."""
    standing = take_seq(session, job_id, attempt, lease_s=lease_s)
    if standing is not None:
        row = Artifact(job_id=job_id, attempt=attempt, seq=standing.seq, **vars(file))
        session.merge(row)  # a repeated writing replaces the first one
        session.flush()
    return standing


def listing(session: Session, job_id: str) -> Sequence[Artifact]:
    """Every file of a job, in the order in which they came."""
    statement = select(Artifact).where(Artifact.job_id == job_id)
    return session.scalars(statement.order_by(Artifact.seq)).all()


def get(session: Session, job_id: str, path: str) -> Artifact | None:
    """The file of that path."""
    return session.get(Artifact, (job_id, path))


def checkpoints(session: Session, job_id: str) -> Sequence[Artifact]:
    """What a job can go on from, the newest first.

    All steps before one of them are stored, since its row was written after theirs.
    """
    statement = select(Artifact).where(Artifact.job_id == job_id, Artifact.kind == CHECKPOINT)
    return session.scalars(statement.order_by(Artifact.seq.desc())).all()


def forget(session: Session, job_id: str, paths: Collection[str]) -> None:
    """These files are gone from the storage, or soon will be."""
    session.execute(
        delete(Artifact)
        .where(tuple_(Artifact.job_id, Artifact.path).in_([(job_id, path) for path in paths]))
        .execution_options(synchronize_session=False)
    )
