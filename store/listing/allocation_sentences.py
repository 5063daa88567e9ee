"""Why a queued job waits whose devices a batch system gives: what that says, as a sentence."""

from collections.abc import Collection
from math import ceil
from typing import Any, Final

from sqlalchemy import Connection, bindparam, select

from ampspec.api.job.allocations import BATCH_SYSTEMS, allocation_name, batch_system_name
from store import allocations
from store.clock import now, seconds_since
from store.tables import Allocation, Leader


def sentences(connection: Connection, jobs: Collection[Any]) -> dict[str, str]:
    """A sentence for each queued job that is waiting for a batch system, by the id of the job.

    Args:
        connection: To the database.
        jobs: Rows with `id`, `queue` and `attempt`.

    Returns:
        The sentences; jobs that no batch system serves have none.
    """
    if not jobs:
        return {}
    by_id = {job.id: job for job in jobs}
    newest = {row.job_id: row for row in connection.execute(_ALLOCATIONS, {"job_ids": list(by_id)})}
    tasks = {
        allocations.task_of(engine, job.queue): (engine, job.queue)
        for engine in BATCH_SYSTEMS
        for job in jobs
    }
    led = connection.scalars(_LED, {"tasks": list(tasks)}).all()
    engine_of_queue = {queue: engine for engine, queue in map(tasks.__getitem__, led)}
    waiting_sentences = {}
    for job in jobs:
        row, engine = newest.get(job.id), engine_of_queue.get(job.queue)
        if row is not None and row.ended_at is None:
            waiting_sentences[job.id] = _unfinished_sentence(row)
        elif row is not None and row.attempt == job.attempt + 1 and engine is not None:
            waiting_sentences[job.id] = _ended_sentence(row)
        elif engine is not None:
            waiting_sentences[job.id] = f"It is submitted to {BATCH_SYSTEMS[engine]} shortly."
    return waiting_sentences


def _unfinished_sentence(row: Any) -> str:
    name = batch_system_name(row.engine)
    if row.external_id is None:
        return f"It is being submitted to {name}."
    sentence = f"{allocation_name(row.engine, row.external_id)} is {row.state}"
    if row.nodes:
        sentence += f" on {row.nodes}"
    if row.reason:
        sentence += f" ({row.reason})"
    if row.expected_start_at:
        sentence += f"; {name} expects to start it at {row.expected_start_at:%Y-%m-%d %H:%M} UTC"
    elif row.nodes and not row.reason:  # nothing keeps its worker from starting
        sentence += "; its worker starts"
    return f"{sentence}."


def _ended_sentence(row: Any) -> str:
    waits_s = allocations.pause_s(row.number) - float(row.ended_for_s)
    return f"{allocations.ended_sentence(row)} It is submitted again in {ceil(max(waits_s, 1))} s."


# Built once: building a statement takes as long as executing it.
_ALLOCATIONS: Final = (
    select(Allocation.__table__, seconds_since(Allocation.ended_at).label("ended_for_s"))
    .where(Allocation.job_id.in_(bindparam("job_ids", expanding=True)))
    .order_by(Allocation.created_at, Allocation.name)
)
_LED: Final = select(Leader.task).where(
    Leader.task.in_(bindparam("tasks", expanding=True)), Leader.lease_expires_at > now()
)
