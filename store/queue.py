"""Queued jobs: which of them need a message to a worker, and why a job still waits."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    Select,
    bindparam,
    func,
    literal_column,
    or_,
    select,
    update,
)
from sqlalchemy.orm import Session, load_only

from ampcore.spec import ACTIVE, Source, State
from store import gang_waiting, gangs, workers
from store.attempts import BUNDLE, is_due
from store.clock import after, now, seconds_since
from store.queue_names import queue_names
from store.tables import Job, Project
from store.tables.jobs import ONE_RANK, QUEUED

MAX_RANKED: Final = 1000
"""Ranks beyond this are not counted: counting ten thousand jobs takes milliseconds."""


def queues_to_dispatch(session: Session, *, silent_for_s: float) -> Sequence[str]:
    """The queues with due jobs for which no message was sent in the last `silent_for_s` seconds."""
    names = queue_names()
    due_ones = [
        select(Job.id)
        .where(Job.queue == names.c.queue, Job.state == QUEUED, Job.ranks == ONE_RANK, *condition)
        .correlate(names)
        # PostgreSQL would read all queued jobs at once for an EXISTS without it.
        .offset(0)
        .exists()
        for condition in _undispatched_conditions(silent_for_s)
    ]
    return session.scalars(select(names.c.queue).where(or_(*due_ones))).all()


def _undispatched_conditions(silent_for_s: float) -> Sequence[tuple[ColumnElement[bool], ...]]:
    """Of jobs of one queue, each a range of the index of undispatched jobs."""
    never = Job.dispatched_at.is_(None)
    return (
        (Job.dispatched_at < after(-silent_for_s), is_due()),
        (never, Job.not_before.is_(None)),
        (never, Job.not_before <= now()),
    )


def undispatched_jobs(
    session: Session, queue: str, *, silent_for_s: float, limit: int
) -> Sequence[Job]:
    """The undispatched jobs of one queue in claim order: id, queue and policy."""
    statement = (
        select(Job)
        .options(load_only(Job.id, Job.queue, Job.policy))
        .where(*_is_undispatched(silent_for_s), Job.queue == queue)
        .order_by(Job.priority.desc(), Job.created_at, Job.id)
    )
    return session.scalars(statement.limit(limit)).all()


def _is_undispatched(silent_for_s: float) -> tuple[ColumnElement[bool], ...]:
    # A job that is retried has no `dispatched_at`; it is dispatched when it is due.
    undispatched_jobs = or_(Job.dispatched_at.is_(None), Job.dispatched_at < after(-silent_for_s))
    # Gangs are started by reservations (store.gangs).
    return Job.state == State.QUEUED, is_due(), undispatched_jobs, Job.ranks == 1


def mark_dispatched(session: Session, job_ids: Collection[str]) -> None:
    """Record that messages were sent for these jobs, except for those claimed since."""
    # In a fixed order and without waiting for locks: two servers may do this at the same time.
    waiting = (
        select(Job.id)
        .where(Job.id.in_(job_ids), Job.state == State.QUEUED)
        .order_by(Job.id)
        .with_for_update(skip_locked=True)
    )
    session.execute(
        update(Job)
        .where(Job.id.in_(waiting))
        .values(dispatched_at=now())
        .execution_options(synchronize_session=False)
    )


def is_queued(job: Job | Row[Any]) -> bool:
    """Whether `why_waiting` explains the state of the row's job."""
    return bool(job.state == State.QUEUED)


def why_waiting(connection: Connection, jobs: Collection[Row[Any]]) -> dict[str, str]:
    """For each queued job, by id, a sentence that explains why it does not run yet.

    A job that is no longer queued has none. The number of queries does not depend on the number of
    jobs, and only the first jobs of a long queue are ranked.
    """
    ids = [job.id for job in jobs if is_queued(job)]
    if not ids:
        return {}
    waiting = connection.execute(_WAITING, {"job_ids": ids}).all()
    due = [job for job in waiting if job.due_in_s is None or job.due_in_s <= 0]
    capacities = _capacities(connection, {job.queue for job in due})
    running = _running(connection, {job.project for job in due if job.most is not None})
    ranks = {
        queue: _ranks(connection, queue, [job.id for job in due if job.queue == queue])
        for queue, capacity in capacities.items()
        if capacity.slots
    }
    of_gangs = gang_waiting.sentences(connection, [job.id for job in due if job.ranks > 1])
    sentences = {job.id: _not_due_sentence(job.due_in_s) for job in waiting if job not in due}
    for job in due:
        if job.most is not None and running.get(job.project, 0) >= job.most:
            sentences[job.id] = _quota_sentence(job)
            continue
        if capacities[job.queue].has_no_sandbox_for(job.model_kind):
            sentences[job.id] = _sandbox_sentence(job.queue)
            continue
        if job.ranks > 1 and capacities[job.queue].slots:
            if job.id in of_gangs:
                sentences[job.id] = of_gangs[job.id]
            continue
        ranked = ranks.get(job.queue, {})
        if not capacities[job.queue].slots or job.id in ranked or MAX_RANKED in ranked.values():
            rank = ranked.get(job.id)
            sentences[job.id] = _rank_sentence(job.queue, rank, capacities[job.queue])
        # Else it was claimed between two of these queries.
    return sentences


@dataclass(frozen=True)
class _Capacity:
    """The slots of the workers that serve each queue, and how many of them are busy."""

    slots: int
    busy: int
    reserved: int
    """Slots that are reserved for gangs, busy ones too."""
    sandboxes: int
    """How many of the workers run code of users."""

    def has_no_sandbox_for(self, model_kind: str | None) -> bool:
        """Whether there are workers, but none that may claim a job with this kind of model."""
        return model_kind == BUNDLE and self.slots > 0 and self.sandboxes == 0


def _capacities(connection: Connection, queues: Collection[str]) -> dict[str, _Capacity]:
    online = workers.online(connection) if queues else []
    ids = [worker.id for worker in online]
    busy, reserved = workers.busy_slots(connection, ids), gangs.reserved_slots(connection)
    capacities = {}
    for queue in queues:
        serving = [worker for worker in online if queue in worker.queues]
        slots = sum(worker.slots for worker in serving)
        capacities[queue] = _Capacity(
            slots,
            sum(busy.get(worker.id, 0) for worker in serving),
            sum(reserved.get(worker.id, 0) for worker in serving),
            sum(worker.sandbox is not None for worker in serving),
        )
    return capacities


def _running(connection: Connection, projects: Collection[str]) -> dict[str, int]:
    """The number of active jobs of each of these projects."""
    rows = connection.execute(_RUNNING, {"projects": list(projects)}) if projects else ()
    return {row.project: row.jobs for row in rows}


def _ranks(connection: Connection, queue: str, job_ids: Collection[str]) -> dict[str, int]:
    """The ranks in their queue of those jobs that are among its first, and of the last of these."""
    rows = connection.execute(_RANKS, {"queue": queue, "job_ids": list(job_ids)})
    return {row.id: row.rank for row in rows}


def _not_due_sentence(due_in_s: float) -> str:
    return f"Its last attempt failed; the next one starts in {ceil(due_in_s)} s."


def _quota_sentence(job: Row[Any]) -> str:
    return (
        f"The project {job.project!r} has reached its quota of {job.most} running jobs; "
        "this job starts when one of them ends."
    )


def _sandbox_sentence(queue: str) -> str:
    return (
        "The job has its own code, and no online worker that serves the queue "
        f"{queue!r} has a sandbox for it; `ampctl workers --json` says why."
    )


def _rank_sentence(queue: str, rank: int | None, capacity: _Capacity) -> str:
    if not capacity.slots and "/" in queue:
        name, package = queue.split("/", 1)
        return (
            f"No online worker of the queue {name!r} has the package {package!r}; install it there "
            "and restart the worker."
        )
    if not capacity.slots:
        return (
            f"No online worker serves the queue {queue!r}; start one with "
            f"{queue!r} in AMPCORE_WORKER_QUEUES."
        )
    place = f"It is number {rank} in the queue {queue!r}"
    if rank is None:
        place = f"More than {MAX_RANKED:,} jobs are ahead of it in the queue {queue!r}"
    if capacity.busy < capacity.slots <= capacity.busy + capacity.reserved:
        return f"{place}, and the free slots are reserved for a job with several ranks."
    if capacity.busy < capacity.slots:
        return f"{place}; a worker will start it shortly." if rank else f"{place}."
    taken = (
        "the only slot of its workers is"
        if capacity.slots == 1
        else f"all {capacity.slots} slots are"
    )
    return f"{place}, and {taken} busy."


# All statements are built once: building one takes as long as executing it.
_WAITING: Final = (
    select(
        Job.id,
        Job.project,
        Job.queue,
        Job.ranks,
        Job.spec["model"]["kind"].as_string().label("model_kind"),
        (-seconds_since(Job.not_before)).label("due_in_s"),
        Project.max_running.label("most"),
    )
    .join(Project, Project.name == Job.project)
    .where(Job.id.in_(bindparam("job_ids", expanding=True)), Job.state == State.QUEUED)
)
_RUNNING: Final = (
    select(Job.project, func.count().label("jobs"))
    .where(
        Job.project.in_(bindparam("projects", expanding=True)),
        Job.state.in_(ACTIVE),
        Job.source == Source.SUBMITTED,
    )
    .group_by(Job.project)
)


def _ranked_jobs() -> Select[Any]:
    """Rank the first jobs of a queue in claim order."""
    order = (Job.priority.desc(), Job.created_at, Job.id)
    first = (
        select(Job.id, Job.priority, Job.created_at)
        .where(Job.state == State.QUEUED, Job.queue == bindparam("queue"), is_due())
        .order_by(*order)
        # A literal: with a parameter PostgreSQL plans for a tenth of the queue, and sorts it.
        .limit(literal_column(str(MAX_RANKED)))
        .subquery()
    )
    columns = first.c
    rank = func.row_number().over(
        order_by=(columns.priority.desc(), columns.created_at, columns.id)
    )
    ranked = select(columns.id, rank.label("rank")).subquery()
    wanted = ranked.c.id.in_(bindparam("job_ids", expanding=True)) | (ranked.c.rank == MAX_RANKED)
    return select(ranked.c.id, ranked.c.rank).where(wanted)


_RANKS: Final = _ranked_jobs()
