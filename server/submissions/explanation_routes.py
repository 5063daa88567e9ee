"""Explain a step of a job: find the cause of what happened there."""

from typing import Annotated, Final

from fastapi import Query, Request, Response

from ampspec.api.job.explanations import Explanation, ExplanationCost, ExplanationList
from ampspec.api.job.jobs import Job
from server.deps import DatabaseDep, JobId, VisibleJobId
from server.documentation.openapi import CREATED_RESPONSES, ETAG_RESPONSES, problems
from server.errors import NotFound
from server.http.etag import respond_unless_body_cached
from server.http.responses import ModelResponse
from server.http.router import api_router
from server.request_bodies import ExplanationBody
from server.submissions import explanations
from server.submissions.new_jobs import NewJobsDep
from server.telemetry.steps_query import MAX_STEP
from store.jobs import jobs

MAX_LISTED: Final = 100

router = api_router("/jobs/{job_id}/explanations", tags=["jobs"])

Step = Annotated[int, Query(ge=0, le=MAX_STEP, description="The step, counted from 0.")]
OnlyStep = Annotated[
    int | None, Query(ge=0, le=MAX_STEP, description="Only explanations of this step.")
]


@router.post(
    "",
    summary="Explain a step",
    status_code=201,
    response_model=Job,
    responses={**CREATED_RESPONSES, **problems(404, 409)},
)
async def explain(new_jobs: NewJobsDep, job_id: JobId, body: ExplanationBody) -> Response:
    """Queue a job that repeats a step of this one exactly, and finds the cause."""
    return await new_jobs.explain(job_id, body.step)


@router.get(
    "",
    summary="List the explanations of a job's steps",
    response_model=ExplanationList,
    responses={**ETAG_RESPONSES, **problems(404)},
)
def listing(
    *, job_id: VisibleJobId, database: DatabaseDep, request: Request, step: OnlyStep = None
) -> Response:
    """List the newest explanations, the last submitted one first."""
    with database.read() as session:
        rows = jobs.explanations(session, job_id, step=step, limit=MAX_LISTED)
        items = [explanations.listed(session, row) for row in rows]
    return respond_unless_body_cached(request, ModelResponse(ExplanationList(items=items)))


@router.get(
    "/cost",
    summary="Estimate the cost of an explanation",
    response_model=ExplanationCost,
    responses=problems(404, 409),
)
def cost(job_id: VisibleJobId, database: DatabaseDep, step: Step) -> ExplanationCost:
    """Estimate what has to be repeated to explain a step."""
    with database.read() as session:
        job = jobs.get(session, job_id)
        if job is None:
            raise NotFound(f"There is no job {job_id!r}.")
        return explanations.cost_of(session, job, step)


@router.get(
    "/{explanation_id}",
    summary="Read an explanation",
    response_model=Explanation,
    responses={**ETAG_RESPONSES, **problems(404)},
)
def read(
    job_id: VisibleJobId, explanation_id: str, database: DatabaseDep, request: Request
) -> Response:
    """Read an explanation with its answer. Its id is that of the job that explains the step."""
    with database.read() as session:
        job = jobs.get(session, explanation_id)
        if job is None or job.explains != job_id:
            raise NotFound(f"Job {job_id!r} has no explanation {explanation_id!r}.")
        explanation = explanations.with_answer(session, job)
    return respond_unless_body_cached(request, ModelResponse(explanation))
