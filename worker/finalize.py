"""Ends an attempt: wait for telemetry and uploads, then record the outcome."""

import json
import logging
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import ampcore
from ampcore.telemetry.json_values import json_safe
from store.artifacts import REPORT
from store.retries import BACKOFF_BY_REASON
from store.tables import Job
from worker.artifact_uploader import ArtifactUploader, Upload
from worker.database_retry import Lease
from worker.outcome import AttemptOutcome, AttemptResult, failed_in_worker
from worker.stop_reason import StopConditions
from worker.telemetry_writer import TelemetryWriter

log = logging.getLogger(__name__)

POLL_S: Final = 0.25
REPORT_FILE: Final = "report.json"

FINAL_UPLOAD_TIMEOUT_S: Final = 300.0
"""How long a job that succeeded, or failed for good, waits for its uploads."""
STOPPED_UPLOAD_TIMEOUT_S: Final = 10.0
"""The same for a job that was stopped: a user is waiting for it to end."""
SHUTDOWN_DATABASE_TIMEOUT_S: Final = 5.0
"""How long a worker that shuts down still waits for the database."""


@dataclass(frozen=True)
class Finalizer:
    """Waits for pending writes and uploads of an attempt; the lease stays held meanwhile."""

    writer: TelemetryWriter
    uploader: ArtifactUploader
    lease: Lease
    stop_conditions: StopConditions
    folder: Path
    """Where report.json is written; not the output folder, where the trainer could replace it."""

    def finalize(self, result: AttemptResult, report: dict[str, Any]) -> None:
        """Record the result after all telemetry and files; nothing once the job is fenced."""
        if not self._wait(self.writer.buffer.wait_until_empty, self._database_timeout_s):
            return  # the lease expires, and another worker resumes from the last checkpoint
        if self.writer.error is not None:
            result = failed_in_worker(self.writer.error)
        self._upload_report(report)
        self._wait(self.uploader.wait_until_empty, partial(self._upload_timeout_s, result))
        self.uploader.abandon_pending()
        job_id, attempt = self.lease.job_id, self.lease.attempt
        self.writer.enqueue_transaction(lambda session: result.write(session, job_id, attempt))
        if self._wait(self.writer.buffer.wait_until_empty, self._database_timeout_s):
            log.info("the attempt ended: %s", result.outcome)

    def _upload_report(self, report: dict[str, Any]) -> None:
        try:
            text = json.dumps(report, indent=2, ensure_ascii=False, allow_nan=False)
            (self.folder / REPORT_FILE).write_text(text, encoding="utf-8")
        except OSError as error:
            log.warning("cannot write report.json: %s", error)
        else:
            self.uploader.enqueue(Upload(REPORT, REPORT_FILE, folder=self.folder))

    def _wait(
        self, wait_until_empty: Callable[[float], bool], limit_s: Callable[[], float]
    ) -> bool:
        """Wait for a queue to become empty; False after the limit or when the job is fenced."""
        began = time.monotonic()
        while not wait_until_empty(POLL_S):
            # Read the limit each time: a stop or a shutdown shortens it.
            if self.writer.is_fenced or time.monotonic() - began > limit_s():
                return False
        return not self.writer.is_fenced

    def _database_timeout_s(self) -> float:
        return (
            SHUTDOWN_DATABASE_TIMEOUT_S if self.stop_conditions.shutting_down.is_set() else math.inf
        )

    def _upload_timeout_s(self, result: AttemptResult) -> float:
        # A failure without a retry: no later attempt will upload these files.
        is_final = result.outcome is AttemptOutcome.SUCCEEDED or (
            result.outcome is AttemptOutcome.FAILED and result.reason not in BACKOFF_BY_REASON
        )
        return (
            FINAL_UPLOAD_TIMEOUT_S
            if is_final and self.stop_conditions.stop_reason() is None
            else STOPPED_UPLOAD_TIMEOUT_S
        )


def attempt_report(job: Job, result: AttemptResult, ready: dict[str, Any]) -> dict[str, Any]:
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
        "versions": {"ampcore": ampcore.__version__, **_versions(ready)},
        "hardware": ready.get("hardware"),
    }
    plain: dict[str, Any] = json_safe(document)
    return plain


def _versions(ready: dict[str, Any]) -> dict[str, Any]:
    """The versions of libraries, as far as a trainer reported any."""
    versions = ready.get("versions")
    return versions if isinstance(versions, dict) else {}
