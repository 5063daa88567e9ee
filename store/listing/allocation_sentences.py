"""Why a queued job waits whose devices a batch system gives: what that says, as a sentence."""

from collections.abc import Collection
from math import ceil
from typing import Any, Final

from sqlalchemy import Connection, bindparam, select

from ampspec.api.job.allocations import BATCH_SYSTEMS, allocation_name, batch_system_name
from store import allocations
from store.clock import now, seconds_since
from store.tables import Allocation, Leader

RUNNING: Final = "RUNNING"


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
        allocations.task_of(engine, queue): (engine, queue)
        for engine in BATCH_SYSTEMS
        for queue in {
            *(allocations.base_queue(job.queue) for job in jobs),
            *(row.queue for row in newest.values()),
        }
    }
    led = [tasks[task] for task in connection.scalars(_LED, {"tasks": list(tasks)})]
    engine_of_queue = {queue: engine for engine, queue in led}
    waiting_sentences = {}
    for job in jobs:
        row, engine = newest.get(job.id), engine_of_queue.get(allocations.base_queue(job.queue))
        if row is not None and row.ended_at is None:
            sentence = _unfinished_sentence(row, is_of_next_attempt=row.attempt == job.attempt + 1)
            if (row.engine, row.queue) not in led:
                sentence += (
                    f" No scheduler of {batch_system_name(row.engine)} serves the queue "
                    f"{row.queue!r} at the moment, so this may be out of date."
                )
            waiting_sentences[job.id] = sentence
        elif engine is None:
            continue
        elif row is not None and row.attempt == job.attempt + 1 and (row.retry_in_s or 0) > 0:
            waiting_sentences[job.id] = (
                f"{allocations.ended_sentence(row)} It is submitted again in "
                f"{ceil(row.retry_in_s)} s."
            )
        else:
            waiting_sentences[job.id] = (
                f"It is submitted to {BATCH_SYSTEMS[engine]} when its turn comes, and the quota "
                "of its project allows it."
            )
    return waiting_sentences


def _unfinished_sentence(row: Any, *, is_of_next_attempt: bool) -> str:
    name = batch_system_name(row.engine)
    if row.external_id is None:
        reason = f" ({row.reason})" if row.reason else ""
        return f"It is being submitted to {name}{reason}."
    sentence = f"{allocation_name(row.engine, row.external_id)} is {row.state}"
    if row.nodes:
        sentence += f" on {row.nodes}"
    if row.reason:
        sentence += f" ({row.reason})"
    if row.expected_start_at:
        sentence += f"; {name} expects to start it at {row.expected_start_at:%Y-%m-%d %H:%M} UTC"
    elif row.state.upper() == RUNNING and is_of_next_attempt and not row.reason:
        sentence += "; its worker starts"
    return f"{sentence}."


# Built once: building a statement takes as long as executing it.
_ALLOCATIONS: Final = (
    select(Allocation.__table__, (-seconds_since(Allocation.retry_at)).label("retry_in_s"))
    .where(Allocation.job_id.in_(bindparam("job_ids", expanding=True)))
    .order_by(Allocation.created_at, Allocation.name)
)
_LED: Final = select(Leader.task).where(
    Leader.task.in_(bindparam("tasks", expanding=True)), Leader.lease_expires_at > now()
)
