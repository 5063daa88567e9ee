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

from ampcore.spec import Reason
from ampcore.telemetry import Event
from ampcore.telemetry.frames import Frame, FrameType
from store.leases import max_reconnect_wait_s
from store.tables import Job
from worker.artifact_uploader import ArtifactUploader
from worker.background_thread import run_in_background
from worker.checkpoint_download import ExtendedCheckpointMissing, fetch_latest_checkpoint
from worker.context import WorkerContext
from worker.database_retry import Lease, RetryingDatabase
from worker.dataset_download import DatasetMissing, JobDataset, fetch_dataset, place_dataset
from worker.finalize import Finalizer, attempt_report
from worker.isolation import TrainerFolder
from worker.outcome import AttemptOutcome, AttemptResult, TrainerExit, failed_in_worker, result_of
from worker.stop_reason import NOT_STOPPED, PendingStop, StopConditions, StopReason
from worker.telemetry_writer import TelemetryWriter
from worker.trainer_process import TrainerProcess
from worker.write_buffer import WriteBuffer

log = logging.getLogger(__name__)

POLL_S: Final = 0.25
OUTPUT_DIR: Final = "output"
"""In an attempt's folder: the output folder of a trainer that is not isolated."""
FETCHED_DIR: Final = "fetched"
"""In an attempt's folder: the checkpoint downloaded from earlier attempts."""
FINAL_FRAMES: Final = (FrameType.SUCCEEDED, FrameType.FAILED, FrameType.STOPPED)


class JobAttempt:
    """Runs one attempt at a claimed job.

    Args:
        context: What the attempts of this worker share.
        job: The job as it was claimed.
        used_s: How long earlier attempts have run; counts towards `runtime.timeout_s`.
        folder: The attempt's folder; created here, removed by the caller.
    """

    def __init__(self, context: WorkerContext, job: Job, used_s: float, folder: Path) -> None:
        self._context, self._job, self._folder = context, job, folder
        self._attempt_ended = threading.Event()
        wait_s = max_reconnect_wait_s(context.lease_s)
        notify = partial(context.notifier.notify, job.id)
        self._database = RetryingDatabase(context.database, self._attempt_ended, wait_s, notify)
        self._lease = lease = Lease(job.id, job.attempt, context.lease_s)
        buffer = WriteBuffer(context.buffer_bytes)
        self._writer = TelemetryWriter(
            self._database, lease, context.metrics, self._on_event_committed, buffer
        )
        self._output = folder / OUTPUT_DIR
        self._trainer_folder: TrainerFolder | None = None
        self._downloads: Future[tuple[bool, JobDataset | None]] | None = None
        enqueue = self._writer.enqueue
        self._uploader = ArtifactUploader(
            context.storage, self._database, lease, self._output, enqueue
        )
        self._timeout_s: float | None = job.spec["runtime"]["timeout_s"]
        remaining_s = math.inf if self._timeout_s is None else self._timeout_s - used_s
        self._stop_conditions = StopConditions(
            self._writer,
            context.shutting_down,
            context.self_fence_s,
            time.monotonic() + remaining_s,
        )
        self._ready: dict[str, Any] = {}

    def run(self) -> None:
        """Train, then record the outcome once the trainer process has ended."""
        self._writer.start()
        self._uploader.start()
        try:
            end = self._train()
            if end is not None:
                finalizer = Finalizer(
                    self._writer, self._uploader, self._lease, self._stop_conditions, self._folder
                )
                finalizer.finalize(end, attempt_report(self._job, end, self._ready))
        finally:
            self._attempt_ended.set()
            self._uploader.abandon_pending()
            self._writer.close()
            if self._trainer_folder is not None:
                self._trainer_folder.close()
            if self._downloads is not None:
                # Also a download that still runs, because the attempt did not wait for it.
                self._downloads.add_done_callback(_release_dataset)

    def _on_event_committed(self, event: Event) -> None:
        self._uploader.on_event(event)

    def _train(self) -> AttemptResult | None:
        """The attempt's result; None when this worker no longer owns the job."""
        try:
            trainer_exit = self._run_trainer()
        except ExtendedCheckpointMissing as error:
            return AttemptResult(AttemptOutcome.FAILED, Reason.INVALID_CHECKPOINT, str(error))
        except DatasetMissing as error:
            return AttemptResult(AttemptOutcome.FAILED, Reason.INVALID_DATA, str(error))
        except Exception as error:
            log.exception("the attempt failed in the worker")
            return failed_in_worker(error)
        log.info("the trainer process exited: %s", trainer_exit)
        return result_of(trainer_exit, self._timeout_s)

    def _run_trainer(self) -> TrainerExit:
        fetched = self._folder / FETCHED_DIR
        fetched.mkdir(parents=True)
        self._downloads = downloads = run_in_background(partial(self._download, fetched))
        if (stop_reason := self._wait_for(downloads)) is not None:
            return TrainerExit(None, 0, stop_reason)
        resume, dataset = downloads.result()
        process = self._context.standby.take()
        try:
            self._place_checkpoints(process, list(fetched.iterdir()))
            placing = run_in_background(partial(self._place_dataset, process, dataset))
            if (stop_reason := self._wait_for(placing)) is not None:
                return TrainerExit(None, 0, stop_reason)
            process.assign(self._assignment(resume=resume, datasets=placing.result()))
            return self._supervise(process)
        finally:
            process.end(grace_s=0)

    def _wait_for(self, work: Future[Any]) -> StopReason | None:
        """Wait for background work; the reason to stop the attempt if there is one before."""
        done = False
        while not done:
            # Checked at least once: earlier attempts may have used up the whole timeout.
            if (stop_reason := self._stop_conditions.stop_reason()) is not None:
                return stop_reason
            done = _is_done(work)
        return None

    def _download(self, folder: Path) -> tuple[bool, JobDataset | None]:
        """Download the checkpoint to resume from, and the dataset; whether there is each."""
        enqueue, storage = self._writer.enqueue, self._context.storage
        resume = fetch_latest_checkpoint(
            storage, self._database, self._lease, folder, enqueue, extends=self._job.extends
        )
        dataset = fetch_dataset(
            self._context.dataset_cache, storage, self._database, self._job.project, self._job.spec
        )
        return resume, dataset

    def _place_dataset(self, process: TrainerProcess, dataset: JobDataset | None) -> dict[str, str]:
        """Where the trainer reads its dataset, by its name in the spec."""
        if dataset is None:
            return {}
        return {dataset.reference: str(place_dataset(dataset, process.folder, self._folder))}

    def _place_checkpoints(self, process: TrainerProcess, fetched: Sequence[Path]) -> None:
        """Move the downloaded checkpoints into the trainer's output folder."""
        self._trainer_folder = process.folder
        if process.folder is None:
            self._output.mkdir()
            for path in fetched:
                path.rename(self._output / path.name)
            return
        self._output = self._uploader.folder = process.folder.path
        for path in fetched:
            process.folder.move_in(path)

    def _assignment(self, *, resume: bool, datasets: dict[str, str]) -> dict[str, Any]:
        return {
            "job_id": self._job.id,
            "attempt": self._job.attempt,
            "spec": self._job.spec,
            "data_root": str(self._context.data_root),
            "datasets": datasets,
            "output_dir": str(self._output),
            "resume": resume,
        }

    def _supervise(self, process: TrainerProcess) -> TrainerExit:
        """Forward frames and log output until the trainer ends or its time to stop is over."""
        pending_stop, last, oom_kills = NOT_STOPPED, None, self._context.new_oom_kill_counter()
        ready_by = time.monotonic() + self._context.ready_timeout_s
        while process.has_more_frames and not pending_stop.is_due(time.monotonic()):
            last = self._enqueue(process, self._read_frames(process)) or last
            if process.ready is None and time.monotonic() > ready_by:
                raise TimeoutError(
                    f"the trainer process was not ready after {self._context.ready_timeout_s:g} s"
                )
            oom_kills.sample()
            pending_stop = self._stop_if_requested(process, pending_stop)
        remaining_frames = process.end(
            pending_stop.remaining_s(time.monotonic(), at_most=self._context.grace_s)
        )
        last = self._enqueue(process, remaining_frames, at_end=True) or last
        self._ready = process.ready or {}
        return TrainerExit(
            last,
            process.exit_code,
            pending_stop.stop_reason,
            last_line=process.log_capture.last_line(),
            # When the fork server was killed, this job need not have used too much memory.
            oom_killed=oom_kills.has_increased() and not process.died_with_server,
        )

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
            process.terminate()
        return updated


def _release_dataset(downloads: Future[tuple[bool, JobDataset | None]]) -> None:
    """Allow the deletion of a downloaded dataset from the cache."""
    if downloads.exception() is None:
        _, dataset = downloads.result()
        if dataset is not None:
            dataset.cached.close()


def _is_done(future: Future[Any]) -> bool:
    """Whether it is done, after a wait of at most `POLL_S`."""
    wait([future], timeout=POLL_S)
    return future.done()
