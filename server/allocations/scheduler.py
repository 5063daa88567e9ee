"""The scheduler: asks a batch system for the devices of queued jobs, and follows what it does.

Each round compares the allocations in the database with those of the batch system. An allocation
is recorded before it is submitted, and looked for by its name before it is submitted again: so none
is submitted twice, whenever the scheduler ends. That its workers run the job only once does not
depend on that: they claim it as plain workers do.
"""

import logging
import time
from collections import Counter
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from sqlalchemy.exc import SQLAlchemyError

from ampspec.jobs import ACTIVE, State
from server.allocations.batch_system import (
    AllocationRequest,
    AllocationStatus,
    BatchSystem,
    BatchSystemUnavailable,
    SubmissionRefused,
)
from server.background.periodic_thread import FailureLog, PeriodicThread
from store import allocations, leaders
from store.clock import now
from store.database import Database
from store.tables import Allocation, new_id

log = logging.getLogger(__name__)

END_GRACE_S: Final = 60.0
"""How long the workers of a job that has ended may take to end by themselves."""
SUBMISSIONS_PER_ROUND: Final = 50
"""Of each queue, so that a round with many new jobs still follows the others."""
UNANSWERED_S: Final = 60.0
"""A round ends when it has waited so long for answers that did not come. A few allocations without
an answer hold up no others."""
DELETED_AFTER_S: Final = 3600.0
ROUND: Final = "scheduling"


class Scheduler:
    """Serves queues of the server by a batch system; of several for one queue one leads.

    Args:
        database: That of the server.
        batch_system: Where the jobs get their devices.
        max_pending: By queue, how many allocations may wait there at a time.
        poll_s: The pause between two rounds, in seconds.
    """

    def __init__(
        self,
        database: Database,
        batch_system: BatchSystem,
        *,
        max_pending: Mapping[str, int],
        poll_s: float,
    ) -> None:
        self._database, self._batch_system = database, batch_system
        self._max_pending = max_pending
        self._scheduler_id = new_id()
        self._cleaned_at = -DELETED_AFTER_S
        self._unavailable: str | None = None
        self._failures = FailureLog(log)
        self._thread = PeriodicThread("scheduler", self._round, poll_s)
        # The lease of a leader is shorter than a command of Slurm may take.
        self._leading = PeriodicThread("scheduler-lease", self._renew_leases, 1.0)
        self._queues: frozenset[str] = frozenset()

    def start(self) -> None:
        """Start the threads."""
        self._leading.start()
        self._thread.start()

    def stop(self) -> None:
        """Stop after the current round; allocations go on, and another scheduler follows them."""
        self._leading.stop()
        self._thread.stop()
        with suppress(SQLAlchemyError):  # the leases end by themselves
            self.stop_leading()

    def stop_leading(self) -> None:
        """Let another scheduler lead at once."""
        self._queues = frozenset()
        for queue in self._max_pending:
            leaders.resign(self._database, self._task(queue), self._scheduler_id)

    def follow_and_submit(self) -> None:
        """One round for the queues that this scheduler leads."""
        queues = self._queues
        if not queues:
            return
        # In this order: the batch system knows what another scheduler has recorded before.
        with self._database.read() as session:
            rows = allocations.unfinished(session, self._batch_system.engine, queues)
        statuses = self._batch_system.statuses()
        unanswered = _Unanswered()
        with unanswered:
            self._cancel_forgotten(statuses, {row.Allocation.name for row in rows})
        for row in rows:
            with unanswered:
                self._follow(row, statuses.get(row.Allocation.name))
        pending = Counter(row.Allocation.queue for row in rows if row.job_state == State.QUEUED)
        for queue in sorted(queues):
            self._submit_new(queue, self._max_pending[queue] - pending[queue], unanswered)
        self._clean_up()
        unanswered.raise_first()

    def renew_leases(self) -> None:
        """Lead the queues that no other scheduler leads; none while the database is unavailable."""
        queues: frozenset[str] = frozenset()
        try:
            queues = frozenset(
                queue
                for queue in self._max_pending
                if leaders.lead(self._database, self._task(queue), self._scheduler_id)
            )
        finally:
            self._queues = queues

    def _task(self, queue: str) -> str:
        return allocations.task_of(self._batch_system.engine, queue)

    def _round(self) -> None:
        self._failures.attempt(ROUND, self._follow_if_available)

    def _renew_leases(self) -> None:
        self._failures.attempt("renewing the leases", self.renew_leases)

    def _follow_if_available(self) -> None:
        try:
            self.follow_and_submit()
        except BatchSystemUnavailable as error:
            if self._unavailable is None:
                log.warning("%s does not answer; retrying: %s", self._batch_system.engine, error)
            self._unavailable = str(error)
        else:
            if self._unavailable is not None:
                log.info("%s answers again", self._batch_system.engine)
            self._unavailable = None

    def _cancel_forgotten(
        self, statuses: Mapping[str, AllocationStatus], followed: Collection[str]
    ) -> None:
        """Cancel what waits although its end is recorded: its submission had seemed to fail."""
        waiting = {
            name: status.external_id
            for name, status in statuses.items()
            if not (status.has_ended or status.has_begun or name in followed)
        }
        if not waiting:
            return
        with self._database.read() as session:
            forgotten = allocations.ended_among(session, list(waiting))
        for name in forgotten:
            log.warning("allocation %s is cancelled: its end was recorded before", name)
            self._batch_system.cancel(waiting[name])

    def _follow(self, row: Any, status: AllocationStatus | None) -> None:
        """Bring the row of an allocation up to date, and end one that is no longer needed."""
        allocation: Allocation = row.Allocation
        if status is None:
            self._follow_unknown(row)
        elif status.has_ended:
            where = {"external_id": status.external_id, "nodes": status.nodes or allocation.nodes}
            is_ours = allocation.state == allocations.CANCELLING
            reason = allocations.NOT_NEEDED if is_ours else status.reason
            self._end(allocation, status.state, reason, **where)
        elif not self._is_needed(row, has_begun=status.has_begun):
            log.info("allocation %s is cancelled: its job needs it no more", allocation.name)
            self._batch_system.cancel(status.external_id)
            self._record(allocation, replace(status, state=allocations.CANCELLING))
        else:
            self._record(allocation, status)

    def _follow_unknown(self, row: Any) -> None:
        """An allocation that the batch system does not list."""
        allocation: Allocation = row.Allocation
        is_needed = self._is_needed(row, has_begun=False)
        if allocation.external_id is None:
            self._follow_unsubmitted(row, is_needed=is_needed and row.job_state == State.QUEUED)
        elif allocation.state == allocations.CANCELLING:
            self._end(allocation, allocations.CANCELLED, allocations.NOT_NEEDED)
        else:
            last = f"The batch system no longer knows it; it was {allocation.state} before."
            self._end(allocation, allocations.LOST if is_needed else allocations.ENDED, last)

    def _follow_unsubmitted(self, row: Any, *, is_needed: bool) -> None:
        """One of which it is unknown whether it was submitted; its name would be listed then."""
        allocation: Allocation = row.Allocation
        if row.submitted_for_s < self._batch_system.submission_s:
            return
        if is_needed:
            self._submit(allocation, self._request(allocation))
        else:
            self._end(allocation, allocations.CANCELLED, allocations.NOT_NEEDED)

    def _is_needed(self, row: Any, *, has_begun: bool) -> bool:
        """Whether the job waits for the allocation or runs in it, or its workers may still end."""
        if row.job_state in ACTIVE:
            return has_begun or not row.runs_elsewhere
        queue = allocations.base_queue(row.job_queue or "")
        if row.job_state == State.QUEUED and queue == row.Allocation.queue:
            return True
        unchanged_for_s = row.job_unchanged_for_s
        return has_begun and unchanged_for_s is not None and unchanged_for_s < END_GRACE_S

    def _submit_new(self, queue: str, free_places: int, unanswered: "_Unanswered") -> None:
        """Submit the next jobs of a queue, as long as fewer than `max_pending` wait there."""
        engine = self._batch_system.engine
        limit = min(SUBMISSIONS_PER_ROUND, free_places)
        if limit <= 0:
            return
        with self._database.read() as session:
            jobs = allocations.jobs_without(session, engine, queue, limit)
        for job in jobs:
            with self._database.write() as session:
                allocation = allocations.create(session, engine, job)
            if allocation is not None:
                with unanswered:
                    self._submit(allocation, _request_of(allocation.name, job))

    def _request(self, allocation: Allocation) -> AllocationRequest | None:
        with self._database.read() as session:
            job = allocations.job_of(session, allocation.job_id)
        return None if job is None else _request_of(allocation.name, job)

    def _submit(self, allocation: Allocation, request: AllocationRequest | None) -> None:
        if request is None:
            self._end(allocation, allocations.CANCELLED, allocations.NOT_NEEDED)
            return
        with self._database.write() as session:
            allocations.record(session, allocation.name, submitted_at=now())
        try:
            external_id = self._batch_system.submit(request)
        except BatchSystemUnavailable as error:
            with self._database.write() as session:
                allocations.record(session, allocation.name, reason=str(error))
            raise
        except SubmissionRefused as error:
            log.warning("%s refuses %s: %s", self._batch_system.engine, request.name, error)
            self._end(allocation, allocations.REFUSED, str(error))
            return
        log.info("allocation %s is job %s", request.name, external_id)
        self._record(allocation, AllocationStatus(external_id, allocations.SUBMITTED))

    def _record(self, allocation: Allocation, status: AllocationStatus) -> None:
        values = {
            "external_id": status.external_id,
            "state": status.state,
            "reason": status.reason,
            "nodes": status.nodes,
            "expected_start_at": status.expected_start_at,
        }
        if any(getattr(allocation, name) != value for name, value in values.items()):
            with self._database.write() as session:
                allocations.record(session, allocation.name, **values)

    def _end(
        self, allocation: Allocation, state: str, reason: str | None, **values: str | None
    ) -> None:
        log.info("allocation %s has ended: %s", allocation.name, reason or state)
        with self._database.write() as session:
            allocations.end(session, allocation.name, state, reason, **values)

    def _clean_up(self) -> None:
        if time.monotonic() - self._cleaned_at >= DELETED_AFTER_S:
            self._cleaned_at = time.monotonic()
            with self._database.write() as session:
                allocations.delete_of_deleted_jobs(session, ended_for_s=DELETED_AFTER_S)


class _Unanswered:
    """A context of single requests, which go on although some of them get no answer."""

    def __init__(self) -> None:
        self._errors: list[BaseException] = []
        self._waited_s = self._began_s = 0.0

    def __enter__(self) -> None:
        self._began_s = time.monotonic()

    def __exit__(self, _: object, error: BaseException | None, __: object) -> bool:
        if not isinstance(error, BatchSystemUnavailable):
            return False
        self._errors.append(error)
        self._waited_s += time.monotonic() - self._began_s
        return self._waited_s < UNANSWERED_S

    def raise_first(self) -> None:
        """Raise the first error, if there was one."""
        if self._errors:
            raise self._errors[0]


def _request_of(name: str, job: Any) -> AllocationRequest:
    return AllocationRequest(
        name,
        job.id,
        allocations.base_queue(job.queue),
        job.nodes or 1,
        job.devices_of_node or 1,
        job.spec["runtime"].get("timeout_s"),
    )
