"""Submit jobs: to the committed row, and the message to a worker; the requests are in `new_jobs`.

`JobSubmitter` returns the stored response if a request is a repeat; or it checks, writes and
dispatches. Submissions are checked in threads that their tokens share. Those that are checked at
about the same moment are written in one transaction; each gets its own response or error, as if it
were the only one.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy.orm import Session

from ampspec.api.job.jobs import Job
from ampspec.api.roles import Scope
from ampspec.jobs import JobSpec
from infra import traces
from server.data_root import DataRoot
from server.datasets.references import lock_datasets, pin_dataset
from server.deps import missing_scope
from server.dispatch import Dispatcher, dispatch_jobs
from server.errors import NotFound
from server.files.initial_weights import check_initial_weights
from server.files.references import lock_files, record_files, runs_custom_code
from server.http.admission.fair_limiter import FairLimiter
from server.http.responses import mark_replayed
from server.plugins.options import check_packages
from server.request_batcher import RequestBatcher
from server.row_models import job_from_row
from server.submissions.submission_traces import record_write, recorded_sends
from store.access import audit, idempotency, projects
from store.access.audit import Actor
from store.access.idempotency import IdempotentRequest, StoredResponse
from store.database import Database
from store.database_errors import is_outage
from store.files import artifact_quota
from store.jobs import jobs
from store.rows import insert_rows
from store.tables import AuditEntry

CHECK_THREADS: Final = 4
CHECKS_PER_TOKEN: Final = 3
"""Threads that check submissions, and how many of them one token gets."""


@dataclass(frozen=True)
class JobDraft:
    """A job to be queued; `document` is its spec, not yet checked."""

    document: Any
    project: str
    cloned_from: str | None = None
    extends: str | None = None
    explains: str | None = None
    explain_step: int | None = None


@dataclass(frozen=True)
class Submission:
    """A request for a new job. `draft` is called once the request is known not to be a repeat."""

    draft: Callable[[], JobDraft]
    action: str
    """The action in the audit log."""
    actor: Actor
    idempotent_request: IdempotentRequest | None = None
    may_run_code: bool = False
    trace_context: str | None = None
    """The span of its request."""


def find_response(
    database: Database, idempotent_request: IdempotentRequest
) -> StoredResponse | None:
    """The response to the first request with the same key; None if this is the first."""
    with database.read() as session:
        return idempotency.find(session, idempotent_request)


@dataclass(frozen=True)
class CheckedSubmission:
    """A submission whose spec is valid."""

    submission: Submission
    spec: JobSpec
    origin: jobs.Origin

    @property
    def idempotent_request(self) -> IdempotentRequest | None:
        """Its idempotency key, if it has one."""
        return self.submission.idempotent_request


@dataclass(frozen=True)
class _SubmissionResult:
    """The response to a submission, and the job that it created; None if it was a repeat."""

    job: Job | None
    response: StoredResponse

    @classmethod
    def of(cls, job: Job) -> "_SubmissionResult":
        location = {"Location": f"/api/v1/jobs/{job.id}"}
        return cls(job, StoredResponse(201, location, job.model_dump_json()))


class JobSubmitter:
    """Creates the jobs that are submitted to one application."""

    def __init__(self, database: Database, data_root: DataRoot, dispatcher: Dispatcher) -> None:
        self._database, self._data_root, self._dispatcher = database, data_root, dispatcher
        self._checks = FairLimiter(CHECK_THREADS, CHECKS_PER_TOKEN)
        self._batcher = RequestBatcher(self._write_and_dispatch)

    async def submit(self, submission: Submission) -> StoredResponse:
        """Queue a job, and dispatch it once its row is committed; a repeat gets its response.

        Raises what the draft raises, SpecValidationError, QuotaReached, ArtifactQuotaReached,
        KeyReused and Busy.
        """
        owner = submission.actor.token_id or ""
        checked = await self._checks.run(owner, self._stored_response_or_check, submission)
        if isinstance(checked, Exception):
            raise checked
        if isinstance(checked, StoredResponse):
            return checked
        return await self._batcher.submit(checked)

    def _stored_response_or_check(
        self, submission: Submission
    ) -> StoredResponse | CheckedSubmission | Exception:
        """The response to a repeat; else the submission once it is checked, or its error."""
        if submission.idempotent_request is not None:
            stored = find_response(self._database, submission.idempotent_request)
            if stored is not None:
                return mark_replayed(stored)
        return self.check(submission)

    def _write_and_dispatch(
        self, submissions: Sequence[CheckedSubmission]
    ) -> Sequence[StoredResponse | Exception]:
        began_ns = traces.clock_ns()
        results = self._write(submissions)
        sent: list[tuple[str | None, Job]] = []
        for checked, result in zip(submissions, results, strict=True):
            context = checked.submission.trace_context
            error = result if isinstance(result, Exception) else None
            job = result.job if isinstance(result, _SubmissionResult) else None
            record_write(began_ns, context, size=len(submissions), job=job, error=error)
            if job is not None:
                sent.append((context, job))
        with recorded_sends(sent):
            dispatch_jobs(self._database, self._dispatcher, [job for _, job in sent])
        return [
            result.response if isinstance(result, _SubmissionResult) else result
            for result in results
        ]

    def check(self, submission: Submission) -> CheckedSubmission | Exception:
        """The submission with its valid spec, or the error that refuses it."""
        began_ns, error_type = traces.clock_ns(), None
        try:
            draft = submission.draft()
            spec = JobSpec.parse(draft.document)
            if runs_custom_code(spec) and not submission.may_run_code:
                raise missing_scope(Scope.RUN_CODE, "A job with a bundle")
            self._data_root.check(spec)
            check_packages(self._database, spec)
            spec = pin_dataset(self._database, spec, draft.project)
            if draft.extends is None:  # an extension starts from a checkpoint
                check_initial_weights(self._database, spec, draft.project)
        except Exception as error:
            error_type = type(error).__name__
            return error
        finally:
            context = submission.trace_context
            traces.record("validate job", began_ns, context=context, error=error_type)
        actor = submission.actor
        origin = jobs.Origin(
            draft.project,
            actor.token_name,
            actor.request_id,
            draft.cloned_from,
            draft.extends,
            draft.explains,
            draft.explain_step,
            submission.trace_context,
        )
        return CheckedSubmission(submission, spec, origin)

    def _write(
        self, submissions: Sequence[CheckedSubmission]
    ) -> Sequence[_SubmissionResult | Exception]:
        """One transaction for all; one for each if they share a key or one of them is refused."""
        if len(submissions) > 1 and _share_a_key(submissions):
            return self._write_one_by_one(submissions)  # the first one's response is for all
        try:
            with self._database.write() as session:
                return _insert(session, submissions)
        except Exception as error:
            if len(submissions) == 1:
                return [error]
            if is_outage(error):
                raise
            return self._write_one_by_one(submissions)  # only the job that caused it is refused

    def _write_one_by_one(
        self, submissions: Sequence[CheckedSubmission]
    ) -> Sequence[_SubmissionResult | Exception]:
        return [result for submission in submissions for result in self._write([submission])]


def _idempotent_requests(submissions: Sequence[CheckedSubmission]) -> list[IdempotentRequest]:
    requests = [submission.idempotent_request for submission in submissions]
    return [request for request in requests if request is not None]


def _share_a_key(submissions: Sequence[CheckedSubmission]) -> bool:
    requests = _idempotent_requests(submissions)
    return len({(request.project, request.key) for request in requests}) < len(requests)


def _insert(
    session: Session, submissions: Sequence[CheckedSubmission]
) -> Sequence[_SubmissionResult]:
    """Claim the keys, then create the jobs of those whose key was not used before."""
    stored = _claim_keys(session, _idempotent_requests(submissions))
    new = [submission for submission in submissions if submission.idempotent_request not in stored]
    results = iter(_results(session, new))
    return [
        _SubmissionResult(None, stored[submission.idempotent_request])
        if submission.idempotent_request in stored
        else next(results)
        for submission in submissions
    ]


def _claim_keys(
    session: Session, requests: Sequence[IdempotentRequest]
) -> dict[IdempotentRequest | None, StoredResponse]:
    """Claim the keys for this transaction; returns the responses of those used before."""
    stored: dict[IdempotentRequest | None, StoredResponse] = {}
    # Sorted: two servers that claim the same keys in different orders would deadlock.
    for request in sorted(requests, key=lambda request: (request.project, request.key)):
        if (response := idempotency.claim(session, request)) is not None:
            stored[request] = mark_replayed(response)
    return stored


def _results(
    session: Session, submissions: Sequence[CheckedSubmission]
) -> Sequence[_SubmissionResult]:
    """Create the jobs and store the responses."""
    results = [_SubmissionResult.of(job) for job in create_jobs(session, submissions)]
    for submission, result in zip(submissions, results, strict=True):
        if submission.idempotent_request is not None:
            idempotency.store_response(session, submission.idempotent_request, result.response)
    return results


def create_jobs(session: Session, submissions: Sequence[CheckedSubmission]) -> Sequence[Job]:
    """Check the quotas, then insert the jobs and their audit entries.

    The caller commits, then dispatches the jobs. Raises QuotaReached and ArtifactQuotaReached, and
    SpecValidationError or NotFound for what was deleted since the check.
    """
    if not submissions:
        return []
    jobs_by_project = Counter(submission.origin.project for submission in submissions)
    for project in sorted(jobs_by_project):  # sorted against deadlocks, as the keys
        projects.check_queue_quota(session, project, jobs_by_project[project])
        artifact_quota.check_new_jobs(session, project)
    specs = [(submission.spec, submission.origin.project) for submission in submissions]
    lock_datasets(session, specs)
    lock_files(session, specs)
    job_ids = (submission.origin.needed_job for submission in submissions)
    _lock_needed(session, {job_id for job_id in job_ids if job_id})
    rows = jobs.create_all(
        session, [(submission.spec, submission.origin) for submission in submissions]
    )
    new_jobs = [job_from_row(row) for row in rows]
    record_files(session, [(*spec, job.id) for spec, job in zip(specs, new_jobs, strict=True)])
    entries = [
        audit.entry_values(
            checked.submission.actor, checked.submission.action, job.id, project=job.project
        )
        for checked, job in zip(submissions, new_jobs, strict=True)
    ]
    insert_rows(session, AuditEntry, *entries)
    return new_jobs


def _lock_needed(session: Session, ids: set[str]) -> None:
    """Lock the jobs that new jobs extend or explain. Raises NotFound if one was deleted."""
    for job_id in sorted(ids - jobs.lock_needed(session, ids)) if ids else ():
        raise NotFound(f"Job {job_id!r} was deleted while this request was processed.")
