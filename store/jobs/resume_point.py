"""Where the next attempt at a job starts: at its newest checkpoint, or at the beginning."""

from dataclasses import dataclass

from sqlalchemy.orm import Session

from store.files import artifacts
from store.tables import Job


@dataclass(frozen=True)
class ResumePoint:
    """The step at which the next attempt at a job starts.

    Args:
        trained_steps: The steps that the job has completed.
        checkpoint_steps: The steps in its newest recorded checkpoint; None without one.
    """

    trained_steps: int
    checkpoint_steps: int | None

    @property
    def loses_all(self) -> bool:
        """Whether steps were trained and no checkpoint holds any of them."""
        return self.checkpoint_steps is None and self.trained_steps > 0

    def __str__(self) -> str:
        if self.checkpoint_steps is None:
            trained = f", and its {_steps(self.trained_steps)} are trained again"
            return "from the beginning" + (trained if self.loses_all else "")
        repeated = max(self.trained_steps - self.checkpoint_steps, 0)
        suffix = f"; the {_steps(repeated)} after it are trained again" if repeated else ""
        return f"from its checkpoint after {_steps(self.checkpoint_steps)}{suffix}"


def resume_point(session: Session, job: Job) -> ResumePoint:
    """Where the next attempt at a job starts.

    A job that explains a step of another one always starts from a checkpoint of that job.
    """
    if job.explains is not None:
        return ResumePoint(0, None)
    for job_id in (job.id, job.extends):
        rows = artifacts.checkpoints(session, job_id) if job_id is not None else ()
        if rows:
            return ResumePoint(job.step, rows[0].step or 0)
    return ResumePoint(job.step, None)


def _steps(count: int) -> str:
    return f"{count:,} step{'' if count == 1 else 's'}"
