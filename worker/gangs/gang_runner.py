"""GangRunner: gets this worker ready for a reservation, waits for the other workers, trains."""

import logging
import threading
import time
from contextlib import ExitStack
from typing import Final

from sqlalchemy.exc import SQLAlchemyError

from infra.log_config import log_context
from store.gangs import gang_members
from store.gangs.gang_members import Assignment, Started
from store.jobs import attempts
from worker.attempt.attempt import JobAttempt
from worker.attempt.rank import LocalRank
from worker.background_thread import run_in_background
from worker.context import WorkerContext
from worker.gangs.follower_ranks import FollowerRanks
from worker.gangs.gang_leader import GangLeader
from worker.rank_ports import RankPorts, accelerators_in, local_addresses, port_of

log = logging.getLogger(__name__)

POLL_S: Final = 1.0
WAIT_POLL_S: Final = 0.25
RANK_TIMEOUT_S: Final = 60.0
"""The default of `runtime.exchange.timeout_s` in a spec."""


class GangRunner:
    """A thread that looks for slots of this worker that are reserved for gangs.

    As soon as the slots are free, it takes them and runs the ranks in another thread.
    """

    def __init__(self, context: WorkerContext, *, every_s: float = POLL_S) -> None:
        self._context, self._every_s = context, every_s
        self._stopped = threading.Event()
        self._runs: list[threading.Thread] = []
        self._thread = threading.Thread(target=self._run, name="gang-runner", daemon=True)
        self._assigned: set[Assignment] = set()
        self._lock = threading.Lock()
        self._attempt_ended = threading.Event()
        self.has_failed = False
        """Whether ranks were abandoned after an error that nobody expected."""

    @property
    def is_busy(self) -> bool:
        """Whether ranks train on this worker, or get ready."""
        with self._lock:
            return bool(self._assigned)

    @property
    def has_run(self) -> bool:
        """Whether ranks of an attempt have trained here, and have ended."""
        return self._attempt_ended.is_set()

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Wait until all ranks have ended; the worker shuts down."""
        self._stopped.set()
        self._thread.join()
        for run in self._runs:
            run.join()

    def poll(self) -> None:
        """Start what is reserved and whose slots are free."""
        self._runs = [run for run in self._runs if run.is_alive()]
        if self._context.shutting_down.is_set() or not self._context.may_take_jobs:
            return
        with self._context.database.read() as session:
            assignments = gang_members.assigned(session, self._context.worker_id)
        for assignment in assignments:
            with self._lock:
                is_new = assignment not in self._assigned
            if is_new and self._context.slots.take(assignment.ranks):
                with self._lock:
                    self._assigned.add(assignment)
                run = threading.Thread(
                    target=self._run_member, args=[assignment], name="gang-member"
                )
                self._runs.append(run)
                run.start()

    def _run(self) -> None:
        while not self._stopped.wait(self._every_s):
            try:
                self.poll()
            except SQLAlchemyError as error:
                log.warning("cannot look for reserved slots: %s", error)

    def _run_member(self, assignment: Assignment) -> None:
        try:
            with log_context(job_id=assignment.job_id, attempt=assignment.attempt):
                if _Member(self._context, assignment).run():
                    self._attempt_ended.set()
        except Exception:
            # No known error leads here. The lease expires, and the job is retried.
            log.exception("the ranks were abandoned after an unexpected error")
            self.has_failed = True
            self._attempt_ended.set()
        finally:
            self._context.slots.give_back(assignment.ranks)
            with self._lock:
                self._assigned.discard(assignment)
            self._context.standby.prepare()


class _Member:
    """The ranks of one attempt on this worker."""

    def __init__(self, context: WorkerContext, assignment: Assignment) -> None:
        self._context, self._assignment = context, assignment

    def run(self) -> bool:
        """Run the ranks once all workers are ready; False if the reservation ends before."""
        has_first = self._assignment.first_rank == 0
        with ExitStack() as stack:
            # One more for the control channel, on which rank 0 listens.
            context, count = self._context, self._assignment.ranks + has_first
            try:
                ports = RankPorts(context.rank_host, count, context.rank_ports)
            except OSError as error:
                log.warning("cannot reserve ports for the ranks: %s", error)
                return False  # the reservation ends by itself
            stack.callback(ports.close)
            try:
                if not self._mark_ready(ports.addresses):
                    return False
            except SQLAlchemyError as error:
                log.warning("cannot tell that the ranks are ready: %s", error)
                return False  # the reservation ends by itself
            log.info("%d ranks are ready", self._assignment.ranks)
            started = self._wait_for_start()
        if started is None:
            return False
        self._run_ranks(started)
        return True

    def _mark_ready(self, addresses: list[str]) -> bool:
        with self._context.database.write() as session:
            return gang_members.mark_ready(
                session,
                self._assignment.job_id,
                self._assignment.attempt,
                self._context.worker_id,
                addresses,
                lease_s=self._context.lease_s,
            )

    def _wait_for_start(self) -> Started | None:
        """Wait until all workers are ready; None once the reservation is over.

        A worker that shuts down does not wait for a database that it cannot reach.
        """
        key = (self._assignment.job_id, self._assignment.attempt, self._context.worker_id)
        while True:
            try:
                with self._context.database.read() as session:
                    start = gang_members.started(session, *key)
                if isinstance(start, Started):
                    return start
                if not start:
                    return None
                if self._context.shutting_down.is_set():
                    with self._context.database.write() as session:
                        gang_members.withdraw(session, *key)
                    return None
            except SQLAlchemyError as error:  # the reservation ends by itself meanwhile
                if self._context.shutting_down.is_set():
                    log.warning("cannot withdraw from the reservation: %s", error)
                    return None
            if self._context.shutting_down.wait(WAIT_POLL_S):
                time.sleep(WAIT_POLL_S)

    def _run_ranks(self, started: Started) -> None:
        assignment, context = self._assignment, self._context
        count = accelerators_in(context.standby.hardware())
        devices = context.devices.take(assignment.ranks, count)
        try:
            self._run_all(
                started,
                [self._rank(started, index, device) for index, device in enumerate(devices)],
            )
        finally:
            context.devices.give_back(devices, count)

    def _run_all(self, started: Started, ranks: list[LocalRank]) -> None:
        job, context = started.job, self._context
        first, last = ranks[0].number, ranks[-1].number
        log.info("ranks %d to %d of %d start", first, last, len(started.addresses))
        with context.work_dirs.attempt_dir(job.id, job.attempt, "-ranks") as folder:
            followers = FollowerRanks(context, job, self._assignment, ranks, folder)
            followers.start()
            try:
                if first == 0:
                    self._run_first(started, followers, ranks[0])
                else:
                    with context.metrics.busy_slot():
                        followers.run()
            finally:
                followers.close()

    def _run_first(self, started: Started, followers: FollowerRanks, first: LocalRank) -> None:
        """Run rank 0 as a job with one rank is run, and the worker's other ranks beside it."""
        job, context = started.job, self._context
        with context.database.read() as session:
            used_s = attempts.used_s(session, job.id)
        other_ranks = run_in_background(followers.run)
        try:
            with (
                context.work_dirs.attempt_dir(job.id, job.attempt) as folder,
                context.metrics.busy_slot(),
            ):
                JobAttempt(context, job, used_s, folder, gang=GangLeader(first, followers)).run()
        finally:
            followers.kill()
            other_ranks.result()

    def _rank(self, started: Started, index: int, device: int) -> LocalRank:
        """The rank with this number among those of this worker."""
        exchange = started.job.spec["runtime"].get("exchange") or {}
        timeout_s = exchange.get("timeout_s", RANK_TIMEOUT_S)
        number = self._assignment.first_rank + index
        cluster = {
            "addresses": local_addresses(started.addresses, self._context.rank_host),
            "rank": number,
            "local_rank": device,
            "timeout_s": timeout_s,
            "heartbeat_timeout_s": min(timeout_s, self._context.lease_s),
            "control_port": port_of(started.control),
        }
        return LocalRank(number, cluster, (index, self._assignment.ranks))
