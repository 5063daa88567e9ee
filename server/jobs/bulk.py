"""Cancel or delete all jobs that match a filter, and submit several jobs with one request."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, Final

from fastapi import Depends, Query, Request, Response
from sqlalchemy.orm import Session
from starlette.concurrency import run_in_threadpool

from ampspec.api.job.jobs import Job, SubmittedJobs
from ampspec.api.roles import Right
from ampspec.documents.problems import MAX_PROBLEMS, format_value
from ampspec.jobs import Problem, SpecValidationError
from server.deps import MemberDep, actor_of, member_of, services_of
from server.dispatch import dispatch_jobs
from server.errors import RequestInvalid
from server.http.json_body import read_body
from server.http.responses import mark_replayed, to_response
from server.idempotency import read_idempotency_key, respond_once
from server.jobs.actions import CANCEL, DELETE, JobActions
from server.jobs.listing import JobFiltersDep, Project
from server.jobs.submission import (
    CheckedSubmission,
    JobDraft,
    JobSubmitter,
    Submission,
    create_jobs,
    find_response,
)
from store.access.idempotency import StoredResponse
from store.listing import bulk_changes
from store.listing.search_filters import Search

MAX_CHANGED: Final = 1_000
"""Jobs of one transaction: to cancel them takes about a second; a deletion ends early."""
MAX_SUBMITTED: Final = 100
FILTERS: Final = "state, label, q, policy, model, project, created_after, metric or study"

ChangeLimit = Annotated[
    int,
    Query(ge=1, le=MAX_CHANGED, description="At most so many jobs; `more` says if others match."),
]


def cancel_jobs(actions: JobActions, search: Search, limit: int) -> Response:
    """Cancel the jobs that match."""
    change = partial(bulk_changes.cancel_matching, search=search, limit=limit)
    return actions.change_matching(CANCEL, change, by_filter=True)


def delete_jobs(actions: JobActions, search: Search, limit: int) -> Response:
    """Delete the ended jobs that match."""
    change = partial(bulk_changes.delete_matching, search=search, limit=limit)
    return actions.change_matching(DELETE, change, by_filter=True)


async def _bulk_filters(
    request: Request, search: JobFiltersDep, _member: MemberDep, project: Project = None
) -> Search:
    """The filters of the request. Raises RequestInvalid if there is none, or an empty one.

    The project to which a token is bound is no filter: a member who gives none means no job.
    """
    empty = [name for name, value in request.query_params.multi_items() if not value]
    if empty:
        raise RequestInvalid(
            [Problem(f"/query/{name}", "invalid_value", "a value", "''") for name in empty]
        )
    if replace(search, project=project) == Search(explanations=search.explanations):
        expected = f"a filter: {FILTERS}"
        raise RequestInvalid([Problem("/query", "missing_value", expected, "none")])
    return search


BulkFiltersDep = Annotated[Search, Depends(_bulk_filters)]
"""The filters in the query parameters, at least one, for the jobs that the token may see."""


async def submit_specs(request: Request) -> Response:
    """POST /jobs/batch: queue the jobs whose specs are in the body, all or none of them.

    Raises RequestInvalid, Forbidden, SpecValidationError, QuotaReached and KeyReused.
    """
    principal = member_of(request)
    idempotent_request = await read_idempotency_key(request)
    documents = _specs_in(await read_body(request))
    actor, may_run_code = actor_of(request, principal), principal.may(Right.CODE)
    submissions = [
        Submission(
            partial(JobDraft, document, principal.project),
            "job.submit",
            actor,
            may_run_code=may_run_code,
        )
        for document in documents
    ]
    services = services_of(request)
    created: list[Job] = []
    checked: Sequence[CheckedSubmission] = ()

    def make(session: Session) -> StoredResponse:
        created.extend(create_jobs(session, checked))
        return StoredResponse(201, {}, SubmittedJobs(items=created).model_dump_json())

    def respond() -> Response:
        nonlocal checked
        if idempotent_request is not None:
            stored = find_response(services.database, idempotent_request)
            if stored is not None:
                return to_response(mark_replayed(stored))
        checked = _checked(services.submitter, submissions)
        response = respond_once(services.database, idempotent_request, make)
        dispatch_jobs(services.database, services.dispatcher, created)
        return to_response(response)

    return await run_in_threadpool(respond)


def _specs_in(document: Any) -> Sequence[Any]:
    specs = document.get("specs") if isinstance(document, dict) and len(document) == 1 else None
    if isinstance(specs, list) and 0 < len(specs) <= MAX_SUBMITTED:
        return specs
    expected = f'{{"specs": […]}} with 1 to {MAX_SUBMITTED} specs'
    raise RequestInvalid([Problem("", "invalid_value", expected, format_value(document))])


def _checked(
    submitter: JobSubmitter, submissions: Sequence[Submission]
) -> Sequence[CheckedSubmission]:
    """The submissions with their valid specs.

    Raises SpecValidationError with the problems of all specs, or the first error of another kind.
    """
    checked: list[CheckedSubmission] = []
    problems: list[Problem] = []
    for number, submission in enumerate(submissions):
        match submitter.check(submission):
            case CheckedSubmission() as valid:
                checked.append(valid)
            case SpecValidationError() as error:
                problems += [_of_spec(number, problem) for problem in error.problems]
            case Exception() as error:
                raise error
    if problems:
        raise SpecValidationError(problems[:MAX_PROBLEMS])
    return checked


def _of_spec(number: int, problem: Problem) -> Problem:
    """The problem with a pointer from the beginning of the body."""
    return replace(problem, pointer=f"/specs/{number}{problem.pointer}")
