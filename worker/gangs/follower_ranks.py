"""FollowerRanks: the ranks of a gang on one worker, except rank 0, which `JobAttempt` runs.

Each has a `TrainerSupervisor`; here is when they stop, and the lease of the worker's ranks.
"""

import logging
import math
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future, wait
from functools import partial
from pathlib import Path
from typing import Any, Final

from sqlalchemy.exc import SQLAlchemyError

from ampspec.telemetry.frames import Frame, FrameType
from store.gangs import gang_members
from store.gangs.gang_members import Assignment
from store.leases import max_reconnect_wait_s
from store.tables import GangMember, Job
from worker.attempt.attempt_files import AttemptFiles
from worker.attempt.outcome import Failure, TrainerExit, failure_in_worker, rank_failure
from worker.attempt.rank import LocalRank
from worker.attempt.stop_reason import PendingStop, StopReason, fence_reason
from worker.attempt.telemetry_writer import TelemetryWriter
from worker.attempt.trainer_supervisor import POLL_S, TrainerSupervisor
from worker.attempt.write_buffer import WriteBuffer
from worker.background_thread import run_in_background
from worker.context import WorkerContext
from worker.database_retry import RetryingDatabase, WriteAbandoned
from worker.gangs.member_lease import MemberLease
from worker.gangs.rank_failure import OtherWorkers, cause_of, summary_of

log = logging.getLogger(__name__)

SHUTDOWN: Final = "shutdown"
"""The stop request of a worker that shuts down."""
LEADER_WAIT_S: Final = 30.0
"""How long a worker that shuts down waits until the worker of rank 0 stops the attempt."""
END_GRACE_S: Final = 2.0
"""How long the other ranks of a worker may take to end by themselves after one has failed."""


class FollowerRanks:
    """Runs ranks until they have ended, each in a thread, and records their end.

    Args:
        context: What the attempts of this worker share.
        job: The job as it was claimed.
        assignment: The ranks of this worker.
        ranks: The same ranks; rank 0 is only described.
        folder: The folder for their files; created here, removed by the caller.
    """

    def __init__(
        self,
        context: WorkerContext,
        job: Job,
        assignment: Assignment,
        ranks: Sequence[LocalRank],
        folder: Path,
    ) -> None:
        self._context, self._job, self._assignment = context, job, assignment
        self._all_ranks = ranks
        self._first = ranks[0] if ranks[0].number == 0 else None
        self._attempt_ended = threading.Event()
        wait_s = max_reconnect_wait_s(context.lease_s)
        self._database = RetryingDatabase(context.database, self._attempt_ended, wait_s)
        self._stop_request: str | None = None
        lease = MemberLease(
            job.id,
            assignment.attempt,
            context.lease_s,
            context.worker_id,
            stop_request=lambda: self._stop_request,
            devices=self._describe,
            on_members=self._read_members if self._first is not None else None,
        )
        self.other_workers = OtherWorkers()
        """On the worker of rank 0: the state of the others."""
        self._writer = TelemetryWriter(
            self._database,
            lease,
            context.metrics,
            lambda _event: None,
            WriteBuffer(context.buffer_bytes),
        )
        self._supervisors = [
            (rank, self._supervisor(rank, lease, folder / f"rank-{rank.number}"))
            for rank in ranks
            if rank is not self._first
        ]
        self._failures: list[Failure] = []
        self._give_up_at = math.inf
        self._have_ended, self._must_stop, self._must_kill = (threading.Event() for _ in range(3))

    def _supervisor(self, rank: LocalRank, lease: MemberLease, folder: Path) -> TrainerSupervisor:
        files = AttemptFiles(
            self._context,
            self._database,
            self._job,
            lease,
            folder,
            enqueue=lambda *_: None,  # the worker of rank 0 records warnings
            only_data=True,
        )
        return TrainerSupervisor(
            self._context,
            self._job,
            files,
            self._writer,
            self._update_stop,
            exit_grace_s=END_GRACE_S,
            rank=rank,
        )

    @property
    def has_ended(self) -> bool:
        """Whether all its ranks have ended, and what they wrote is stored."""
        return self._have_ended.is_set() and self._writer.buffer.wait_until_empty(0)

    @property
    def failure(self) -> Failure | None:
        """Why its ranks failed; None while none has."""
        error = self._writer.error
        return cause_of([*self._failures, failure_in_worker(error) if error is not None else None])

    def start(self) -> None:
        """Start to renew the lease of the worker's ranks."""
        self._writer.start()

    def run(self) -> None:
        """Run the ranks until they have ended."""
        runs: list[Future[None]] = []
        try:
            for rank, supervisor in self._supervisors:
                runs.append(run_in_background(partial(self._run_rank, rank, supervisor)))
        except Exception as error:
            self._failures.append(failure_in_worker(error))  # ends the ranks that have started
            raise
        finally:
            wait(runs)
            self._have_ended.set()
        for run in runs:
            run.result()

    def request_stop(self) -> None:
        """Request that all workers of the gang end their ranks; by the worker of rank 0."""
        if not self._must_stop.is_set():
            self._must_stop.set()
            job_id, attempt = self._job.id, self._assignment.attempt
            self._writer.enqueue_transaction(
                lambda session: gang_members.request_stop(session, job_id, attempt)
            )

    def kill(self) -> None:
        """End the ranks of this worker at once."""
        self._must_kill.set()

    def close(self) -> None:
        """Record that the worker's ranks have ended, and stop renewing their lease.

        A worker that shuts down gives up on a database that it cannot reach: the lease expires.
        """
        recording = run_in_background(self._record_end)
        while not wait([recording], timeout=POLL_S).done:
            if self._context.shutting_down.gives_up_on(self._database):
                self._attempt_ended.set()
        self._attempt_ended.set()
        recording.result()

    def _record_end(self) -> None:
        self._writer.close()  # stores the end of the log
        failure = self.failure
        try:
            self._database.write(
                partial(
                    gang_members.end,
                    job_id=self._assignment.job_id,
                    attempt=self._assignment.attempt,
                    worker_id=self._context.worker_id,
                    reason=failure.reason if failure is not None else None,
                    message=failure.message if failure is not None else None,
                    devices=self._describe(),
                )
            )
        except (SQLAlchemyError, WriteAbandoned) as error:
            log.warning("cannot record the end of the ranks: %s", error)

    def _describe(self) -> list[dict[str, Any]]:
        return [rank.describe() for rank in self._all_ranks]

    def _read_members(self, members: Sequence[GangMember]) -> None:
        self.other_workers = summary_of(members)

    def _run_rank(self, rank: LocalRank, supervisor: TrainerSupervisor) -> None:
        trainer_exit = supervisor.run()
        if (failure := rank_failure(trainer_exit)) is not None:
            log.info("rank %d failed (%s): %s", rank.number, failure.reason, failure.message)
            message = f"Rank {rank.number}: {failure.message}"
            self._failures.append(Failure(failure.reason, message))
        rank.outcome = _outcome(trainer_exit, failure)
        supervisor.close()

    def _update_stop(self, pending_stop: PendingStop) -> PendingStop:
        """Add what has come up; called by the supervisor of each rank."""
        now = time.monotonic()
        reason = fence_reason(self._writer, self._context.self_fence_s)
        pending_stop = pending_stop.updated(reason, grace_s=0, now=now)
        must_stop = self._is_stopping(now)
        if must_stop:
            # Until rank 0 has saved, the others wait for it; beside it they are not killed.
            grace_s = self._context.grace_s if self._first is None else math.inf
            pending_stop = pending_stop.updated(StopReason.RANK_0, grace_s=grace_s, now=now)
        first_has_ended = self._first is not None and self._first.outcome is not None
        must_kill = self._must_kill.is_set()
        if self._failures or must_kill or (must_stop and first_has_ended):
            grace_s = 0 if must_kill else END_GRACE_S
            pending_stop = pending_stop.updated(StopReason.RANK_ENDED, grace_s=grace_s, now=now)
        return pending_stop

    def _is_stopping(self, now: float) -> bool:
        """Whether the ranks were asked to stop."""
        if self._context.shutting_down.is_set():
            self._stop_request = SHUTDOWN  # the worker of rank 0 stops the attempt
            self._give_up_at = min(self._give_up_at, now + LEADER_WAIT_S)
        is_requested = self._must_stop.is_set() or self._writer.requested == gang_members.STOP
        return is_requested or now > self._give_up_at


def _outcome(trainer_exit: TrainerExit, failure: Failure | None) -> str:
    """How a rank has ended, for the views of the job."""
    if failure is not None:
        return "failed"
    match trainer_exit.frame:
        case Frame(type=FrameType.SUCCEEDED):
            return "succeeded"
    return "stopped"
