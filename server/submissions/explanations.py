"""The jobs that explain a step of another job: their spec, their cost and their answers."""

import logging
from typing import Any

from sqlalchemy.orm import Session

from ampspec.api.job.explanations import Explanation, ExplanationCost, ListedExplanation
from ampspec.documents.json_limits import check_json
from ampspec.telemetry import EventType
from server.errors import Conflict
from server.submissions.cloned_spec import clone_document
from store import tables
from store.files import artifacts
from store.telemetry import events

log = logging.getLogger(__name__)

MAX_NAME = 200


def explanation_document(job: tables.Job, step: int) -> Any:
    """The spec of a job that explains a step: that of the job itself, under another name.

    Raises Conflict as `check_explainable`.
    """
    check_explainable(job, step)
    return clone_document(job, {"name": f"step {step} of {job.name}"[:MAX_NAME]})


def check_explainable(job: tables.Job, step: int) -> None:
    """Raise Conflict if the step cannot be repeated by a job of its own."""
    if job.ranks > 1:
        raise Conflict(
            "Cannot explain a step of a job with several ranks: its steps cannot be repeated by "
            "one process. The events of the job name the rank and the examples of an overflow."
        )
    if job.explains is not None:
        raise Conflict(
            f"Cannot explain a step of the job: it explains step {job.explain_step} of job "
            f"{job.explains} itself. Explain a step of that job."
        )
    if step >= job.step:
        raise Conflict(
            f"Cannot explain step {step}: expected a step from 0 that the job has completed, and "
            f"it has completed {job.step}."
        )


def cost_of(session: Session, job: tables.Job, step: int) -> ExplanationCost:
    """What has to be repeated before the step. Raises Conflict as `check_explainable`."""
    check_explainable(job, step)
    saved = [row.step for row in artifacts.checkpoints(session, job.id) if row.step is not None]
    first = max((done for done in saved if done <= step), default=0)
    speed = examples_per_s(job)
    data, train = job.spec.get("data") or {}, job.spec.get("train") or {}
    examples = (step - first) * (data.get("batch_size") or 0) * (train.get("accumulate") or 1)
    seconds = examples / speed if speed and examples else None
    return ExplanationCost(first_step=first, steps=step - first, seconds=seconds)


def examples_per_s(job: tables.Job) -> float | None:
    """The throughput of a job, as far as it is known."""
    for part, name in (
        (job.summary, "examples_per_s"),
        (job.totals, "median_examples_per_s"),
        (job.latest, "examples_per_s"),
    ):
        value = (part or {}).get(name)
        if isinstance(value, int | float) and value > 0:
            return float(value)
    return None


def listed(session: Session, job: tables.Job) -> ListedExplanation:
    """An explanation in a list, with its sentence once it has one."""
    answer = _answer(session, job) or {}
    texts = {name: _text(answer.get(name)) for name in ("attribution", "sentence")}
    return ListedExplanation(**_fields(job), **texts)


def with_answer(session: Session, job: tables.Job) -> Explanation:
    """An explanation with its whole answer; null until the job has it."""
    return Explanation(**_fields(job), answer=_answer(session, job))


def _fields(job: tables.Job) -> dict[str, Any]:
    return {
        "job": job.id,
        "explains": job.explains,
        "step": job.explain_step,
        "state": job.state,
        "message": job.message,
        "created_at": job.created_at,
        "finished_at": job.finished_at,
    }


def _answer(session: Session, job: tables.Job) -> dict[str, Any] | None:
    """The data of its last event with an answer; None also for one that is no answer."""
    rows = events.read(session, job.id, limit=10, types=[EventType.EXPLANATION])
    if not rows or not isinstance(answer := rows[-1].data, dict):
        return None
    try:
        return dict(check_json(answer))
    except ValueError as error:
        log.warning("skipping the answer of the job %s: %s", job.id, error)
        return None


def _text(value: object) -> str | None:
    """A text of an answer, which a job with custom code may have written otherwise."""
    return value if isinstance(value, str) else None
