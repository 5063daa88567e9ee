"""Why a queued job does not run yet, as a sentence."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any, Final

from sqlalchemy import Connection, Row, Select, bindparam, func, literal_column, select

from ampspec.documents.text import plural
from ampspec.jobs import State
from store import workers
from store.clock import seconds_since
from store.gangs import gang_waiting, gangs
from store.jobs.attempts import BUNDLE, is_due
from store.listing import allocation_sentences
from store.scheduling.fair_share import ProjectShare, first_turns, projects_in_turn
from store.tables import QUEUED, Gang, Job
from store.workers import OnlineWorker

MAX_RANKED: Final = 1000
"""Ranks beyond this are not counted: counting ten thousand jobs takes milliseconds."""


def is_queued(job: Job | Row[Any]) -> bool:
    """Whether `why_waiting` explains the state of the row's job."""
    return bool(job.state == State.QUEUED)


def why_waiting(connection: Connection, jobs: Collection[Row[Any]]) -> dict[str, str]:
    """For each queued job, by id, a sentence that explains why it does not run yet.

    A job that is no longer queued has none. The number of queries depends on the numbers of their
    queues and projects, not on that of the jobs, and only the first jobs of a project are ranked.
    """
    ids = [job.id for job in jobs if is_queued(job)]
    if not ids:
        return {}
    waiting_jobs = connection.execute(_WAITING, {"job_ids": ids}).all()
    due = [job for job in waiting_jobs if job.due_in_s is None or job.due_in_s <= 0]
    online = workers.online_with_job_workers(connection) if due else []
    # A worker that runs one job alone is no capacity for the other jobs of its queue.
    job_workers = {worker.job_id: worker for worker in online if worker.job_id is not None}
    online = [worker for worker in online if worker.job_id is None]
    capacities = _capacities(connection, online, {job.queue for job in due})
    lines = {queue: _line(connection, queue) for queue in capacities}
    ranks = _ranks_by_line(connection, [job for job in due if capacities[job.queue].slots])
    of_batch_systems = allocation_sentences.sentences(connection, due)
    of_gangs = gang_waiting.sentences(connection, [job.id for job in due if job.ranks > 1])
    sentences = {job.id: _not_due_sentence(job.due_in_s) for job in waiting_jobs if job not in due}
    for job in due:
        line = lines[job.queue]
        if (refusal := line.refusal(job)) is not None:
            sentences[job.id] = refusal
            continue
        if job.id in job_workers:
            sentences[job.id] = of_gangs.get(job.id) or _job_worker_sentence(job_workers[job.id])
            continue
        if job.id in of_batch_systems:
            sentences[job.id] = of_batch_systems[job.id]
            continue
        if capacities[job.queue].has_no_sandbox_for(job.model_kind):
            sentences[job.id] = _sandbox_sentence(job.queue)
            continue
        if job.ranks > 1 and capacities[job.queue].slots:
            if job.id in of_gangs:
                sentences[job.id] = of_gangs[job.id]
            continue
        job_ranks = ranks.get((job.queue, job.project), {})
        if (
            not capacities[job.queue].slots
            or job.id in job_ranks
            or MAX_RANKED in job_ranks.values()
        ):
            sentences[job.id] = _rank_sentence(
                line, job.project, job_ranks.get(job.id), capacities[job.queue]
            )
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
    storage_error: str | None
    """Why one of the other workers cannot store files, and takes no job."""

    def has_no_sandbox_for(self, model_kind: str | None) -> bool:
        """Whether there are workers, but none that may claim a job with this kind of model."""
        return model_kind == BUNDLE and self.slots > 0 and self.sandboxes == 0


def _capacities(
    connection: Connection, online: Sequence[OnlineWorker], queues: Collection[str]
) -> dict[str, _Capacity]:
    ids = [worker.id for worker in online]
    busy, reserved = workers.busy_slots(connection, ids), gangs.reserved_slots(connection)
    capacities = {}
    for queue in queues:
        of_queue = [worker for worker in online if queue in worker.queues]
        serving = [worker for worker in of_queue if worker.storage_error is None]
        slots = sum(worker.slots for worker in serving)
        capacities[queue] = _Capacity(
            slots,
            sum(busy.get(worker.id, 0) for worker in serving),
            sum(reserved.get(worker.id, 0) for worker in serving),
            sum(worker.sandbox is not None for worker in serving),
            next((worker.storage_error for worker in of_queue if worker.storage_error), None),
        )
    return capacities


@dataclass(frozen=True)
class _Line:
    """The projects with jobs that are due in a queue, the one whose turn is next first."""

    queue: str
    shares: Sequence[ProjectShare]

    def refusal(self, job: Row[Any]) -> str | None:
        """Why the quotas of its project do not allow the job to start; None: they do."""
        of_project = [share for share in self.shares if share.project == job.project]
        devices = (job.min_ranks or 1) - job.reserved_ranks  # those are in use already
        jobs = 0 if job.reserved_ranks else 1
        return of_project[0].refusal(devices, jobs=jobs) if of_project else None

    def is_turn_of(self, project: str) -> bool:
        """Whether no other project goes before this one."""
        return all(share.project == project for share in self._may_start(project)[:1])

    def _may_start(self, project: str) -> list[ProjectShare]:
        """The project and those whose quotas allow a job to start, in their turn."""
        return [
            candidate
            for candidate in self.shares
            if candidate.project == project or candidate.refusal() is None
        ]

    def share_sentence(self, project: str) -> str:
        """Which projects go before this one, and why; empty if there is no other."""
        may_start = self._may_start(project)
        places = {candidate.project: place for place, candidate in enumerate(may_start)}
        if len(places) < 2 or project not in places:
            return ""
        ahead = places[project]
        project_share = may_start[ahead]
        use = project_share.use
        share = (
            f"its project's share is {project_share.share:.2f} = ({use.recent_hours:.2f} recent "
            f"device hours + {plural(use.devices, 'device')}) / {project_share.weight:g}"
        )
        if not ahead:
            return f" The project {project!r} is next: {share}."
        first = may_start[0]
        ahead_text = "1 project goes" if ahead == 1 else f"{ahead} projects go"
        return f" {ahead_text} first: {share}; that of {first.project!r} is {first.share:.2f}."


def _line(connection: Connection, queue: str) -> _Line:
    return _Line(queue, projects_in_turn(connection, _FIRST_TURNS, {"queue": queue}))


def _ranks_by_line(
    connection: Connection, jobs: Sequence[Row[Any]]
) -> dict[tuple[str, str], dict[str, int]]:
    """By queue and project: the ranks of those jobs that are among the first of their project.

    The last one of these has a rank, too.
    """
    ids: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for job in jobs:
        ids[job.queue, job.project].append(job.id)
    return {
        (queue, project): {
            row.id: row.rank
            for row in connection.execute(
                _RANKS, {"queue": queue, "project": project, "job_ids": job_ids}
            )
        }
        for (queue, project), job_ids in ids.items()
    }


def _not_due_sentence(due_in_s: float) -> str:
    return f"Its last attempt failed; the next one starts in {ceil(due_in_s)} s."


def _job_worker_sentence(worker: OnlineWorker) -> str:
    sentence = f"A worker for this job alone was started on {worker.hostname}"
    if worker.storage_error is not None:
        return f"{sentence}. It waits, because it could not store files: {worker.storage_error}"
    return f"{sentence}; it starts the job shortly."


def _sandbox_sentence(queue: str) -> str:
    return (
        "The job runs custom code, and no online worker that serves the queue "
        f"{queue!r} has a sandbox for it; `ampctl worker list --json` says why."
    )


def _rank_sentence(line: _Line, project: str, rank: int | None, capacity: _Capacity) -> str:
    queue = line.queue
    if not capacity.slots and "/" in queue:
        name, package = queue.split("/", 1)
        return (
            f"No online worker of the queue {name!r} has the package {package!r}; install it there "
            "and restart the worker."
        )
    if not capacity.slots and capacity.storage_error is not None:
        return (
            f"The online workers of the queue {queue!r} take no job, because they could not store "
            f"its files: {capacity.storage_error}"
        )
    if not capacity.slots:
        return (
            f"No online worker serves the queue {queue!r}; start one with "
            f"{queue!r} in AMPCORE_WORKER_QUEUES."
        )
    share = line.share_sentence(project)
    of_project = " of its project's jobs" if share else ""
    place = f"It is number {rank}{of_project} in the queue {queue!r}"
    if rank is None:
        place = f"More than {MAX_RANKED:,} jobs{of_project} are ahead of it in the queue {queue!r}"
    if capacity.busy < capacity.slots <= capacity.busy + capacity.reserved:
        return f"{place}, and the free slots are reserved for a job with several ranks.{share}"
    if (free := capacity.slots - capacity.busy) > 0:
        if rank is None or not line.is_turn_of(project):
            return f"{place}.{share}"
        if rank <= free:
            return f"{place}; a worker will start it shortly.{share}"
        return f"{place}; {plural(free, 'free slot')}, and the jobs ahead of it go first.{share}"
    busy_slots = (
        "the only slot of its workers is"
        if capacity.slots == 1
        else f"all {capacity.slots} slots are"
    )
    return f"{place}, and {busy_slots} busy.{share}"


# All statements are built once: building one takes as long as executing it.
_WAITING: Final = (
    select(
        Job.id,
        Job.project,
        Job.queue,
        Job.attempt,
        Job.ranks,
        Job.spec["model"]["kind"].as_string().label("model_kind"),
        (-seconds_since(Job.not_before)).label("due_in_s"),
        Gang.min_ranks,
        gangs.reserved_ranks().label("reserved_ranks"),
    )
    .join(Gang, Gang.job_id == Job.id, isouter=True)
    .where(Job.id.in_(bindparam("job_ids", expanding=True)), Job.state == State.QUEUED)
)


_FIRST_TURNS: Final = first_turns(
    select(Job.id)
    .where(Job.state == QUEUED, Job.queue == bindparam("queue"), is_due())
    .order_by(Job.turn_at, Job.id)
    .limit(literal_column("1"))
)


def _ranked_jobs() -> Select[Any]:
    """Rank the first jobs of a project in a queue in claim order."""
    first = (
        select(Job.id, Job.turn_at)
        .where(Job.state == QUEUED, Job.queue == bindparam("queue"), is_due())
        .where(Job.project == bindparam("project"))
        .order_by(Job.turn_at, Job.id)
        # A literal: with a parameter PostgreSQL plans for a tenth of the queue, and sorts it.
        .limit(literal_column(str(MAX_RANKED)))
        .subquery()
    )
    columns = first.c
    rank = func.row_number().over(order_by=(columns.turn_at, columns.id))
    ranked_jobs = select(columns.id, rank.label("rank")).subquery()
    is_shown = ranked_jobs.c.id.in_(bindparam("job_ids", expanding=True)) | (
        ranked_jobs.c.rank == MAX_RANKED
    )
    return select(ranked_jobs.c.id, ranked_jobs.c.rank).where(is_shown)


_RANKS: Final = _ranked_jobs()
