"""Runs one attempt: start the trainer, store its telemetry and files, record the outcome."""

import logging
import math
import threading
import time
from functools import partial
from pathlib import Path
from typing import Final

from ampspec.telemetry import Event
from ampspec.telemetry.activities import Activity
from store.jobs import attempts, jobs
from store.leases import max_reconnect_wait_s
from store.tables import Job
from worker.attempt.activity_report import ActivityReport
from worker.attempt.attempt_files import AttemptFiles
from worker.attempt.attempt_trace import AttemptTrace
from worker.attempt.finalize import Finalizer, attempt_report
from worker.attempt.other_ranks import OtherRanks
from worker.attempt.outcome import AttemptResult, failed_in_worker, result_of
from worker.attempt.stop_reason import PendingStop, StopConditions
from worker.attempt.telemetry_writer import TelemetryWriter
from worker.attempt.trainer_supervisor import TrainerSupervisor
from worker.attempt.write_buffer import WriteBuffer
from worker.context import WorkerContext
from worker.database_retry import Lease, RetryingDatabase
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
        trace: Records the attempt; None: one that begins now.
    """

    def __init__(
        self,
        context: WorkerContext,
        job: Job,
        used_s: float,
        folder: Path,
        *,
        gang: OtherRanks | None = None,
        trace: AttemptTrace | None = None,
    ) -> None:
        self._context, self._job, self._folder = context, job, folder
        self._gang = gang
        self._trace = trace or AttemptTrace(job)
        self._activities = ActivityReport(self._trace, self._show_activity)
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
        self._uploader = ArtifactUploader(
            context.storage,
            self._database,
            lease,
            self._files.output,
            enqueue,
            progress=UploadProgress(context.upload_stall_s),
        )
        self._timeout_s: float | None = job.spec["runtime"]["timeout_s"]
        remaining_s = math.inf if self._timeout_s is None else self._timeout_s - used_s
        self._stop_conditions = StopConditions(
            self._writer,
            context.shutting_down,
            context.self_fence_s,
            time.monotonic() + remaining_s,
            *([gang.stop_reason] if gang is not None else []),
        )
        self._supervisor = TrainerSupervisor(
            context,
            job,
            self._files,
            self._writer,
            self._update_stop,
            exit_grace_s=context.grace_s,
            rank=gang.first if gang is not None else None,
            activities=self._activities,
        )
        if (sandbox := self._supervisor.sandbox) is not None:
            self._uploader.limit = StorageLimit(sandbox.limits.disk_bytes)
        self._ranks_end_by: float | None = None

    def run(self) -> None:
        """Train, then record the outcome once the trainer process has ended."""
        self._writer.start()
        self._uploader.start()
        recorded: AttemptResult | None = None
        if (context := self._trace.context) is not None:
            keep_trace = partial(
                attempts.record_trace,
                job_id=self._job.id,
                attempt=self._job.attempt,
                context=context,
            )
            self._writer.enqueue_transaction(keep_trace)
        try:
            result = result_of(self._supervisor.run(), self._timeout_s)
            if self._gang is not None:
                result = self._gang.conclude(
                    result, grace_s=self._context.grace_s, may_wait=self._may_wait_for_ranks
                )
            if result is not None:
                recorded = self._record(result)
        finally:
            self._trace.end(recorded)
            self._attempt_ended.set()
            self._uploader.abandon_pending()
            self._writer.close()
            self._supervisor.close()

    def _update_stop(self, pending_stop: PendingStop) -> PendingStop:
        """Add what has come up; the other ranks stop together with the trainer."""
        reason = self._stop_conditions.stop_reason()
        if reason is not None and self._gang is not None:
            self._gang.request_stop()
        return pending_stop.updated(reason, grace_s=self._context.grace_s, now=time.monotonic())

    def _show_activity(self, activity: Activity | None) -> None:
        job_id, attempt = self._job.id, self._job.attempt
        self._writer.enqueue_transaction(
            lambda session: jobs.show_activity(session, job_id, attempt, activity)
        )

    def _on_event_committed(self, event: Event) -> None:
        self._uploader.folder = self._files.output  # known once the trainer has started
        self._uploader.on_event(event)

    def _record(self, result: AttemptResult) -> AttemptResult | None:
        """Record the result; if that fails, the error is what is recorded. Returns that."""
        self._activities.enter(Activity.UPLOADING)
        if self._uploader.pending():
            self._activities.write()
        recorded: AttemptResult | None = None
        finalizer = Finalizer(
            self._writer, self._uploader, self._lease, self._stop_conditions, self._folder
        )
        error_before = self._writer.error
        try:
            report = partial(attempt_report, self._job, self._supervisor.ready)
            recorded = finalizer.finalize(result, report)
            error = self._writer.error
        except Exception as raised:
            log.exception("the attempt's result cannot be recorded")
            error = raised
        if error is None or error is error_before:
            return recorded
        failure, job_id, attempt = failed_in_worker(error), self._job.id, self._job.attempt
        self._writer.enqueue_transaction(lambda session: failure.write(session, job_id, attempt))
        while not self._writer.buffer.wait_until_empty(POLL_S):
            if self._writer.is_fenced or self._context.shutting_down.is_set():
                return None
        return failure

    def _may_wait_for_ranks(self) -> bool:
        """Whether the other ranks may still end; if their worker is lost, the attempt is fenced."""
        reason = self._stop_conditions.stop_reason()
        if reason is not None and reason.is_final:
            return False
        if self._context.shutting_down.is_set() and self._ranks_end_by is None:
            self._ranks_end_by = time.monotonic() + 2 * self._context.grace_s
        return self._ranks_end_by is None or time.monotonic() < self._ranks_end_by
