"""Submit jobs for the principal of a request: a spec, several, or one made from another job."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any

from fastapi import Depends, Request, Response
from sqlalchemy.orm import Session
from starlette.concurrency import run_in_threadpool

from ampspec.api.job.jobs import Job, SubmittedJobs
from ampspec.api.roles import Scope
from ampspec.documents.problems import MAX_PROBLEMS, format_value
from ampspec.jobs import Problem, SpecValidationError
from infra import traces
from server.deps import ActorDep, MemberDep, services_of
from server.dispatch import Dispatcher, dispatch_jobs
from server.errors import RequestInvalid
from server.http.access.principal import Principal
from server.http.responses import mark_replayed, to_response
from server.idempotency import IdempotentRequestDep, respond_once
from server.jobs.actions import CLONE, EXPLAIN, EXTEND, Action, check_has_worker, get_visible_job
from server.request_bodies import MAX_SPECS
from server.submissions.cloned_spec import clone_document
from server.submissions.explanations import explanation_document
from server.submissions.extended_spec import extended_document
from server.submissions.submission import (
    CheckedSubmission,
    JobDraft,
    JobSubmitter,
    Submission,
    create_jobs,
    find_response,
)
from server.submissions.submission_traces import record_write, recorded_sends
from store import tables
from store.access.audit import Actor
from store.access.idempotency import IdempotentRequest, StoredResponse
from store.database import Database

DraftFromJob = Callable[[Session, tables.Job], JobDraft]
"""Makes a draft from another job. Raises Conflict if its state does not allow it."""


@dataclass(frozen=True)
class NewJobs:
    """Queues jobs for the principal of one request."""

    database: Database
    dispatcher: Dispatcher
    submitter: JobSubmitter
    principal: Principal
    actor: Actor
    idempotent_request: IdempotentRequest | None

    async def submit(self, document: Any) -> Response:
        """Queue the job of a spec; its response has status 201.

        Raises Forbidden, SpecValidationError, QuotaExceeded and KeyReused.
        """
        draft = JobDraft(document, self.principal.project)
        return await self._submit("job.submit", lambda: draft)

    async def clone(self, job_id: str, changes: Mapping[str, Any]) -> Response:
        """Queue a job with the spec of another one, changed at dotted paths.

        Raises as `submit`, and NotFound.
        """

        def draft(session: Session, job: tables.Job) -> JobDraft:
            return JobDraft(clone_document(job, changes), job.project, cloned_from=job.id)

        return await self._submit_from(job_id, CLONE, draft)

    async def extend(self, job_id: str, epochs: int) -> Response:
        """Queue a job that trains a finished one for more epochs.

        Raises as `clone`, and Conflict if the job has not succeeded or has no checkpoint of its
        end.
        """

        def draft(session: Session, job: tables.Job) -> JobDraft:
            document = extended_document(session, job, epochs)
            return JobDraft(document, job.project, extends=job.id)

        return await self._submit_from(job_id, EXTEND, draft)

    async def explain(self, job_id: str, step: int) -> Response:
        """Queue a job that repeats and explains a step of another one.

        Raises as `clone`, and Conflict if the job has not stored the step, or explains one itself.
        """

        def draft(session: Session, job: tables.Job) -> JobDraft:
            document = explanation_document(job, step)
            return JobDraft(document, job.project, explains=job.id, explain_step=step)

        return await self._submit_from(job_id, EXPLAIN, draft)

    async def submit_batch(self, body: Any) -> Response:
        """Queue the jobs of `{"specs": […]}`, all or none of them.

        Raises RequestInvalid, and as `submit`, with the problems of all specs.
        """
        return await run_in_threadpool(self._submit_all, _specs_in(body))

    async def _submit_from(self, job_id: str, action: Action, draft: DraftFromJob) -> Response:
        def draft_from_job() -> JobDraft:
            with self.database.read() as session:
                job = get_visible_job(session, job_id, self.principal)
                check_has_worker(action, job)
                return draft(session, job)

        return await self._submit(f"job.{action.name}", draft_from_job)

    async def _submit(self, action: str, draft: Callable[[], JobDraft]) -> Response:
        submission = replace(
            self._submission(action, draft), idempotent_request=self.idempotent_request
        )
        return to_response(await self.submitter.submit(submission))

    def _submission(self, action: str, draft: Callable[[], JobDraft]) -> Submission:
        may_run_code = self.principal.has_scope(Scope.RUN_CODE)
        return Submission(
            draft,
            action,
            self.actor,
            may_run_code=may_run_code,
            trace_context=traces.current_context(),
        )

    def _submit_all(self, documents: Sequence[Any]) -> Response:
        if self.idempotent_request is not None:
            stored = find_response(self.database, self.idempotent_request)
            if stored is not None:
                return to_response(mark_replayed(stored))
        project = self.principal.project
        drafts = [partial(JobDraft, document, project) for document in documents]
        submissions = [self._submission("job.submit", draft) for draft in drafts]
        checked = _check_all(self.submitter, submissions)
        jobs: list[Job] = []

        def create(session: Session) -> StoredResponse:
            jobs.extend(create_jobs(session, checked))
            return StoredResponse(201, {}, SubmittedJobs(items=jobs).model_dump_json())

        began_ns, context = traces.clock_ns(), traces.current_context()
        response = respond_once(self.database, self.idempotent_request, create)
        record_write(began_ns, context, size=len(checked), job=None, error=None)
        with recorded_sends([(context, job) for job in jobs]):
            dispatch_jobs(self.database, self.dispatcher, jobs)
        return to_response(response)


async def _new_jobs(
    request: Request,
    principal: MemberDep,
    actor: ActorDep,
    idempotent_request: IdempotentRequestDep,
) -> NewJobs:
    services = services_of(request)
    return NewJobs(
        services.database,
        services.dispatcher,
        services.submitter,
        principal,
        actor,
        idempotent_request,
    )


NewJobsDep = Annotated[NewJobs, Depends(_new_jobs)]
"""Queues jobs for a principal that may change jobs; Forbidden otherwise. Before the body, so that
its errors are the first."""


def _specs_in(document: Any) -> Sequence[Any]:
    specs = document.get("specs") if isinstance(document, dict) and len(document) == 1 else None
    if isinstance(specs, list) and 0 < len(specs) <= MAX_SPECS:
        return specs
    expected = f'{{"specs": […]}} with 1 to {MAX_SPECS} specs'
    raise RequestInvalid([Problem("", "invalid_value", expected, format_value(document))])


def _check_all(
    submitter: JobSubmitter, submissions: Sequence[Submission]
) -> Sequence[CheckedSubmission]:
    """The submissions with their valid specs.

    Raises SpecValidationError with the problems of all specs, or the first error of another kind.
    """
    checked: list[CheckedSubmission] = []
    problems: list[Problem] = []
    for index, submission in enumerate(submissions):
        match submitter.check(submission):
            case CheckedSubmission() as valid:
                checked.append(valid)
            case SpecValidationError() as error:
                problems += [_in_batch(index, problem) for problem in error.problems]
            case Exception() as error:
                raise error
    if problems:
        raise SpecValidationError(problems[:MAX_PROBLEMS])
    return checked


def _in_batch(index: int, problem: Problem) -> Problem:
    """The problem with a pointer from the beginning of the body."""
    return replace(problem, pointer=f"/specs/{index}{problem.pointer}")
