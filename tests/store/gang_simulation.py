"""A simulation of gangs and small jobs on workers, with a clock of its own."""

from collections import Counter, deque
from dataclasses import dataclass, field, replace

from store.scheduling.gang_placement import (
    Reservation,
    Share,
    WaitingGang,
    WorkerSlots,
    draining_s,
    plan,
)


@dataclass
class Running:
    shares: tuple[Share, ...]
    ends_at: float


@dataclass
class Simulation:
    """Workers, small jobs and gangs, with a clock of its own.

    As with real workers, the oldest small jobs take the slots that are neither busy nor reserved
    before reservations are planned, and a gang starts once all its reserved slots are free.
    """

    slots: dict[str, int]
    now: float = 0.0
    gangs: list[WaitingGang] = field(default_factory=list)
    small: deque[tuple[float, float]] = field(default_factory=deque)
    """When each small job was submitted, and how long it runs."""
    submitted_at: dict[str, float] = field(default_factory=dict)
    length_s: dict[str, float] = field(default_factory=dict)
    reserved: dict[str, tuple[Reservation, float]] = field(default_factory=dict)
    backoff_until: dict[str, float] = field(default_factory=dict)
    draining_reservations: Counter[str] = field(default_factory=Counter)
    running: list[Running] = field(default_factory=list)
    gang_waits: dict[str, float] = field(default_factory=dict)
    small_waits: list[float] = field(default_factory=list)
    small_starts: list[float] = field(default_factory=list)

    def submit(self, job_id, size, length_s):
        self.gangs.append(WaitingGang(job_id, size, 0.0))
        self.submitted_at[job_id], self.length_s[job_id] = self.now, length_s

    def submit_small(self, length_s):
        self.small.append((self.now, length_s))

    def second(self):
        self.now += 1.0
        self.running = [run for run in self.running if run.ends_at > self.now]
        self._expire()
        self._start_small_jobs()
        self._plan()
        self._start_gangs()
        busy, reserved = self._busy(), self._reserved()
        assert all(busy[name] <= count for name, count in self.slots.items())
        assert all(reserved[name] <= count for name, count in self.slots.items())

    def _busy(self):
        return count_slots(run.shares for run in self.running)

    def _reserved(self):
        return count_slots(reservation.shares for reservation, _ in self.reserved.values())

    def _expire(self):
        for job_id, (reservation, ends_at) in list(self.reserved.items()):
            if ends_at <= self.now:
                del self.reserved[job_id]
                if reservation.is_draining:
                    self.backoff_until[job_id] = self.now + draining_s(
                        self.draining_reservations[job_id] - 1
                    )

    def _start_small_jobs(self):
        busy, reserved = self._busy(), self._reserved()
        for name, count in self.slots.items():
            for _ in range(count - busy[name] - reserved[name]):
                if self.small:
                    submitted_at, length_s = self.small.popleft()
                    self.small_waits.append(self.now - submitted_at)
                    self.small_starts.append(self.now)
                    self.running.append(Running((Share(name, 1),), self.now + length_s))

    def _plan(self):
        busy, reserved = self._busy(), self._reserved()
        present = [
            WorkerSlots(name, n, busy[name], reserved[name]) for name, n in self.slots.items()
        ]
        for reservation in plan([self._waiting(gang) for gang in self.gangs], present):
            self.reserved[reservation.job_id] = (reservation, self.now + reservation.lasts_s)
            self.draining_reservations[reservation.job_id] += reservation.is_draining

    def _waiting(self, gang):
        kept, submitted_at = self.reserved.get(gang.job_id), self.submitted_at[gang.job_id]
        is_first = not self.small or submitted_at < self.small[0][0]
        return replace(
            gang,
            waited_s=self.now - submitted_at,
            draining_reservations=self.draining_reservations[gang.job_id],
            may_drain=is_first and self.backoff_until.get(gang.job_id, 0) <= self.now,
            reserved=kept[0].shares if kept else (),
            is_draining=bool(kept and kept[0].is_draining),
        )

    def _start_gangs(self):
        for gang in list(self.gangs):
            if gang.job_id not in self.reserved:
                continue
            reservation, _ = self.reserved[gang.job_id]
            busy = self._busy()
            if all(
                busy[share.worker_id] + share.ranks <= self.slots[share.worker_id]
                for share in reservation.shares
            ):
                ranks = sum(share.ranks for share in reservation.shares)
                assert ranks in gang.size.counts(), "a partial start"
                self.running.append(
                    Running(reservation.shares, self.now + self.length_s[gang.job_id])
                )
                self.gang_waits[gang.job_id] = self.now - self.submitted_at[gang.job_id]
                del self.reserved[gang.job_id]
                self.gangs.remove(gang)


def count_slots(every):
    slots = Counter()
    for shares in every:
        for share in shares:
            slots[share.worker_id] += share.ranks
    return slots
