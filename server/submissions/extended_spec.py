"""The spec of a job that continues a finished one for more epochs, from its last checkpoint."""

from typing import Any

from sqlalchemy.orm import Session

from server.errors import Conflict
from server.jobs.actions import EXTEND, refusal
from server.submissions.cloned_spec import clone_document
from store import tables
from store.files import artifacts
from store.telemetry import evaluations


def extended_document(session: Session, job: tables.Job, epochs: int) -> Any:
    """The spec of a finished job, with more epochs; a job with `train.steps` gets as many steps.

    Raises Conflict if the job has not succeeded, or has no checkpoint of its end.
    """
    if job.state not in EXTEND.states:
        raise refusal(session, EXTEND, job)
    _check_checkpoint(session, job)
    train = job.spec["train"]
    if isinstance(job.summary, dict) and job.summary.get("stopped_early"):
        return _continued_document(session, job, epochs)
    if train["steps"] is None:
        return clone_document(job, {"train.epochs": train["epochs"] + epochs})
    steps_per_epoch = _steps_per_epoch(session, job)
    return clone_document(job, {"train.steps": train["steps"] + epochs * steps_per_epoch})


def _continued_document(session: Session, job: tables.Job, epochs: int) -> Any:
    """The spec of a job that stopped early, with N more epochs than it trained.

    Its patience begins again: otherwise the new job would stop at once.
    """
    train, done = job.spec["train"], job.total_steps or 0
    steps_per_epoch = _steps_per_epoch(session, job)
    done_epochs = done // steps_per_epoch
    changes: dict[str, Any] = {"train.early_stopping.start_epoch": done_epochs}
    if train["steps"] is None:
        changes["train.epochs"] = done_epochs + epochs
    else:
        changes["train.steps"] = done + epochs * steps_per_epoch
    return clone_document(job, changes)


def _steps_per_epoch(session: Session, job: tables.Job) -> int:
    steps = evaluations.steps_per_epoch(session, job.id)
    if steps is None:
        raise Conflict("Cannot extend the job: its events do not tell the steps of an epoch.")
    return steps


def _check_checkpoint(session: Session, job: tables.Job) -> None:
    saved = [row.step for row in artifacts.checkpoints(session, job.id)]
    if job.total_steps in saved:
        return
    if job.spec["train"]["checkpoint_every_s"] is None:
        why = "with train.checkpoint_every_s null it saved no checkpoint"
    elif saved:
        why = f"its last checkpoint is after {saved[0]} of {job.total_steps} steps"
    else:
        why = "none of its checkpoints is stored"
    raise Conflict(f"Cannot extend the job: {why}. Clone it with more train.epochs instead.")
