"""Observations from the events of a job about its data and memory, unknown from its spec."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypedDict

from sqlalchemy.orm import Session

from ampspec.studies.capacity.memory_model import MemoryModel
from ampspec.telemetry import EventType
from store.jobs import jobs
from store.telemetry import events

MAX_EVENTS: Final = 100
"""Before the first step an attempt writes its start and the findings of its preflight."""
FIGURES: Final = "figures"
NOT_THERE: Final = (IndexError, KeyError, TypeError, ValueError, OverflowError)
"""The errors of reading a missing or malformed number."""


class JobObservations(TypedDict):
    """Facts from the events of a job; None: not reported, or by another version."""

    train_examples: int | None
    split_seed: int | None
    memory: MemoryModel | None


def job_observations(session: Session, job_id: str) -> JobObservations:
    """The training examples of a job, and its memory by batch size, from its layers."""
    job = jobs.get(session, job_id)
    if job is None:
        return JobObservations(train_examples=None, split_seed=None, memory=None)
    event_rows = events.read(
        session, job_id, types=[EventType.STARTED, EventType.PREFLIGHT], limit=MAX_EVENTS
    )
    data: list[Mapping[str, Any]] = [row.data for row in event_rows if isinstance(row.data, dict)]
    started = [event for event in data if "steps_per_epoch" in event]
    figures = [event["data"] for event in data if event.get("code") == FIGURES and "data" in event]
    batch = job.spec["data"]["batch_size"]
    return JobObservations(
        train_examples=_train_examples(started, batch * job.spec["train"]["accumulate"]),
        split_seed=_split_seed(started),
        memory=_memory(figures, batch),
    )


def _train_examples(started: Sequence[Mapping[str, Any]], step_examples: int) -> int | None:
    try:
        steps, dropped_examples = started[0]["steps_per_epoch"], started[0]["dropped_examples"]
        return int(steps) * step_examples + int(dropped_examples)
    except NOT_THERE:
        return None


def _split_seed(started: Sequence[Mapping[str, Any]]) -> int | None:
    try:
        return int(started[0]["data"]["split_seed"])
    except NOT_THERE:
        return None


def _memory(figures: Sequence[Mapping[str, Any]], batch_size: int) -> MemoryModel | None:
    try:
        parts = figures[0]["memory"][figures[0]["policy"]]
        activations = int(parts["activations"])
        return MemoryModel(int(parts["total"]) - activations, activations // batch_size)
    except NOT_THERE:
        return None
