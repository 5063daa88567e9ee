"""Runs one attempt: start the trainer, store its telemetry and files, record the outcome."""

import logging
import math
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future, wait
from functools import partial
from pathlib import Path
from typing import Any, Final

from ampspec.telemetry import Event
from ampspec.telemetry.frames import Frame, FrameType
from infra.job_failure import JobFailure
from store.leases import max_reconnect_wait_s
from store.tables import Job
from worker.attempt.attempt_files import AttemptFiles, Downloads
from worker.attempt.finalize import Finalizer, attempt_report
from worker.attempt.other_ranks import OtherRanks
from worker.attempt.outcome import (
    AttemptOutcome,
    AttemptResult,
    TrainerExit,
    failed_in_worker,
    result_of,
)
from worker.attempt.profile_request import ProfileForwarder
from worker.attempt.saving import SavingProgress
from worker.attempt.stop_reason import NOT_STOPPED, PendingStop, StopConditions, StopReason
from worker.attempt.telemetry_writer import TelemetryWriter
from worker.attempt.write_buffer import WriteBuffer
from worker.background_thread import run_in_background
from worker.context import WorkerContext
from worker.database_retry import Lease, RetryingDatabase
from worker.trainer.frame_validator import FINAL_FRAMES
from worker.trainer.isolation import TrainerFolder
from worker.trainer.sandbox import needs_sandbox
from worker.trainer.sandbox_monitor import SandboxMonitor, Violation
from worker.trainer.sandbox_plan import SandboxMissing
from worker.trainer.trainer_process import TrainerProcess
from worker.transfer.artifact_uploader import ArtifactUploader
from worker.transfer.storage_limit import StorageLimit
from worker.transfer.upload_progress import UploadProgress

log = logging.getLogger(__name__)

POLL_S: Final = 0.25


class JobAttempt:
    """Runs one attempt at a claimed job.

    Args:
        context: What the attempts of this worker share.
        job: The job as it was claimed.
        used_s: How long earlier attempts have run; counts towards `runtime.timeout_s`.
        folder: The attempt's folder; created here, removed by the caller.
        gang: The other ranks of the job; this attempt runs rank 0. None: it has one rank.
    """

    def __init__(
        self,
        context: WorkerContext,
        job: Job,
        used_s: float,
        folder: Path,
        *,
        gang: OtherRanks | None = None,
    ) -> None:
        self._context, self._job, self._folder = context, job, folder
        self._gang = gang
        self._attempt_ended = threading.Event()
        wait_s = max_reconnect_wait_s(context.lease_s)
        notify = partial(context.notifier.notify, job.id)
        self._database = RetryingDatabase(context.database, self._attempt_ended, wait_s, notify)
        self._lease = lease = Lease(job.id, job.attempt, context.lease_s)
        buffer = WriteBuffer(context.buffer_bytes)
        self._writer = TelemetryWriter(
            self._database, lease, context.metrics, self._on_event_committed, buffer
        )
        enqueue = self._writer.enqueue
        self._files = AttemptFiles(context, self._database, job, lease, folder, enqueue=enqueue)
        self._trainer_folder: TrainerFolder | None = None
        self._monitor: SandboxMonitor | None = None
        self._downloads: Future[Downloads] | None = None
        self._uploader = ArtifactUploader(
            context.storage,
            self._database,
            lease,
            self._files.output,
            enqueue,
            progress=UploadProgress(context.upload_stall_s),
        )
        self._sandbox = context.sandbox_plan.sandbox if needs_sandbox(job.spec) else None
        if self._sandbox is not None:
            self._uploader.limit = StorageLimit(self._sandbox.limits.disk_bytes)
        self._timeout_s: float | None = job.spec["runtime"]["timeout_s"]
        remaining_s = math.inf if self._timeout_s is None else self._timeout_s - used_s
        self._stop_conditions = StopConditions(
            self._writer,
            context.shutting_down,
            context.self_fence_s,
            time.monotonic() + remaining_s,
            *([gang.stop_reason] if gang is not None else []),
        )
        self._profile_forwarder = ProfileForwarder()
        self._ready: dict[str, Any] = {}
        self._ranks_end_by: float | None = None

    def run(self) -> None:
        """Train, then record the outcome once the trainer process has ended."""
        self._writer.start()
        self._uploader.start()
        try:
            end = self._train()
            if self._gang is not None:
                end = self._gang.conclude(
                    end, grace_s=self._context.grace_s, may_wait=self._may_wait_for_ranks
                )
            if end is not None:
                self._record(end)
        finally:
            self._attempt_ended.set()
            self._uploader.abandon_pending()
            self._writer.close()
            if self._trainer_folder is not None:
                self._trainer_folder.close()
            if self._downloads is not None:
                # Also a download that still runs, because the attempt did not wait for it.
                self._downloads.add_done_callback(_release_files)

    def _record(self, result: AttemptResult) -> None:
        """Record the result; if that fails, the error is what is recorded."""
        finalizer = Finalizer(
            self._writer, self._uploader, self._lease, self._stop_conditions, self._folder
        )
        error_before = self._writer.error
        try:
            finalizer.finalize(result, partial(attempt_report, self._job, self._ready))
            error = self._writer.error
        except Exception as raised:
            log.exception("the attempt's result cannot be recorded")
            error = raised
        if error is None or error is error_before:
            return
        failure, job_id, attempt = failed_in_worker(error), self._job.id, self._job.attempt
        self._writer.enqueue_transaction(lambda session: failure.write(session, job_id, attempt))
        while not self._writer.buffer.wait_until_empty(POLL_S):
            if self._writer.is_fenced or self._context.shutting_down.is_set():
                return

    def _may_wait_for_ranks(self) -> bool:
        """Whether the other ranks may still end; if their worker is lost, the attempt is fenced."""
        reason = self._stop_conditions.stop_reason()
        if reason is not None and reason.is_final:
            return False
        if self._context.shutting_down.is_set() and self._ranks_end_by is None:
            self._ranks_end_by = time.monotonic() + 2 * self._context.grace_s
        return self._ranks_end_by is None or time.monotonic() < self._ranks_end_by

    def _on_event_committed(self, event: Event) -> None:
        self._uploader.on_event(event)

    def _train(self) -> AttemptResult | None:
        """The attempt's result; None when this worker no longer owns the job."""
        try:
            trainer_exit = self._run_trainer()
        except JobFailure as error:
            return AttemptResult(AttemptOutcome.FAILED, error.reason, str(error))
        except Exception as error:
            log.exception("the attempt failed in the worker")
            return failed_in_worker(error)
        log.info("the trainer process exited: %s", trainer_exit)
        return result_of(trainer_exit, self._timeout_s)

    def _run_trainer(self) -> TrainerExit:
        self._check_sandbox()
        self._downloads = downloads = self._files.download_in_background()
        if (stop_reason := self._wait_for(downloads)) is not None:
            return TrainerExit(None, 0, stop_reason)
        downloaded = downloads.result()
        process = self._take_process()
        try:
            self._trainer_folder = process.folder
            self._files.place_checkpoints(process.folder)
            self._uploader.folder = self._files.output
            placing = run_in_background(partial(self._files.place_data, process.folder, downloaded))
            if (stop_reason := self._wait_for(placing)) is not None:
                return TrainerExit(None, 0, stop_reason)
            self._monitor = self._start_monitor(process)
            process.assign(self._assignment(placing.result(), downloaded))
            return self._supervise(process)
        finally:
            try:
                process.end(grace_s=0)
            finally:
                if self._monitor is not None:
                    self._monitor.stop()

    def _check_sandbox(self) -> None:
        if needs_sandbox(self._job.spec) and self._sandbox is None:
            raise SandboxMissing(
                "The job runs custom code, and its worker has no sandbox to run it in. "
                + " ".join(self._context.sandbox_plan.missing)
            )

    def _take_process(self) -> TrainerProcess:
        """The process for the job; in a sandbox if the job runs custom code."""
        if self._gang is not None:
            return self._gang.start_rank_0(self._context.standby)
        if self._sandbox is None:
            return self._context.standby.take()
        return self._context.standby.request_sandboxed(self._sandbox.new_folder())

    def _start_monitor(self, process: TrainerProcess) -> SandboxMonitor | None:
        """Watch the limits of a sandboxed trainer, before it has its job."""
        if self._sandbox is None:
            return None
        monitor = SandboxMonitor(process, self._sandbox.limits)
        monitor.start()
        return monitor

    def _wait_for(self, work: Future[Any]) -> StopReason | None:
        """Wait for background work; the reason to stop the attempt if there is one before."""
        done = False
        while not done:
            # Checked at least once: earlier attempts may have used up the whole timeout.
            if (stop_reason := self._stop_conditions.stop_reason()) is not None:
                return stop_reason
            done = _is_done(work)
        return None

    def _assignment(self, files: dict[str, Any], downloaded: Downloads) -> dict[str, Any]:
        return {
            "job_id": self._job.id,
            "attempt": self._job.attempt,
            "spec": self._job.spec,
            "data_root": str(self._context.data_root),
            "output_dir": str(self._files.output),
            "resume": downloaded.resume,
            "init": downloaded.init and str(self._files.output / downloaded.init),
            "explain": downloaded.explain,
            **(self._gang.assignment() if self._gang is not None else {}),
            **files,
        }

    def _supervise(self, process: TrainerProcess) -> TrainerExit:
        """Forward frames and log output until the trainer ends or its time to stop is over."""
        cgroup = process.folder.cgroup if process.folder is not None else None
        oom_kills = self._context.new_oom_kill_counter(cgroup)
        pending_stop, last = NOT_STOPPED, None
        ready_by = time.monotonic() + self._context.ready_timeout_s
        saving = SavingProgress(self._context.grace_s)
        while process.has_more_frames and not self._must_end(pending_stop, saving):
            last = self._enqueue(process, self._read_frames(process)) or last
            if process.ready is None and time.monotonic() > ready_by:
                raise TimeoutError(
                    f"the trainer process was not ready after {self._context.ready_timeout_s:g} s"
                )
            oom_kills.sample()
            pending_stop = self._stop_if_requested(process, pending_stop)
            self._profile_forwarder.forward(self._writer.requested, process)
        remaining_frames = process.end(
            pending_stop.remaining_s(time.monotonic(), at_most=self._context.grace_s)
        )
        last = self._enqueue(process, remaining_frames, at_end=True) or last
        if (unanswered := self._profile_forwarder.unanswered_request()) is not None:
            self._writer.enqueue(unanswered)
        if self._monitor is not None:
            self._monitor.stop()
        self._ready = process.ready or {}
        return TrainerExit(
            last,
            process.exit_code,
            pending_stop.stop_reason,
            last_line=process.log_capture.last_line(),
            log_tail=process.log_capture.tail,
            # When the fork server was killed, this job need not have used too much memory.
            oom_killed=oom_kills.has_increased() and not process.died_with_server,
            violation=self._violation(),
            invalid_telemetry=process.invalid_telemetry,
            was_alive=process.was_alive_at_end,
        )

    def _violation(self) -> Violation | None:
        return self._monitor.violation if self._monitor is not None else None

    def _must_end(self, pending_stop: PendingStop, saving: SavingProgress) -> bool:
        """Whether the trainer must be killed; not while it still writes a checkpoint to keep."""
        if self._violation() is not None:
            return True
        if pending_stop.stop_reason is None:
            return False
        now = time.monotonic()
        advances = saving.advances(self._files.output, now)
        may_save = not (pending_stop.discards_steps or self._context.shutting_down.is_over)
        return pending_stop.is_due(now) and not (may_save and advances)

    def _read_frames(self, process: TrainerProcess) -> list[Frame]:
        """The next frames; none while the write buffer is full, so that the trainer blocks."""
        if self._writer.buffer.has_room:
            return process.read_frames(POLL_S)
        self._writer.buffer.wait_for_room(POLL_S)
        return []

    def _enqueue(
        self, process: TrainerProcess, frames: Sequence[Frame], *, at_end: bool = False
    ) -> Frame | None:
        """Queue frames and log output for the database; returns the final frame if present."""
        if self._writer.error is not None:
            raise self._writer.error
        if self._monitor is not None:
            self._monitor.count_telemetry(sum(frame.size_bytes for frame in frames))
        self._profile_forwarder.read_answer(frames)
        self._writer.enqueue_frames(frames)
        self._writer.enqueue(*process.log_capture.take(now=at_end))
        if any(frame.type is FrameType.STEPS for frame in frames):
            self._context.standby.prepare()  # this job trains: prepare the next job's process
        return next((frame for frame in frames if frame.type in FINAL_FRAMES), None)

    def _stop_if_requested(self, process: TrainerProcess, pending_stop: PendingStop) -> PendingStop:
        """Ask the trainer to stop when a reason to do so has come up."""
        now, grace_s = time.monotonic(), self._context.grace_s
        updated = pending_stop.updated(
            self._stop_conditions.stop_reason(), grace_s=grace_s, now=now
        )
        if updated.stop_reason is not None and updated.stop_reason is not pending_stop.stop_reason:
            log.info("stopping the trainer: %s", updated.stop_reason.value)
            if self._gang is not None:
                self._gang.request_stop()
            process.terminate()
        return updated


def _release_files(downloads: Future[Downloads]) -> None:
    """Allow the deletion of downloaded files from the cache."""
    if downloads.exception() is None:
        downloads.result().release()


def _is_done(future: Future[Any]) -> bool:
    """Whether it is done, after a wait of at most `POLL_S`."""
    wait([future], timeout=POLL_S)
    return future.done()
