"""Read the recorded telemetry of a step that another job explains."""

from typing import Any, Final

from sqlalchemy.orm import Session

from ampspec.telemetry import EventType, StepBlock
from store.jobs import jobs
from store.tables import Job
from store.telemetry import events, steps
from worker.database_retry import RetryingDatabase

RECORDED: Final = ("loss", "grad_norm", "loss_scale", "skipped")
MAX_ENGINES: Final = 100


def explained_step(database: RetryingDatabase, job: Job) -> dict[str, Any] | None:
    """The step that a job explains, as its trainer needs it; None if it explains none.

    Returns:
        `step`; `values`, which the explained job recorded in it (None if they are gone); the
        `engine` that it had; and its throughput `examples_per_s`, if known.
    """
    if job.explains is None or job.explain_step is None:
        return None
    explains, step = job.explains, job.explain_step
    return {"step": step} | database.write(lambda session: _stored_step(session, explains, step))


def _stored_step(session: Session, job_id: str, step: int) -> dict[str, Any]:
    job = jobs.get(session, job_id)
    totals = (job.totals if job is not None else None) or {}
    engine_events = events.read(session, job_id, limit=MAX_ENGINES, types=[EventType.ENGINE])
    engines = [row.data.get("engine") for row in engine_events if (row.step or 0) <= step]
    block = steps.read(session, job_id, start=step, end=step + 1, limit=1).block
    return {
        "values": _values(block, step),
        "engine": engines[-1] if engines else None,
        "examples_per_s": totals.get("median_examples_per_s"),
    }


def _values(block: StepBlock, step: int) -> dict[str, Any] | None:
    if len(block) != 1 or block.first_step != step:
        return None
    return {name: block[name][0].item() for name in RECORDED if name in block}
