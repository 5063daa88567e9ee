"""Why a gang waits, as a sentence."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from sqlalchemy import Connection, bindparam, select

from store.gangs import gang_members, gangs
from store.scheduling.gang_placement import GangSize, WorkerSlots, could_fit
from store.tables import Gang, GangMember, Job


def sentences(connection: Connection, job_ids: Collection[str]) -> Mapping[str, str]:
    """Why each of these queued gangs waits, by the job's id."""
    rows = connection.execute(_GANGS, {"job_ids": list(job_ids)}).all() if job_ids else ()
    if not rows:
        return {}
    nodes = gangs.nodes_of(connection)
    members: dict[str, list[Any]] = {}
    for member in connection.execute(_MEMBERS, {"job_ids": [row.job_id for row in rows]}):
        members.setdefault(member.job_id, []).append(member)
    return {
        row.job_id: _sentence(
            row,
            [node for node in nodes if node.may_run(row.job_id, row.queue)],
            members.get(row.job_id, []),
        )
        for row in rows
    }


def _sentence(row: Any, nodes: Sequence[WorkerSlots], members: Sequence[Any]) -> str:
    size = GangSize(row.workers, row.devices, row.min_ranks, row.max_ranks, row.batches)
    if members:
        return _reserved_sentence(members)
    if not any(could_fit(size, count, nodes) for count in size.counts()):
        # The database returns the workers in no order.
        slots = ", ".join(map(str, sorted((node.slots for node in nodes), reverse=True))) or "none"
        return (
            f"It needs {_workers_needed(size)}. The online workers of the queue {row.queue!r} "
            f"that run ranks, and reach each other, have too few slots: {slots}."
        )
    free, total = sum(node.free for node in nodes), sum(node.slots for node in nodes)
    return f"It waits for {_workers_needed(size)}: {free} of {total} slots are free."


def _workers_needed(size: GangSize) -> str:
    least = (
        "" if size.min_ranks == size.ranks else f", or fewer for at least {size.min_ranks} ranks"
    )
    slots = "1 slot" if size.ranks == 1 else f"{size.ranks} slots"
    if size.workers == 1:
        return f"{slots} of one worker{least}"
    return f"{slots}, {size.devices} on each of {size.workers} workers{least}"


def _reserved_sentence(members: Sequence[Any]) -> str:
    ranks = sum(member.ranks for member in members)
    ready = sum(member.ranks for member in members if member.state == gang_members.READY)
    sentence = f"{ranks} slots are reserved for it, and {ready} are ready"
    if any(member.is_draining for member in members):
        return f"{sentence}; it starts when the jobs in the others have ended."
    return f"{sentence}; it starts shortly."


# Built once: building a statement takes as long as executing it.
_GANGS: Final = (
    select(Gang.__table__, Job.queue)
    .join(Job, Job.id == Gang.job_id)
    .where(Gang.job_id.in_(bindparam("job_ids", expanding=True)))
)
_MEMBERS: Final = select(
    GangMember.job_id,
    GangMember.ranks,
    GangMember.state,
    GangMember.is_draining.label("is_draining"),
).where(
    GangMember.job_id.in_(bindparam("job_ids", expanding=True)),
    GangMember.state.in_(gang_members.UNCLAIMED),
)
