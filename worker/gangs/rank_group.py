"""Runs the ranks of a gang on one worker, except rank 0, which `worker.attempt.attempt` runs."""

import logging
import math
import signal
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any, Final

from sqlalchemy.exc import SQLAlchemyError

from ampspec.jobs import Reason
from ampspec.telemetry.frames import Frame, FrameType
from store.database_errors import describe
from store.gangs import gang_members
from store.gangs.gang_members import Assignment
from store.leases import max_reconnect_wait_s
from store.tables import Job
from store.telemetry import logs
from worker.attempt.attempt_files import AttemptFiles, Downloads
from worker.attempt.outcome import MAX_MESSAGE, TrainerExit, crash_reason, invalid_telemetry_message
from worker.context import WorkerContext
from worker.database_retry import Lease, RetryingDatabase, WriteAbandoned
from worker.gangs.gang_heartbeat import GangHeartbeat
from worker.gangs.rank import LocalRank
from worker.gangs.rank_failure import RankFailure, cause_of
from worker.gangs.rank_log import RankLog, UnstoredLines
from worker.rank_ports import ports_of
from worker.trainer.trainer_process import TrainerProcess

log = logging.getLogger(__name__)

POLL_S: Final = 0.05
RUNNING_STATES: Final = ("starting", "running")
SHUTDOWN: Final = "shutdown"
"""The stop request of a worker that shuts down."""
LEADER_WAIT_S: Final = 30.0
"""How long a worker that shuts down waits until the worker of rank 0 stops the attempt."""
END_GRACE_S: Final = 2.0
"""How long the other ranks of a worker may take to end by themselves after one has failed."""


class RankGroup:
    """Runs ranks until they have ended, and records their end.

    Args:
        context: What the attempts of this worker share.
        job: The job as it was claimed.
        assignment: All ranks of this worker.
        ranks: Those to run.
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
        self._ended = threading.Event()
        wait_s = max_reconnect_wait_s(context.lease_s)
        self._database = RetryingDatabase(context.database, self._ended, wait_s)
        lease = Lease(job.id, assignment.attempt, context.lease_s)
        self._logs = {rank.number: RankLog(rank.number) for rank in ranks}
        self._unstored = UnstoredLines(
            lambda session, lines: logs.append(session, job.id, assignment.attempt, lines)
        )
        self._ranks = list(ranks)
        self._files = {
            rank.number: AttemptFiles(
                context,
                self._database,
                job,
                lease,
                folder / f"rank-{rank.number}",
                enqueue=lambda *_: None,  # the worker of rank 0 records warnings
                only_data=True,
            )
            for rank in ranks
        }
        self._heartbeat = GangHeartbeat(
            context.database,
            context.worker_id,
            assignment,
            lease_s=context.lease_s,
            self_fence_s=context.self_fence_s,
            devices=self._describe,
        )
        self._first: LocalRank | None = None
        self._done = threading.Event()
        self._failures: list[RankFailure] = []
        self._was_terminated = False
        self._give_up_at = math.inf
        self._must_stop = threading.Event()
        self._must_kill = threading.Event()

    @property
    def has_ended(self) -> bool:
        """Whether all its ranks have ended."""
        return self._done.is_set()

    @property
    def failure(self) -> RankFailure | None:
        """Why its ranks failed; None while none has."""
        return cause_of(self._failures)

    def include_in_report(self, first: LocalRank) -> None:
        """Show rank 0 together with these ranks."""
        self._first = first

    def start(self) -> None:
        """Start to renew the lease of the worker's ranks."""
        self._heartbeat.start()

    def run(self) -> None:
        """Run the ranks until they have ended."""
        try:
            self._run_ranks()
        except Exception as error:
            log.exception("the ranks failed in the worker")
            text = f"The worker could not run the ranks: {describe(error)}"
            self._failures.append(RankFailure(Reason.INTERNAL_ERROR, text))
        finally:
            self._end_processes()
            self._done.set()

    def stop(self, *, kill: bool = False) -> None:
        """Ask the ranks to stop, or end them at once."""
        self._must_stop.set()
        if kill:
            self._must_kill.set()

    def close(self) -> None:
        """Record that the worker's ranks have ended, and stop renewing their lease."""
        failure = self.failure
        try:
            self._database.write(self._unstored.store_in)
        except (SQLAlchemyError, WriteAbandoned) as error:
            log.warning("cannot store the end of the log of the ranks: %s", error)
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
        self._ended.set()
        self._heartbeat.stop()

    def _describe(self) -> list[dict[str, Any]]:
        first = [self._first] if self._first is not None else []
        return [rank.describe() for rank in (*first, *self._ranks)]

    def _run_ranks(self) -> None:
        downloads = {
            number: files.download_in_background() for number, files in self._files.items()
        }
        try:
            if self._wait_for(downloads):
                for rank in self._ranks:
                    self._start(rank, downloads[rank.number].result())
                self._supervise()
        finally:
            for download in downloads.values():
                download.add_done_callback(_release_files)

    def _wait_for(self, downloads: Mapping[int, Future[Downloads]]) -> bool:
        """Wait for the downloads; False if the ranks must stop before."""
        while not all(download.done() for download in downloads.values()):
            if self._is_stopping() or self._heartbeat.is_fenced:
                return False
            time.sleep(POLL_S)
        return True

    def _start(self, rank: LocalRank, downloaded: Downloads) -> None:
        ports = ports_of(rank.cluster, self._context.standby.hardware())
        rank.process = process = self._context.standby.request_rank(ports)
        files = self._files[rank.number]
        rank.ready_by = time.monotonic() + self._context.ready_timeout_s
        files.place_checkpoints(process.folder)
        process.assign(
            {
                "job_id": self._job.id,
                "attempt": self._assignment.attempt,
                "spec": self._job.spec,
                "data_root": str(self._context.data_root),
                "output_dir": str(files.output),
                "resume": downloaded.resume,
                "init": downloaded.init and str(files.output / downloaded.init),
                "explain": None,
                **rank.assignment(),
                **files.place_data(process.folder, downloaded),
            }
        )

    def _supervise(self) -> None:
        """Read frames and logs until all ranks have ended or must be ended."""
        kill_at = math.inf
        while running := [rank for rank in self._ranks if rank.state in RUNNING_STATES]:
            for rank in running:
                self._read(rank)
            now = time.monotonic()
            if self._heartbeat.is_fenced or self._must_kill.is_set() or now > kill_at:
                break
            if self._is_stopping() and not self._was_terminated:
                self._was_terminated = True
                # Until rank 0 has saved, the others wait for it; beside it they are not killed.
                if self._first is None:
                    kill_at = min(kill_at, now + self._context.grace_s)
                for rank in running:
                    rank.require_process().terminate()
            first_has_ended = self._first is not None and self._first.state not in RUNNING_STATES
            if self._failures or (self._was_terminated and first_has_ended):
                kill_at = min(kill_at, now + END_GRACE_S)
        self._end_processes()

    def _is_stopping(self) -> bool:
        if self._context.shutting_down.is_set():
            self._heartbeat.stop_request = SHUTDOWN  # the worker of rank 0 stops the attempt
            self._give_up_at = min(self._give_up_at, time.monotonic() + LEADER_WAIT_S)
            if time.monotonic() > self._give_up_at:
                self._must_stop.set()
        return self._heartbeat.stop_requested or self._must_stop.is_set()

    def _read(self, rank: LocalRank) -> None:
        process = rank.require_process()
        rank.add(process.read_frames(POLL_S))
        if process.ready is not None:
            rank.state = "running"
        elif time.monotonic() > rank.ready_by:
            raise TimeoutError(
                f"rank {rank.number} was not ready after {self._context.ready_timeout_s:g} s"
            )
        self._store_log(rank)
        if not process.has_more_frames:
            self._conclude(rank, grace_s=END_GRACE_S)

    def _end_processes(self) -> None:
        for rank in self._ranks:
            if rank.process is not None and rank.state in RUNNING_STATES:
                self._conclude(rank, grace_s=0, is_killed=True)

    def _conclude(self, rank: LocalRank, *, grace_s: float, is_killed: bool = False) -> None:
        """End the rank's process, and find out how it ended."""
        process = rank.require_process()
        rank.add(process.end(grace_s))
        self._store_log(rank, at_end=True)
        if process.folder is not None:
            process.folder.close()
        match rank.last:
            case _ if process.invalid_telemetry is not None:
                rank.state = "failed"
                text = invalid_telemetry_message(process.invalid_telemetry)
                self._add_failure(rank, Reason.INVALID_TELEMETRY, text)
            case Frame(type=FrameType.SUCCEEDED):
                rank.state = "succeeded"
            case Frame(type=FrameType.FAILED, header=header):
                rank.state = "failed"
                self._add_failure(rank, Reason(header["reason"]), header["message"][:MAX_MESSAGE])
            case None if not is_killed and self._has_crashed(process):
                rank.state = "failed"
                trainer_exit = TrainerExit(
                    None,
                    process.exit_code,
                    last_line=process.log_capture.last_line(),
                    log_tail=process.log_capture.tail,
                )
                self._add_failure(rank, *crash_reason(trainer_exit))
            case _:
                rank.state = "stopped"

    def _has_crashed(self, process: TrainerProcess) -> bool:
        """Whether a process without a final frame has not ended because this object asked it to."""
        if not self._was_terminated:
            return True
        is_asked = process.pid is None or process.exit_code == -signal.SIGTERM
        return not (is_asked or process.was_alive_at_end)

    def _add_failure(self, rank: LocalRank, reason: Reason, text: str) -> None:
        log.info("rank %d failed (%s): %s", rank.number, reason, text)
        self._failures.append(RankFailure(reason, f"Rank {rank.number}: {text}"))

    def _store_log(self, rank: LocalRank, *, at_end: bool = False) -> None:
        """Store what a rank has printed, in the job's log; during an outage it is kept."""
        chunks = rank.require_process().log_capture.take(now=at_end)
        self._unstored.add(self._logs[rank.number].lines(chunks, at_end=at_end))
        self._unstored.store(self._context.database)


def _release_files(downloads: Future[Downloads]) -> None:
    if downloads.exception() is None:
        downloads.result().release()
