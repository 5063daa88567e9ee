"""Gangs that wait in the queue: the server reserves their slots, and asks small ones to grow.

All slots of a gang are reserved in one transaction. What its workers do with a reservation is in
`store.gangs.gang_members`.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from math import inf
from typing import Any, Final

from sqlalchemy import Connection, ScalarSelect, func, or_, select, update
from sqlalchemy.orm import Session

from ampspec.jobs import ACTIVE, State
from store import workers
from store.clock import from_now, now, seconds_since
from store.gangs import gang_members
from store.jobs import attempts
from store.scheduling import fair_share, gang_placement
from store.scheduling.gang_placement import GangSize, Reservation, Share, WaitingGang, WorkerSlots
from store.scheduling.queue_names import queue_names
from store.tables import QUEUED, Attempt, Gang, GangMember, Job, Project
from store.tables.jobs import ONE_RANK

LAST: Final = (inf,)
"""Sorts behind the place of every job, since shares are finite."""
RESIZE: Final = "resize"
"""The server's request to a running attempt: end, so that more ranks can start."""
MAX_SILENCE_S: Final = 10.0
"""No slots are reserved on a worker whose heartbeat is older: it may have been killed."""
GROW_AFTER_S: Final = 300.0
"""An attempt with fewer ranks than possible runs at least this long before more are started."""


_UNFINISHED: Final = select(
    or_(
        select(Job.id)
        .where(Job.state.in_([State.QUEUED, *sorted(ACTIVE)]), Job.ranks > ONE_RANK)
        .exists(),
        select(GangMember.job_id).where(GangMember.finished_at.is_(None)).exists(),
    )
)


def are_unfinished(reader: Session | Connection) -> bool:
    """Whether a gang waits or runs, or a row of its workers is left to be ended.

    Args:
        reader: A session, or a connection without a transaction: it is one statement.
    """
    return bool(reader.scalar(_UNFINISHED))


def place(session: Session) -> list[Reservation]:
    """Drop reservations that have ended, and reserve slots for the gangs that wait.

    Returns the new reservations.
    """
    waiting_jobs = _lock_waiting(session)
    members, dropped_jobs = _drop_ended(session, waiting_jobs)
    if not waiting_jobs:
        return []
    nodes = nodes_of(session.connection())
    projects = _Projects(session, {row.project for row in waiting_jobs})
    due_jobs = [
        row
        for row in waiting_jobs
        if row.is_due and projects.may_start(row, members.get(row.id, []))
    ]
    first = {
        queue: _first_plain_place(session, queue, projects) for queue in {r.queue for r in due_jobs}
    }
    gangs = [
        _waiting_gang(
            row,
            members.get(row.id, []),
            most_ranks=projects.most_ranks(row, members.get(row.id, [])),
            is_first=projects.place(row) < first[row.queue] and row.id not in dropped_jobs,
        )
        for row in sorted(due_jobs, key=projects.place)
    ]
    reservations = gang_placement.plan(gangs, nodes)
    by_id = {row.id: row for row in waiting_jobs}
    new_reservations = []
    for reservation in reservations:
        row = by_id[reservation.job_id]
        if projects.reserve(row, reservation, members.get(row.id, [])):
            _reserve(session, row, reservation)
            new_reservations.append(reservation)
    return new_reservations


def _lock_waiting(session: Session) -> Sequence[Any]:
    """Every queued gang, locked in a fixed order: one transaction at a time places gangs."""
    due = attempts.is_due().label("is_due")
    statement = (
        select(
            Job.id,
            Job.project,
            Job.queue,
            Job.turn_at,
            Job.created_at,
            Job.attempt,
            due,
            seconds_since(Job.queued_at).label("waited_s"),
            or_(Gang.backoff_until.is_(None), Gang.backoff_until <= now()).label("may_drain"),
            *(
                Gang.workers,
                Gang.devices,
                Gang.min_ranks,
                Gang.max_ranks,
                Gang.batches,
                Gang.draining_reservations,
            ),
        )
        .join(Gang, Gang.job_id == Job.id)
        .where(Job.state == State.QUEUED, Job.ranks > ONE_RANK)
        .order_by(Job.id)
        .with_for_update(of=Job)
    )
    return session.execute(statement).all()


class _Projects:
    """The projects whose jobs wait: their order, and what their quotas leave for gangs.

    The projects in `gangs` that have a quota stay locked until the transaction ends.
    """

    def __init__(self, session: Session, gangs: Collection[str]) -> None:
        statement = select(Job.project).where(Job.state == State.QUEUED).distinct()
        names = session.scalars(statement).all()
        self._shares = fair_share.project_shares(session.connection(), names)
        for name in sorted(gangs):
            project_share = self._shares[name]
            self._shares[name] = fair_share.lock_share(session, project_share)

    def may_start(self, row: Any, members: Sequence[GangMember]) -> bool:
        """Whether the quotas allow the gang with its fewest ranks, besides its own reservation."""
        devices = row.min_ranks - sum(member.ranks for member in members)
        return self._shares[row.project].refusal(devices, jobs=0 if members else 1) is None

    def reserve(self, row: Any, reservation: Reservation, members: Sequence[GangMember]) -> bool:
        """Count the reservation, in place of the members; False if a quota does not allow it."""
        project_share = self._shares[row.project]
        devices = sum(share.ranks for share in reservation.shares)
        devices -= sum(member.ranks for member in members)
        jobs = 0 if members else 1
        if project_share.refusal(devices, jobs=jobs) is not None:
            return False
        self._shares[row.project] = fair_share.with_reservation(project_share, devices, jobs=jobs)
        return True

    def most_ranks(self, row: Any, members: Sequence[GangMember]) -> int:
        """The maximum number of ranks that the gang may have now."""
        free = self._shares[row.project].free_devices
        if free is None:
            return int(row.max_ranks)
        return min(int(row.max_ranks), free + sum(member.ranks for member in members))

    def place(self, job: Any) -> tuple[Any, ...]:
        """Sorts jobs in the order in which they are claimed."""
        project_share = self._shares[job.project]
        return project_share.share, *fair_share.turn_of(job)

    def claimable(self) -> list[str]:
        """The projects that may start a job with one rank."""
        return [name for name, share in self._shares.items() if share.refusal() is None]


def _first_plain_place(session: Session, queue: str, projects: _Projects) -> tuple[Any, ...]:
    """The place of the first job with one rank that a worker of the queue may claim."""
    jobs = (
        select(Job.id)
        .where(Job.state == QUEUED, Job.queue == queue, attempts.is_due(), Job.ranks == 1)
        .order_by(Job.turn_at, Job.id)
        .limit(1)
    )
    online = workers.online(session.connection(), queue)  # those for one job claim no other
    if not any(worker.sandbox is not None for worker in online):
        jobs = jobs.where(attempts.has_no_bundle())
    first = jobs.where(Job.project == Project.name).correlate(Project).scalar_subquery()
    of_projects = select(first).where(Project.name.in_(projects.claimable()))
    rows = session.execute(
        select(Job.id, Job.project, Job.turn_at, Job.created_at).where(Job.id.in_(of_projects))
    )
    return min((projects.place(row) for row in rows), default=LAST)


def nodes_of(connection: Connection) -> list[WorkerSlots]:
    """The slots of the online workers that run ranks, also of those that run one job alone."""
    online = [worker for worker in _online(connection) if worker.silent_s < MAX_SILENCE_S]
    busy = workers.busy_slots(connection, [worker.id for worker in online])
    slots_reserved = reserved_slots(connection)
    return [
        WorkerSlots(
            worker.id,
            worker.slots,
            busy.get(worker.id, 0),
            slots_reserved.get(worker.id, 0),
            frozenset(worker.queues),
            only_on=worker.hostname if is_loopback(worker.gang_host or "") else None,
            job_id=worker.job_id,
            age_s=worker.age_s,
        )
        for worker in online
    ]


def _online(connection: Connection) -> list[workers.OnlineWorker]:
    return [
        worker
        for worker in workers.online_with_job_workers(connection)
        if worker.gang_host is not None and worker.storage_error is None
    ]


def is_loopback(host: str) -> bool:
    """Whether only processes of the same machine reach this host."""
    return host in ("localhost", "[::1]", "::1") or host.startswith("127.")


def reserved_slots(connection: Connection) -> dict[str, int]:
    """The slots of each worker that are reserved for gangs which wait."""
    rows = connection.execute(
        select(GangMember.worker_id, func.sum(GangMember.ranks))
        .where(GangMember.finished_at.is_(None), GangMember.state.in_(gang_members.UNCLAIMED))
        .where(GangMember.lease_expires_at > now())
        .group_by(GangMember.worker_id)
    )
    return {worker_id: int(ranks) for worker_id, ranks in rows}


def reserved_ranks() -> ScalarSelect[Any]:
    """SQL expression: how many slots are reserved for a job, as a part of a query of jobs."""
    return (
        select(func.coalesce(func.sum(GangMember.ranks), 0))
        .where(GangMember.job_id == Job.id, GangMember.finished_at.is_(None))
        .where(GangMember.state.in_(gang_members.UNCLAIMED), GangMember.lease_expires_at > now())
        .correlate(Job)
        .scalar_subquery()
    )


def _drop_ended(
    session: Session, waiting_jobs: Sequence[Any]
) -> tuple[Mapping[str, list[GangMember]], Collection[str]]:
    """Delete the reservations that have expired or whose gang or workers are gone.

    A reservation is deleted as a whole. Returns the members of those that are left, by job, and the
    jobs whose reservation was deleted.
    """
    attempt_of = {row.id: row.attempt + 1 for row in waiting_jobs}
    unclaimed = select(
        GangMember, (GangMember.lease_expires_at <= now()).label("has_expired")
    ).where(GangMember.finished_at.is_(None), GangMember.state.in_(gang_members.UNCLAIMED))
    members: defaultdict[str, list[GangMember]] = defaultdict(list)
    ended_reservations: dict[str, bool] = {}
    reservation_rows = session.execute(unclaimed).all()
    online = {worker.id for worker in _online(session.connection())} if reservation_rows else set()
    for member, has_expired in reservation_rows:
        members[member.job_id].append(member)
        if (
            has_expired
            or member.worker_id not in online
            or attempt_of.get(member.job_id) != member.attempt
        ):
            ended_reservations[member.job_id] = (
                ended_reservations.get(member.job_id, False) or member.is_draining
            )
    for job_id, was_draining in ended_reservations.items():
        gang_members.delete_reservation(session, job_id)
        del members[job_id]
        if was_draining:
            _back_off(session, job_id)
    return members, ended_reservations


def _back_off(session: Session, job_id: str) -> None:
    """After a reservation of busy slots: other jobs get the slots for as long as it lasted."""
    draining_reservations = (
        session.scalar(select(Gang.draining_reservations).where(Gang.job_id == job_id)) or 1
    )
    session.execute(
        update(Gang)
        .where(Gang.job_id == job_id)
        .values(backoff_until=from_now(gang_placement.draining_s(draining_reservations - 1)))
        .execution_options(synchronize_session=False)
    )


def _waiting_gang(
    row: Any, members: Sequence[GangMember], *, most_ranks: int, is_first: bool
) -> WaitingGang:
    return WaitingGang(
        row.id,
        GangSize(row.workers, row.devices, row.min_ranks, most_ranks, row.batches),
        waited_s=float(row.waited_s),
        queue=row.queue,
        draining_reservations=row.draining_reservations,
        may_drain=is_first and bool(row.may_drain),
        reserved=tuple(Share(member.worker_id, member.ranks) for member in members),
        is_draining=any(member.is_draining for member in members),
    )


def _reserve(session: Session, job: Any, reservation: Reservation) -> None:
    gang_members.delete_reservation(session, job.id)
    first_rank = 0
    for share in reservation.shares:
        session.add(
            GangMember(
                job_id=job.id,
                attempt=job.attempt + 1,
                worker_id=share.worker_id,
                first_rank=first_rank,
                ranks=share.ranks,
                state=gang_members.RESERVED,
                is_draining=reservation.is_draining,
                lease_expires_at=from_now(reservation.lasts_s),
            )
        )
        first_rank += share.ranks
    session.flush()
    if reservation.is_draining:
        session.execute(
            update(Gang)
            .where(Gang.job_id == job.id)
            .values(draining_reservations=Gang.draining_reservations + 1)
            .execution_options(synchronize_session=False)
        )


def request_growth(session: Session) -> list[str]:
    """Ask attempts with fewer ranks than possible to end at a checkpoint; returns their jobs.

    Only when nothing waits in their queue, and when the slots for more ranks are free.
    """
    small_gangs = session.execute(
        select(Job.id, Job.queue, Job.project, Job.attempt, Gang)
        .join(Gang, Gang.job_id == Job.id)
        .join(Attempt, attempts.is_current_attempt())
        .where(Job.state == State.RUNNING, Job.ranks > ONE_RANK, Job.requested.is_(None))
        .where(Attempt.ranks < Gang.max_ranks)
        .where(seconds_since(Attempt.started_at) > GROW_AFTER_S)
        .order_by(Job.id)
    ).all()
    if not small_gangs:
        return []
    queues_with_jobs = set(session.scalars(select(queue_names().c.queue)))
    job_ids = []
    for row in small_gangs:
        if row.queue not in queues_with_jobs and _has_room_for_more(session, row):
            statement = update(Job).where(
                Job.id == row.id, Job.attempt == row.attempt, Job.requested.is_(None)
            )
            statement = statement.where(Job.state == State.RUNNING).values(requested=RESIZE)
            session.execute(statement.execution_options(synchronize_session=False))
            job_ids.append(row.id)
            break  # the slots are counted again in the next round
    return job_ids


def _has_room_for_more(session: Session, row: Any) -> bool:
    members = gang_members.listing(session, row.id, row.attempt)
    ranks_of_worker = {member.worker_id: member.ranks for member in members}
    nodes = [
        WorkerSlots(
            node.worker_id,
            node.slots,
            node.busy - ranks_of_worker.get(node.worker_id, 0),
            node.reserved,
            node.queues,
            node.only_on,
        )
        for node in nodes_of(session.connection())
        # Workers that run only this job end with its attempt: the next one cannot have them.
        if node.job_id is None and row.queue in node.queues
    ]
    gang: Gang = row.Gang
    size = GangSize(gang.workers, gang.devices, gang.min_ranks, gang.max_ranks, gang.batches)
    ranks = sum(ranks_of_worker.values())
    free = fair_share.project_shares(session.connection(), [row.project])[row.project].free_devices
    max_ranks = gang.max_ranks if free is None else ranks + free
    more = [count for count in size.counts() if ranks < count <= max_ranks]
    return any(gang_placement.free_shares(size, count, nodes) is not None for count in more)
