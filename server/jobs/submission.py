"""Submit jobs: from the request to the committed row and the message to a worker.

The file follows a submission: `submit_spec`, `submit_clone` and the others read the request, and
`JobSubmitter` returns the stored response if the request is a repeat, or checks, writes and
dispatches.
Submissions are checked in threads that their tokens share. Those that are checked at about the same
moment are written in one transaction; each gets its own response or error, as if it were the only
one.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from fastapi import Request, Response
from sqlalchemy.orm import Session

from ampspec.api.job.jobs import Job
from ampspec.api.roles import Right
from ampspec.jobs import JobSpec
from server.dataset_folder import DatasetFolder
from server.datasets.references import lock_datasets, pin_dataset
from server.deps import actor_of, member_of, missing_right, services_of
from server.dispatch import Dispatcher, dispatch_jobs
from server.errors import NotFound
from server.files.initial_weights import check_initial_weights
from server.files.references import lock_files, record_files, runs_own_code
from server.http.admission.fair_limiter import FairLimiter
from server.http.json_body import read_body
from server.http.responses import mark_replayed, to_response
from server.idempotency import read_idempotency_key
from server.jobs.actions import CLONE, EXPLAIN, EXTEND, Action, check_has_worker, get_visible_job
from server.jobs.cloned_spec import clone_document
from server.jobs.explanations import explanation_document
from server.jobs.extended_spec import extended_document
from server.plugins.options import check_packages
from server.request_batcher import RequestBatcher
from server.row_models import job_from_row
from store import tables
from store.access import audit, idempotency, projects
from store.access.audit import Actor
from store.access.idempotency import IdempotentRequest, StoredResponse
from store.database import Database
from store.database_errors import is_outage
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


# ---- From the request


async def submit_spec(request: Request) -> Response:
    """POST /jobs: queue the job whose spec is the body, and return it with status 201.

    Raises Forbidden, MalformedJson, SpecValidationError, QuotaReached and KeyReused.
    """
    principal = member_of(request)
    idempotent_request = await read_idempotency_key(request)
    draft = JobDraft(await read_body(request), principal.project)
    actor = actor_of(request, principal)
    may_run_code = principal.may(Right.CODE)
    submission = Submission(lambda: draft, "job.submit", actor, idempotent_request, may_run_code)
    return await _submit(request, submission)


async def submit_clone(request: Request, job_id: str, changes: Mapping[str, Any]) -> Response:
    """POST /jobs/{job_id}/clone: queue a job with the spec of another one, changed.

    `changes` maps dotted paths to values. Raises as `submit_spec`, and NotFound.
    """

    def draft(session: Session, job: tables.Job) -> JobDraft:
        return JobDraft(clone_document(job, changes), job.project, cloned_from=job.id)

    return await _submit_from(request, job_id, CLONE, draft)


async def submit_extension(request: Request, job_id: str, epochs: int) -> Response:
    """POST /jobs/{job_id}/extend: queue a job that trains a finished one for more epochs.

    Raises as `submit_clone`, and Conflict if the job has not succeeded or has no checkpoint of its
    end.
    """

    def draft(session: Session, job: tables.Job) -> JobDraft:
        document = extended_document(session, job, epochs)
        return JobDraft(document, job.project, extends=job.id)

    return await _submit_from(request, job_id, EXTEND, draft)


async def submit_explanation(request: Request, job_id: str, step: int) -> Response:
    """POST /jobs/{job_id}/explanations: queue a job that repeats and explains a step of this one.

    Raises as `submit_clone`, and Conflict if the job has not stored the step, or explains one
    itself.
    """

    def draft(session: Session, job: tables.Job) -> JobDraft:
        document = explanation_document(job, step)
        return JobDraft(document, job.project, explains=job.id, explain_step=step)

    return await _submit_from(request, job_id, EXPLAIN, draft)


async def _submit_from(
    request: Request, job_id: str, action: Action, draft: Callable[[Session, tables.Job], JobDraft]
) -> Response:
    """Queue a job that is made from another one, which the principal must see."""
    principal = member_of(request)
    idempotent_request = await read_idempotency_key(request)
    database = services_of(request).database

    def draft_from_job() -> JobDraft:
        with database.read() as session:
            job = get_visible_job(session, job_id, principal)
            check_has_worker(action, job)
            return draft(session, job)

    submission = Submission(
        draft_from_job,
        f"job.{action.name}",
        actor_of(request, principal),
        idempotent_request,
        principal.may(Right.CODE),
    )
    return await _submit(request, submission)


async def _submit(request: Request, submission: Submission) -> Response:
    return to_response(await services_of(request).submitter.submit(submission))


def find_response(
    database: Database, idempotent_request: IdempotentRequest
) -> StoredResponse | None:
    """The response to the first request with the same key; None if this is the first."""
    with database.read() as session:
        return idempotency.find(session, idempotent_request)


# ---- Into the database, and to a worker


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

    def __init__(self, database: Database, datasets: DatasetFolder, dispatcher: Dispatcher) -> None:
        self._database, self._datasets, self._dispatcher = database, datasets, dispatcher
        self._checks = FairLimiter(CHECK_THREADS, CHECKS_PER_TOKEN)
        self._batcher = RequestBatcher(self._write_and_dispatch)

    async def submit(self, submission: Submission) -> StoredResponse:
        """Queue a job, and dispatch it once its row is committed; a repeat gets its response.

        Raises what the draft raises, SpecValidationError, QuotaReached, KeyReused and Busy.
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
        self, valid: Sequence[CheckedSubmission]
    ) -> Sequence[StoredResponse | Exception]:
        results = self._write(valid)
        created = [one.job for one in results if isinstance(one, _SubmissionResult) and one.job]
        dispatch_jobs(self._database, self._dispatcher, created)
        return [one.response if isinstance(one, _SubmissionResult) else one for one in results]

    def check(self, submission: Submission) -> CheckedSubmission | Exception:
        """The submission with its valid spec, or the error that refuses it."""
        try:
            draft = submission.draft()
            spec = JobSpec.parse(draft.document)
            if runs_own_code(spec) and not submission.may_run_code:
                raise missing_right(Right.CODE, "A job with a bundle")
            self._datasets.check(spec)
            check_packages(self._database, spec)
            spec = pin_dataset(self._database, spec, draft.project)
            if draft.extends is None:  # an extension starts from a checkpoint
                check_initial_weights(self._database, spec, draft.project)
        except Exception as error:
            return error
        actor = submission.actor
        origin = jobs.Origin(
            draft.project,
            actor.token_name,
            actor.request_id,
            draft.cloned_from,
            draft.extends,
            draft.explains,
            draft.explain_step,
        )
        return CheckedSubmission(submission, spec, origin)

    def _write(self, valid: Sequence[CheckedSubmission]) -> Sequence[_SubmissionResult | Exception]:
        """One transaction for all; one for each if they share a key or one of them is refused."""
        if len(valid) > 1 and _share_a_key(valid):  # the first one's response is for all of them
            return self._write_one_by_one(valid)
        try:
            with self._database.write() as session:
                return _insert(session, valid)
        except Exception as error:
            if len(valid) == 1:
                return [error]
            if is_outage(error):
                raise
            return self._write_one_by_one(valid)  # only the job that caused it is refused

    def _write_one_by_one(
        self, valid: Sequence[CheckedSubmission]
    ) -> Sequence[_SubmissionResult | Exception]:
        return [result for one in valid for result in self._write([one])]


def _share_a_key(valid: Sequence[CheckedSubmission]) -> bool:
    requests = [one.idempotent_request for one in valid if one.idempotent_request]
    return len({(request.project, request.key) for request in requests}) < len(requests)


def _insert(session: Session, valid: Sequence[CheckedSubmission]) -> Sequence[_SubmissionResult]:
    """Claim the keys, then create the jobs of those whose key was not used before."""
    stored = _claim_keys(
        session, [one.idempotent_request for one in valid if one.idempotent_request]
    )
    created = iter(
        _results(session, [one for one in valid if one.idempotent_request not in stored])
    )
    return [
        _SubmissionResult(None, stored[one.idempotent_request])
        if one.idempotent_request in stored
        else next(created)
        for one in valid
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


def _results(session: Session, valid: Sequence[CheckedSubmission]) -> Sequence[_SubmissionResult]:
    """Create the jobs and store the responses."""
    results = [_SubmissionResult.of(job) for job in create_jobs(session, valid)]
    for one, result in zip(valid, results, strict=True):
        if one.idempotent_request is not None:
            idempotency.store_response(session, one.idempotent_request, result.response)
    return results


def create_jobs(session: Session, valid: Sequence[CheckedSubmission]) -> Sequence[Job]:
    """Check the quotas, then insert the jobs and their audit entries.

    The caller commits, then dispatches the jobs. Raises QuotaReached, and SpecValidationError or
    NotFound for what was deleted since the check.
    """
    if not valid:
        return []
    jobs_by_project = Counter(one.origin.project for one in valid)
    for project in sorted(jobs_by_project):  # sorted against deadlocks, as the keys
        projects.check_queue_quota(session, project, jobs_by_project[project])
    specs = [(one.spec, one.origin.project) for one in valid]
    lock_datasets(session, specs)
    lock_files(session, specs)
    needed = (one.origin.needed_job for one in valid)
    _lock_needed(session, {job_id for job_id in needed if job_id})
    rows = jobs.create_all(session, [(one.spec, one.origin) for one in valid])
    created = [job_from_row(row) for row in rows]
    record_files(session, [(*spec, job.id) for spec, job in zip(specs, created, strict=True)])
    submissions = [one.submission for one in valid]
    entries = [
        audit.entry_values(submission.actor, submission.action, job.id, project=job.project)
        for submission, job in zip(submissions, created, strict=True)
    ]
    insert_rows(session, AuditEntry, *entries)
    return created


def _lock_needed(session: Session, ids: set[str]) -> None:
    """Lock the jobs that new jobs extend or explain. Raises NotFound if one was deleted."""
    for job_id in sorted(ids - jobs.lock_needed(session, ids)) if ids else ():
        raise NotFound(f"There is no job {job_id!r} any more: it was deleted meanwhile.")
