"""TrainerSupervisor: runs one trainer process of an attempt, from its files to its exit."""

import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from functools import partial
from typing import Any, Final

from ampspec.telemetry.activities import Activity
from ampspec.telemetry.frames import Frame, FrameType
from infra.job_failure import JobFailure
from infra.log_config import log_context
from store.tables import Job
from worker.attempt.activity_report import NoReport
from worker.attempt.attempt_files import AttemptFiles, Downloads
from worker.attempt.outcome import Failure, TrainerExit, failure_in_worker, invalid_telemetry
from worker.attempt.profile_request import ProfileForwarder
from worker.attempt.rank import LocalRank
from worker.attempt.rank_log import RankLog
from worker.attempt.saving import SavingProgress
from worker.attempt.stop_reason import NOT_STOPPED, PendingStop, StopReason
from worker.attempt.telemetry_writer import TelemetryWriter
from worker.background_thread import run_in_background
from worker.context import WorkerContext
from worker.trainer.frame_validator import FINAL_FRAMES
from worker.trainer.sandbox import needs_sandbox
from worker.trainer.sandbox_monitor import SandboxMonitor
from worker.trainer.sandbox_plan import SandboxMissing
from worker.trainer.trainer_process import TrainerProcess

log = logging.getLogger(__name__)

POLL_S: Final = 0.25


class TrainerSupervisor:
    """Runs one trainer process; a gang has a supervisor for each of its ranks.

    Args:
        context: What the attempts of this worker share.
        job: The job as it was claimed.
        files: The files of the process.
        writer: Stores its telemetry and its log.
        update_stop: Adds the reasons to stop that have come up to those that are pending.
        exit_grace_s: How long the process may take to end after its last frame.
        rank: The rank that it is; None: the job has one process.
        activities: Says what the process does; None: nothing does.
    """

    def __init__(
        self,
        context: WorkerContext,
        job: Job,
        files: AttemptFiles,
        writer: TelemetryWriter,
        update_stop: Callable[[PendingStop], PendingStop],
        *,
        exit_grace_s: float,
        rank: LocalRank | None = None,
        activities: NoReport | None = None,
    ) -> None:
        self._activities = activities or NoReport()
        self._context, self._job, self._files, self._writer = context, job, files, writer
        self._update_stop, self._exit_grace_s = update_stop, exit_grace_s
        self._rank = rank
        self.sandbox = context.sandbox_plan.sandbox if needs_sandbox(job.spec) else None
        """Where it runs if the job has custom code."""
        self._rank_log = RankLog(rank.number) if rank is not None and rank.number > 0 else None
        self._profile_forwarder = ProfileForwarder()
        self._downloads: Future[Downloads] | None = None
        self._process: TrainerProcess | None = None
        self._first_activity: Activity | None = None
        """What the process does once it is ready."""
        self._monitor: SandboxMonitor | None = None

    @property
    def ready(self) -> dict[str, Any]:
        """The header of the trainer's READY frame; empty before that."""
        return (self._process.ready if self._process is not None else None) or {}

    def run(self) -> TrainerExit:
        """Run the process until it has ended; an error of the worker is part of its exit."""
        with log_context(rank=self._rank.number if self._rank is not None else None):
            try:
                trainer_exit = self._run()
            except JobFailure as error:
                return TrainerExit(None, 0, failure=Failure(error.reason, str(error)))
            except Exception as error:
                log.exception("the trainer process failed in the worker")
                return TrainerExit(None, 0, failure=failure_in_worker(error))
            log.info("the trainer process exited: %s", trainer_exit)
            return trainer_exit

    def close(self) -> None:
        """Remove the files of the process."""
        if self._process is not None and self._process.folder is not None:
            self._process.folder.close()
        if self._downloads is not None:
            # Also a download that still runs, because nothing waited for its end.
            self._downloads.add_done_callback(_release_files)

    def _run(self) -> TrainerExit:
        self._check_sandbox()
        self._activities.enter(Activity.DOWNLOADING)
        self._downloads = downloads = self._files.download_in_background()
        if (stop_reason := self._wait_for(downloads)) is not None:
            return TrainerExit(None, 0, stop_reason)
        downloaded = downloads.result()
        self._activities.enter(Activity.STARTING)
        self._process = process = self._take_process()
        try:
            self._files.place_checkpoints(process.folder)
            placing = run_in_background(partial(self._files.place_data, process.folder, downloaded))
            if (stop_reason := self._wait_for(placing)) is not None:
                return TrainerExit(None, 0, stop_reason)
            self._monitor = self._start_monitor(process)
            process.assign(self._assignment(placing.result(), downloaded))
            # A job that explains a step reports nothing of what it does.
            self._first_activity = None if downloaded.explain else Activity.PREPARING
            return self._supervise(process)
        finally:
            try:
                process.end(grace_s=0)
            finally:
                if self._monitor is not None:
                    self._monitor.stop()

    def _check_sandbox(self) -> None:
        if needs_sandbox(self._job.spec) and self.sandbox is None:
            raise SandboxMissing(
                "The job runs custom code, and its worker has no sandbox to run it in. "
                + " ".join(self._context.sandbox_plan.missing)
            )

    def _wait_for(self, work: Future[Any]) -> StopReason | None:
        """Wait for background work; the reason to stop the trainer if there is one before."""
        done = False
        while not done:
            # Checked at least once: earlier attempts may have used up the whole timeout.
            if (stop_reason := self._update_stop(NOT_STOPPED).stop_reason) is not None:
                return stop_reason
            done = _is_done(work)
            self._activities.observe(())
        return None

    def _take_process(self) -> TrainerProcess:
        """The process for the job; in a sandbox if the job runs custom code."""
        if self._rank is not None:
            return self._rank.start(self._context.standby)
        if self.sandbox is None:
            return self._context.standby.take()
        return self._context.standby.request_sandboxed(self.sandbox.new_folder())

    def _start_monitor(self, process: TrainerProcess) -> SandboxMonitor | None:
        """Watch the limits of a sandboxed trainer, before it has its job."""
        if self.sandbox is None:
            return None
        monitor = SandboxMonitor(process, self.sandbox.limits)
        monitor.start()
        return monitor

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
            **(self._rank.assignment() if self._rank is not None else {}),
            **files,
        }

    def _supervise(self, process: TrainerProcess) -> TrainerExit:
        """Forward frames and log output until the trainer ends or its time to stop is over."""
        if process.ready is not None:
            self._activities.enter(self._first_activity)
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
            pending_stop.remaining_s(time.monotonic(), at_most=self._exit_grace_s)
        )
        last = self._enqueue(process, remaining_frames, at_end=True) or last
        if (unanswered := self._profile_forwarder.unanswered_request()) is not None:
            self._writer.enqueue(unanswered)
        if self._monitor is not None:
            self._monitor.stop()
        return TrainerExit(
            last,
            process.exit_code,
            pending_stop.stop_reason,
            last_line=process.log_capture.last_line(),
            log_tail=process.log_capture.tail,
            # When the fork server was killed, this job need not have used too much memory.
            oom_killed=oom_kills.has_increased() and not process.died_with_server,
            failure=self._violation() or invalid_telemetry(process.invalid_telemetry),
            was_alive=process.was_alive_at_end,
        )

    def _violation(self) -> Failure | None:
        """The limit of its sandbox that the trainer exceeded."""
        violation = self._monitor.violation if self._monitor is not None else None
        return Failure(violation.reason, violation.message) if violation is not None else None

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
        if any(frame.type is FrameType.READY for frame in frames):
            self._activities.enter(self._first_activity)
        self._activities.observe(frames)
        chunks = process.log_capture.take(now=at_end)
        if self._rank_log is not None:  # rank 0 alone reports steps and events
            chunks = self._rank_log.lines(chunks, at_end=at_end)
        else:
            self._writer.enqueue_frames(frames)
        self._writer.enqueue(*chunks)
        if any(frame.type is FrameType.STEPS for frame in frames):
            self._context.standby.prepare()  # this job trains: prepare the next job's process
        return next((frame for frame in frames if frame.type in FINAL_FRAMES), None)

    def _stop_if_requested(self, process: TrainerProcess, pending_stop: PendingStop) -> PendingStop:
        """Ask the trainer to stop when a reason to do so has come up."""
        updated = self._update_stop(pending_stop)
        reason = updated.stop_reason
        if reason is not None and reason is not pending_stop.stop_reason:
            log.info("stopping the trainer: %s", reason.value)
            if reason.is_request:
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
