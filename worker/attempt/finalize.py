"""Ends an attempt: wait for telemetry and uploads, then record the outcome.

How long uploads may take depends on their progress alone. An attempt is recorded as succeeded or
paused only once every file is recorded, unless its worker has to shut down before.
"""

import json
import logging
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import ampspec
from ampspec.jobs import Reason
from ampspec.telemetry.json_values import json_safe
from store.files.artifacts import REPORT
from store.jobs import jobs
from store.tables import Job
from worker.attempt.outcome import AttemptOutcome, AttemptResult, failed_in_worker
from worker.attempt.stop_reason import StopConditions, StopReason
from worker.attempt.telemetry_writer import TelemetryWriter
from worker.database_retry import Lease
from worker.transfer.artifact_uploader import ArtifactUploader
from worker.transfer.named_files import ArtifactUpload
from worker.transfer.upload_progress import PendingUploads

log = logging.getLogger(__name__)

POLL_S: Final = 0.25
SHOW_EVERY_S: Final = 2.0
"""How often the progress of uploads is written to the job."""
REPORT_FILE: Final = "report.json"

CANCELLED_UPLOAD_TIMEOUT_S: Final = 2.0
"""How long a job that is cancelled waits for its uploads: a person is waiting for it to end."""

NEEDS_ALL_FILES: Final = (AttemptOutcome.SUCCEEDED, AttemptOutcome.PAUSED)
"""The outcomes that require every file to be stored."""

Report = Callable[[AttemptResult], dict[str, Any]]
"""The content of report.json for a result."""


@dataclass(frozen=True)
class Finalizer:
    """Waits for an attempt's pending writes and uploads; its lease is renewed until the end."""

    writer: TelemetryWriter
    uploader: ArtifactUploader
    lease: Lease
    stop_conditions: StopConditions
    folder: Path
    """Where report.json is written; not the output folder, where the trainer could replace it."""
    _began: float = field(default_factory=time.monotonic, init=False)
    _uploaded_before: int = field(init=False)
    """The bytes that were stored during the training, which do not count as progress."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "_uploaded_before", self.uploader.uploaded_bytes)

    def finalize(self, result: AttemptResult, report: Report) -> AttemptResult | None:
        """Record the result after all telemetry and files; nothing once the job is fenced.

        Returns what was recorded, as far as this worker knows.
        """
        if not self._wait_for_database():
            return None  # the lease expires, and another worker resumes from the last checkpoint
        if self.writer.error is not None:
            result = failed_in_worker(self.writer.error)
        result = self._store_files(result)
        if not self.uploader.pending():  # else the storage does not take it either
            self._upload_report(report(result))
            result = self._store_files(result)
        reason = self.stop_conditions.stop_reason()
        if reason is not None and reason.is_final:
            return None  # the worker has lost the job
        self.uploader.abandon_pending()
        job_id, attempt = self.lease.job_id, self.lease.attempt
        self.writer.enqueue_transaction(lambda session: result.write(session, job_id, attempt))
        if not self._wait_for_database():
            return None
        log.info("the attempt ended: %s", result.outcome)
        return result

    def _store_files(self, result: AttemptResult) -> AttemptResult:
        """Wait for the uploads; the result, changed if it needs files that were not stored."""
        pending, cause = self._wait_for_uploads()
        if self.stop_conditions.stop_reason() is StopReason.CANCEL:
            return AttemptResult(AttemptOutcome.CANCELLED)
        if pending is not None and cause is not None:
            return _without_files(result, pending, cause, self.uploader.last_error)
        if self.uploader.missing and result.outcome in NEEDS_ALL_FILES:
            missing = self.uploader.missing[0]
            message = f"{missing.file} could not be stored: {missing.cause}"
            return AttemptResult(AttemptOutcome.FAILED, missing.reason, message)
        return result

    def _wait_for_uploads(self) -> tuple[PendingUploads | None, StopReason | Reason | None]:
        """Wait for the uploads; returns the pending ones, and why the wait ended before them."""
        self.uploader.progress.restart()
        shown_at = -math.inf
        while not self.uploader.wait_until_empty(POLL_S):
            cause = self._cause_to_give_up()
            if cause is not None:
                return self.uploader.pending(), cause
            if time.monotonic() - shown_at >= SHOW_EVERY_S:
                shown_at = time.monotonic()
                self._show(self.uploader.pending())
        return None, None

    def _cause_to_give_up(self) -> StopReason | Reason | None:
        """Why the uploads must not be waited for any longer."""
        reason = self.stop_conditions.stop_reason()
        if reason is not None and reason.is_final:
            return reason
        if reason is StopReason.CANCEL:
            is_over = time.monotonic() - self._began > CANCELLED_UPLOAD_TIMEOUT_S
            return reason if is_over else None
        if self._must_shut_down:
            return StopReason.SHUTDOWN
        return Reason.STORAGE_UNAVAILABLE if self.uploader.progress.is_stalled else None

    def _show(self, pending: PendingUploads | None) -> None:
        """Write the progress of the uploads to the job."""
        if pending is None:
            return
        log.info("uploading %s", pending)
        uploaded = self.uploader.uploaded_bytes - self._uploaded_before
        uploading = {
            "files": len(pending.files),
            "size_bytes": uploaded + pending.size_bytes,
            "sent_bytes": uploaded + pending.sent_bytes,
        }
        job_id, attempt = self.lease.job_id, self.lease.attempt
        self.writer.enqueue_transaction(
            lambda session: jobs.show_uploading(session, job_id, attempt, uploading)
        )

    def _upload_report(self, report: dict[str, Any]) -> None:
        try:
            text = json.dumps(report, indent=2, ensure_ascii=False, allow_nan=False)
            (self.folder / REPORT_FILE).write_text(text, encoding="utf-8")
        except OSError as error:
            self.uploader.give_up(ArtifactUpload(REPORT, REPORT_FILE, folder=self.folder), error)
        else:
            self.uploader.enqueue(ArtifactUpload(REPORT, REPORT_FILE, folder=self.folder))

    def _wait_for_database(self) -> bool:
        """Wait until all telemetry is stored; False when the worker must not wait any longer."""
        while not self.writer.buffer.wait_until_empty(POLL_S):
            if self.writer.is_fenced or self._must_shut_down:
                return False
        return not self.writer.is_fenced

    @property
    def _must_shut_down(self) -> bool:
        """Whether the worker shuts down and must not wait: for files, or for the database."""
        return self.stop_conditions.shutting_down.gives_up_on(self.uploader.database)


def _without_files(
    result: AttemptResult, pending: PendingUploads, cause: StopReason | Reason, last_error: str
) -> AttemptResult:
    """The result of an attempt whose uploads were given up."""
    if cause is StopReason.SHUTDOWN:
        message = f"Its worker had to shut down before it had stored {pending}."
        if result.outcome is not AttemptOutcome.FAILED:
            return AttemptResult(AttemptOutcome.REQUEUED, Reason.WORKER_SHUTDOWN, message)
    else:
        message = f"The storage of artifacts made no progress with {pending}: {last_error}"
        if result.outcome is not AttemptOutcome.FAILED:
            return AttemptResult(AttemptOutcome.FAILED, Reason.STORAGE_UNAVAILABLE, message)
    return replace(result, message=f"{result.message or ''} {message}".strip())


def attempt_report(job: Job, ready: dict[str, Any], result: AttemptResult) -> dict[str, Any]:
    """The content of report.json; `ready` is the header of the trainer's READY frame."""
    document: dict[str, Any] = {
        "job_id": job.id,
        "name": job.name,
        "attempt": job.attempt,
        "worker_id": job.worker_id,
        "outcome": result.outcome,
        "reason": result.reason,
        "message": result.message,
        "summary": result.summary,
        "spec": job.spec,
        "versions": {"ampcore": ampspec.__version__, **_versions(ready)},
        "hardware": ready.get("hardware"),
    }
    plain: dict[str, Any] = json_safe(document)
    return plain


def _versions(ready: dict[str, Any]) -> dict[str, Any]:
    """The versions of libraries, as far as a trainer reported any."""
    versions = ready.get("versions")
    return versions if isinstance(versions, dict) else {}
