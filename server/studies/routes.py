"""Create, estimate, list, read, cancel and delete studies."""

import base64
from typing import Annotated, Any

from fastapi import Depends, Query, Response

from ampspec.api.studies import Estimate, Study, StudyPage
from ampspec.documents.problems import format_value
from ampspec.jobs import Problem
from ampspec.studies.markdown import study_markdown
from server.deps import JOB_ID, DatabaseDep, PrincipalDep
from server.documentation.openapi import CREATED_RESPONSES, accepted_response, problems
from server.errors import Conflict, RequestInvalid
from server.http.parameters import parse_utc
from server.http.router import api_router
from server.studies.creation import (
    CheckedStudyDep,
    PlannerDep,
    StudyActionsDep,
    estimate_study,
    get_visible_study,
)
from server.studies.views import listed_study_from_row, study_from_row
from store import studies

router = api_router("/studies", tags=["studies"])

MARKDOWN = "text/markdown; charset=utf-8"


@router.post(
    "",
    summary="Create a study",
    status_code=201,
    response_model=Study,
    responses=CREATED_RESPONSES,
)
def create(study: CheckedStudyDep, actions: StudyActionsDep) -> Response:
    """Create a study; the server queues its jobs. After the response 201 it is stored durably."""
    return actions.create(study)


@router.post("/estimate", summary="Estimate the cost of a study")
def estimate(
    study: CheckedStudyDep, principal: PrincipalDep, database: DatabaseDep, planner: PlannerDep
) -> Estimate:
    """Check a study as POST /studies does, and return the jobs that it would queue."""
    return estimate_study(database, planner, study, principal.project)


def _position(cursor: Annotated[str | None, Query(max_length=200)] = None) -> Any:
    """The creation time and the id in a cursor. Raises RequestInvalid."""
    if cursor is None:
        return None
    try:
        text = base64.urlsafe_b64decode(cursor.encode("ascii")).decode("ascii")
        created_at, study_id = text.split(" ")
        if not JOB_ID.fullmatch(study_id):
            raise ValueError(study_id)
        return parse_utc(created_at), study_id
    except ValueError:
        expected = "the next_cursor of an earlier response"
        problem = Problem("/query/cursor", "invalid_value", expected, format_value(cursor))
        raise RequestInvalid([problem]) from None


@router.get("", summary="List studies")
def listing(
    principal: PrincipalDep,
    database: DatabaseDep,
    position: Annotated[Any, Depends(_position)],
    limit: Annotated[int, Query(ge=1, le=100)] = 50,
) -> StudyPage:
    """List the studies of the token's project, newest first; for admins, of all projects."""
    with database.read() as session:
        rows = studies.page(session, principal.visible_project, position=position, limit=limit + 1)
        items = [listed_study_from_row(row) for row in rows[:limit]]
    if len(rows) <= limit:
        return StudyPage(items=items, next_cursor=None)
    last = f"{items[-1].created_at.isoformat()} {items[-1].id}"
    return StudyPage(items=items, next_cursor=base64.urlsafe_b64encode(last.encode()).decode())


@router.get("/{study_id}", summary="Read a study", responses=problems(404))
def read(study_id: str, principal: PrincipalDep, database: DatabaseDep) -> Study:
    """Read a study: its question, its jobs, and its answer once it has succeeded."""
    with database.read() as session:
        row = get_visible_study(session, study_id, principal)
        return study_from_row(row, studies.jobs_of(session, row.id))


@router.get(
    "/{study_id}/report",
    summary="Read the answer of a study as Markdown",
    response_class=Response,
    responses={
        200: {"content": {"text/markdown": {"schema": {"type": "string"}}}},
        **problems(404, 409),
    },
)
def report(study_id: str, principal: PrincipalDep, database: DatabaseDep) -> Response:
    """Read the answer of a study as Markdown, with the ids of its jobs."""
    study = read(study_id, principal, database)
    if study.answer is None:
        raise Conflict(
            f"The study has no answer: expected the state succeeded, received {study.state}."
        )
    return Response(study_markdown(study), media_type=MARKDOWN)


@router.post(
    "/{study_id}/cancel",
    summary="Cancel a study",
    status_code=202,
    response_model=Study,
    responses={**accepted_response(Study, "stop"), **problems(404, 409)},
)
def cancel(study_id: str, actions: StudyActionsDep) -> Response:
    """Cancel a study and those of its jobs that have not ended."""
    return actions.cancel(study_id)


@router.delete(
    "/{study_id}",
    summary="Delete a study",
    status_code=204,
    response_class=Response,
    responses=problems(404, 409),
)
def delete(study_id: str, actions: StudyActionsDep) -> Response:
    """Delete a study that has ended, with its answer. Its jobs stay."""
    return actions.delete(study_id)
