"""Where the ranks of a gang run: the workers whose slots are reserved for it, and for how long.

A gang is a job with several ranks. Its slots are reserved together, all or none, so two gangs never
wait for each other. A gang that has waited for a while reserves slots that are still busy: no new
job starts there. Such a reservation ends after a time, so that other jobs are not blocked for ever.

Pure functions: `store.gangs.gangs` reads and writes the rows.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil, inf
from typing import Final

from ampspec.jobs import JobSpec

RESERVE_S: Final = 30.0
"""How long free slots stay reserved for a gang: its workers take seconds to get ready."""
DRAIN_AFTER_S: Final = 30.0
"""A gang that has waited for this long reserves slots that are still busy."""
DRAINING_S: Final = 600.0
"""How long a gang's first reservation of busy slots lasts. Each further one lasts twice as long as
the one before, so that one is longer than the jobs in these slots."""
MAX_DRAINING_S: Final = 86_400.0


@dataclass(frozen=True)
class GangSize:
    """The numbers of ranks that a gang may have, and how many of them share a worker."""

    workers: int
    devices: int
    min_ranks: int
    max_ranks: int
    batches: int
    """The batches of one optimizer step, over all ranks; it stays the same with fewer ranks."""

    @classmethod
    def of_spec(cls, spec: JobSpec) -> "GangSize | None":
        """The numbers of ranks of a job; None if it never has more than one."""
        runtime, accumulate = spec.runtime, spec.train.accumulate
        possible = runtime.possible_ranks(accumulate)
        if max(possible) == 1:
            return None
        return cls(
            runtime.workers,
            runtime.devices,
            min(possible),
            max(possible),
            runtime.ranks * accumulate,
        )

    @property
    def ranks(self) -> int:
        """The number of ranks that the spec names."""
        return self.workers * self.devices

    def counts(self) -> list[int]:
        """The allowed numbers of ranks, the largest first: they divide the batches of a step."""
        every = range(self.max_ranks, self.min_ranks - 1, -1)
        return [count for count in every if count == self.ranks or self.batches % count == 0]


@dataclass(frozen=True)
class WorkerSlots:
    """The slots of an online worker."""

    worker_id: str
    slots: int
    busy: int = 0
    """Slots with a job or with ranks, which end some time."""
    reserved: int = 0
    """Slots that are reserved for gangs, free ones and busy ones."""
    queues: frozenset[str] = frozenset({"default"})
    only_on: str | None = None
    """The machine whose workers alone reach its ranks, by loopback addresses; None: all do."""
    job_id: str | None = None
    """The only job that it runs; None: the jobs of its queues."""
    age_s: float = inf
    """Seconds since it was started."""

    @property
    def free(self) -> int:
        """Slots that are neither busy nor reserved."""
        return max(self.slots - self.busy - self.reserved, 0)

    def may_run(self, job_id: str, queue: str) -> bool:
        """Whether it may run ranks of this job."""
        return queue in self.queues if self.job_id is None else self.job_id == job_id


@dataclass(frozen=True)
class Share:
    """The number of a gang's ranks on one worker."""

    worker_id: str
    ranks: int


@dataclass(frozen=True)
class WaitingGang:
    """A queued gang that is due."""

    job_id: str
    size: GangSize
    waited_s: float
    queue: str = "default"
    draining_reservations: int = 0
    """How often busy slots were reserved for it so far."""
    may_drain: bool = True
    """False while a job with one rank is ahead of it in its queue, and for a time after a
    reservation of busy slots has ended: other jobs get them."""
    reserved: tuple[Share, ...] = ()
    is_draining: bool = False
    """Whether busy slots are among the reserved ones."""


@dataclass(frozen=True)
class Reservation:
    """Slots to reserve for a gang, in place of those that are reserved for it now."""

    job_id: str
    shares: tuple[Share, ...]
    lasts_s: float
    is_draining: bool


@dataclass
class _Slots:
    """The slots of the workers, while reservations are planned."""

    nodes: dict[str, WorkerSlots] = field(default_factory=dict)

    def candidates(self, gang: WaitingGang) -> list[WorkerSlots]:
        return [node for node in self.nodes.values() if node.may_run(gang.job_id, gang.queue)]

    def reserve(self, shares: Sequence[Share], sign: int = 1) -> None:
        for share in shares:
            if (node := self.nodes.get(share.worker_id)) is not None:
                reserved = node.reserved + sign * share.ranks
                self.nodes[share.worker_id] = replace(node, reserved=reserved)


def plan(gangs: Sequence[WaitingGang], nodes: Sequence[WorkerSlots]) -> list[Reservation]:
    """New reservations for gangs, which are in the order in which jobs are claimed."""
    slots = _Slots({node.worker_id: node for node in nodes})
    reservations = []
    for gang in gangs:
        slots.reserve(gang.reserved, -1)
        reservation = _reservation(gang, slots.candidates(gang))
        slots.reserve(reservation.shares if reservation is not None else gang.reserved)
        if reservation is not None:
            reservations.append(reservation)
    return reservations


def draining_s(draining_reservations: int) -> float:
    """How long a reservation of busy slots lasts, after this number of them."""
    return min(DRAINING_S * 2.0 ** min(draining_reservations, 60), MAX_DRAINING_S)


def free_shares(
    size: GangSize, count: int, nodes: Sequence[WorkerSlots]
) -> tuple[Share, ...] | None:
    """Workers with enough free slots for this many ranks; None if there are too few."""
    return _choose(size, count, nodes, {node.worker_id: node.free for node in nodes})


def could_fit(size: GangSize, count: int, nodes: Sequence[WorkerSlots]) -> bool:
    """Whether this many ranks would fit if all slots were free."""
    return _choose(size, count, nodes, {node.worker_id: node.slots for node in nodes}) is not None


def _reservation(gang: WaitingGang, nodes: Sequence[WorkerSlots]) -> Reservation | None:
    """The reservation to make for a gang; `nodes` do not count its present one."""
    if gang.reserved and not gang.is_draining:
        return None
    size = gang.size
    possible = [count for count in size.counts() if could_fit(size, count, nodes)]
    # Fewer ranks than possible only if the slots for more have not become free for a while.
    are_starting = _job_workers_age_s(nodes) < DRAIN_AFTER_S
    has_waited = gang.waited_s >= DRAIN_AFTER_S and not are_starting
    counts = possible if has_waited else possible[:1]
    if are_starting:
        counts = [count for count in counts if count >= min(size.ranks, size.max_ranks)]
    for count in counts:
        if (shares := free_shares(size, count, nodes)) is not None:
            if set(shares) == set(gang.reserved):
                return None  # the workers get ready
            return Reservation(gang.job_id, shares, RESERVE_S, is_draining=False)
    if gang.reserved or not gang.may_drain or not has_waited:
        return None
    for count in possible:
        if (shares := _busy_shares(size, count, nodes)) is not None:
            return Reservation(
                gang.job_id, shares, draining_s(gang.draining_reservations), is_draining=True
            )
    return None


def _job_workers_age_s(nodes: Sequence[WorkerSlots]) -> float:
    """How long ago the first of the workers that run only this job was started; inf without one.

    An allocation starts them at about the same time: fewer ranks than the spec names are started
    only if the other workers do not come.
    """
    return max((node.age_s for node in nodes if node.job_id is not None), default=inf)


def _busy_shares(
    size: GangSize, count: int, nodes: Sequence[WorkerSlots]
) -> tuple[Share, ...] | None:
    """Workers whose slots are not reserved, those with the most free slots first."""
    room = {node.worker_id: max(node.slots - node.reserved, 0) for node in nodes}
    return _choose(size, count, nodes, room, {node.worker_id: node.free for node in nodes})


def _choose(
    size: GangSize,
    count: int,
    nodes: Sequence[WorkerSlots],
    room: Mapping[str, int],
    free: Mapping[str, int] | None = None,
) -> tuple[Share, ...] | None:
    """Workers that reach each other and have room for `count` ranks; None if there are none.

    Those that run only this job go first: their devices are idle without it.
    """
    job_workers = [node for node in nodes if node.job_id is not None]
    names = {node.worker_id for node in job_workers}
    for candidates in (job_workers, nodes):
        for group in _groups(candidates):
            shares = _choose_among(
                size, count, {name: room[name] for name in group}, free or {}, names
            )
            if shares is not None:
                return shares
    return None


def _groups(nodes: Sequence[WorkerSlots]) -> list[list[str]]:
    """The workers that reach each other: those with addresses for all, and those of a machine."""
    machines = sorted({node.only_on for node in nodes if node.only_on is not None})
    return [
        [node.worker_id for node in nodes if node.only_on == machine]
        for machine in (None, *machines)
    ]


def _choose_among(
    size: GangSize,
    count: int,
    room: Mapping[str, int],
    free: Mapping[str, int],
    preferred: Collection[str],
) -> tuple[Share, ...] | None:
    """The number of ranks in the spec takes `devices` slots of each worker.

    Other numbers take what each worker has, up to `devices`.
    """
    most_workers = max(size.workers, ceil(size.max_ranks / size.devices))
    # The smallest room that is enough, so that large rooms stay for larger gangs.
    enough = [worker for worker, slots in room.items() if slots >= size.devices]
    order = sorted(
        enough,
        key=lambda worker: (worker not in preferred, -free.get(worker, 0), room[worker], worker),
    )
    if count % size.devices == 0 and len(order) >= count // size.devices <= most_workers:
        workers = order[: count // size.devices]
        return tuple(Share(worker, size.devices) for worker in workers)
    if count == size.ranks:
        return None
    shares, unplaced_ranks = [], count
    largest_first = sorted(
        room, key=lambda worker: (worker not in preferred, -room[worker], worker)
    )
    for worker in largest_first[:most_workers]:
        if (ranks := min(room[worker], size.devices, unplaced_ranks)) > 0:
            shares.append(Share(worker, ranks))
            unplaced_ranks -= ranks
    return tuple(shares) if unplaced_ranks == 0 else None
