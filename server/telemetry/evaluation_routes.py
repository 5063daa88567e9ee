"""Read the evaluations of a job."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Any, Final

from fastapi import Query, Request, Response

from ampspec.api.job.evaluations import Evaluation, EvaluationPage
from server.deps import DatabaseDep, VisibleJobId
from server.documentation.openapi import ETAG_RESPONSES, problems
from server.http.accept import preferred_media_type
from server.http.etag import respond_unless_body_cached
from server.http.responses import ModelResponse
from server.http.router import api_router
from server.telemetry.formats import FORMATS, writer
from server.telemetry.steps_query import MAX_STEP
from store.telemetry import evaluations

router = api_router("/jobs/{job_id}/evaluations", tags=["steps"])


class EvaluationsFormat(StrEnum):
    """The values of the parameter `format`."""

    JSON = "json"
    ARROW = "arrow"
    CSV = "csv"
    NDJSON = "ndjson"
    PARQUET = "parquet"


MEDIA_TYPES: Final = {FORMATS[form].media_type: form for form in EvaluationsFormat}
FILES: Final[dict[str, Any]] = {
    media_type: {"schema": {"type": "string", "format": "binary"}}
    for media_type, form in MEDIA_TYPES.items()
    if form is not EvaluationsFormat.JSON
}
After = Annotated[
    int,
    Query(alias="after", ge=-1, le=MAX_STEP, description="Only later steps; to poll, pass `next`."),
]
End = Annotated[int | None, Query(ge=0, le=MAX_STEP, description="The step after the last one.")]
MaxPoints = Annotated[
    int | None,
    Query(
        ge=2,
        le=10_000,
        description="At most this many evaluations of the whole range, evenly spaced, always with "
        "the last one; `limit` is ignored.",
    ),
]
Limit = Annotated[int, Query(ge=1, le=100_000, description="The maximum number of evaluations.")]
Form = Annotated[
    EvaluationsFormat | None,
    Query(alias="format", description="The format, instead of `Accept`; for links."),
]


@router.get(
    "",
    summary="Read the evaluations of a job",
    response_model=EvaluationPage,
    responses={**ETAG_RESPONSES, 200: {**ETAG_RESPONSES[200], "content": FILES}, **problems(404)},
)
def read(
    *,
    job_id: VisibleJobId,
    database: DatabaseDep,
    request: Request,
    after_step: After = -1,
    end: End = None,
    limit: Limit = 10_000,
    max_points: MaxPoints = None,
    form: Form = None,
) -> Response:
    """Read the validation metrics of each evaluated step, exactly once, in order.

    A step that a later attempt evaluated again has the metrics of that attempt.
    """
    with database.read() as session:
        if max_points is None:
            rows = evaluations.read(
                session, job_id, after_step=after_step, end=end, limit=limit + 1
            )
        else:
            limit = max_points
            rows = evaluations.sample(session, job_id, max_points, after_step=after_step, end=end)
    chosen = (
        form
        or MEDIA_TYPES[preferred_media_type(request.headers.get("accept", ""), list(MEDIA_TYPES))]
    )
    response = respond_unless_body_cached(request, _response(chosen, rows, limit, after_step))
    response.headers["Vary"] = f"{response.headers['Vary']}, Accept"
    return response


def _response(
    form: EvaluationsFormat,
    rows: Sequence[evaluations.StoredEvaluation],
    limit: int,
    after_step: int,
) -> Response:
    """The first `limit` evaluations in this format."""
    listed = rows[:limit]
    if form is not EvaluationsFormat.JSON:
        from server.telemetry.evaluation_table import evaluation_table  # loads NumPy

        pieces = writer(form)([evaluation_table(listed)])
        return Response(b"".join(pieces), media_type=FORMATS[form].media_type)
    items = [
        Evaluation.model_validate(
            {"epoch": row.epoch, "step": row.step, "best": row.is_best, **row.metrics}
        )
        for row in listed
    ]
    last = listed[-1].step if listed else after_step
    page = EvaluationPage(items=items, next=None if last < 0 else last, more=len(rows) > limit)
    return ModelResponse(page)
