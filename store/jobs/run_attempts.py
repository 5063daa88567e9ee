"""Attempts of a tracked run: its program goes on from an earlier step, which replaces steps."""

from dataclasses import replace
from typing import Any, Final

from sqlalchemy import tuple_, update
from sqlalchemy.orm import Session

from ampspec.telemetry import Event, EventType, StepBlock
from ampspec.telemetry.json_values import json_safe
from ampspec.telemetry.steps.summary import StepSummary
from store.clock import now
from store.tables import Attempt, Job, RunThroughput
from store.telemetry.steps import clip, read_blocks, visible_ranges

REPLACED: Final = "replaced"
"""The outcome of an attempt whose program went on from an earlier step."""
COLUMNS: Final = frozenset({"loss", "skipped", "step_time_s", "examples"})
"""What the totals are computed from."""
PIECE_STEPS: Final = 64
"""Steps that count with one throughput: blocks may have been merged to thousands."""


def begin(session: Session, job: Job, first_step: int) -> Event:
    """Begin an attempt at a step, if there are steps to replace; the event that says so.

    Nothing is deleted: readers take each step from the newest attempt.
    """
    end = job.step
    if first_step >= end:
        sentence = f"The program went on at step {first_step}."
        return Event(EventType.RESUMED, first_step, {"steps": first_step, "sentence": sentence})
    earlier = job.attempt
    summary = _totals_before(session, job, first_step)
    throughput = session.get_one(RunThroughput, job.id, populate_existing=True)
    throughput.histogram = summary.throughput.to_json()
    totals = {"scale_health": (job.totals or {}).get("scale_health")} | summary.to_json()
    job.attempt = job.max_attempts = earlier + 1
    job.step, job.totals = first_step, json_safe(totals)
    session.flush()
    end_of_earlier: dict[str, Any] = {
        "outcome": REPLACED,
        "message": f"The program went on from step {first_step}.",
        "finished_at": now(),
    }
    session.execute(
        update(Attempt)
        .where(tuple_(Attempt.job_id, Attempt.attempt) == (job.id, earlier))
        .values(**end_of_earlier)
        .execution_options(synchronize_session=False)
    )
    session.add(Attempt(job_id=job.id, attempt=job.attempt, worker_id=None, first_step=first_step))
    session.flush()
    sentence = (
        f"The program went on from step {first_step}: the steps from there to {end - 1} are "
        f"trained again. Those of before are kept as attempt {earlier}."
    )
    return Event(EventType.RESUMED, first_step, {"steps": first_step, "sentence": sentence})


def first_step(session: Session, job: Job) -> int | None:
    """The first stored step of a run; None without one."""
    ranges = visible_ranges(session, job.id)
    return ranges[0].start if ranges else None


def _totals_before(session: Session, job: Job, step: int) -> StepSummary:
    """The totals over the steps before `step`; later ones count as repeated.

    The step may be within a block, so the steps are read. A program goes on from an earlier step
    once in hours.
    """
    summary = StepSummary()
    for part in clip(visible_ranges(session, job.id), 0, step):
        for block in read_blocks(session, job.id, part, COLUMNS.__contains__):
            for piece in _pieces(block):
                summary.add(len(piece), piece.stats)
    stored = StepSummary.from_json(job.totals or {}, {})
    return replace(
        summary,
        repeated_steps=stored.repeated_steps + max(stored.steps - summary.steps, 0),
        repeated_s=stored.repeated_s + max(stored.duration_s - summary.duration_s, 0.0),
    )


def _pieces(block: StepBlock) -> list[StepBlock]:
    pieces = []
    while len(block):
        head = block.head(PIECE_STEPS)
        pieces.append(head)
        block = block.between(head.end_step, block.end_step)
    return pieces
