"""Read the range samples of a job, and what a number format would do to its layers."""

import logging
from collections.abc import Sequence
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request, Response

from ampcore.api.ranges import NumberFormatName, Ranges
from ampcore.spec.precision import float32_overrides
from server.deps import DatabaseDep, VisibleJobId
from server.http.etag import respond_unless_body_cached
from server.http.responses import ModelResponse
from server.openapi import ETAG_RESPONSES, problems
from store import ranges

log = logging.getLogger(__name__)

router = APIRouter(prefix="/jobs/{job_id}/ranges", tags=["steps"])

MAX_STEP: Final = 2**53
Start = Annotated[int, Query(ge=0, le=MAX_STEP, description="The first step.")]
End = Annotated[int | None, Query(ge=0, le=MAX_STEP, description="The step after the last one.")]
Format = Annotated[
    NumberFormatName, Query(alias="format", description="The number format of the report.")
]
MaxSamples = Annotated[
    int, Query(ge=1, le=200, description="At most this many samples, evenly spaced.")
]


@router.get(
    "",
    summary="Read the ranges of a job's layers",
    response_model=Ranges,
    responses={**ETAG_RESPONSES, **problems(404)},
)
def read(
    *,
    job_id: VisibleJobId,
    database: DatabaseDep,
    request: Request,
    start: Start = 0,
    end: End = None,
    number_format: Format = "float16",
    max_samples: MaxSamples = 50,
) -> Response:
    """Read the exponents of every layer's values and gradients at sampled steps.

    The report says what the number format would do to them at the loss scale used and at every
    other, and which layers it does not suit.
    """
    with database.read() as session:
        steps = ranges.steps(session, job_id, start=start, end=end)
        rows = ranges.read(session, job_id, evenly_spaced(steps, max_samples))
    content = _content(steps, rows, number_format)
    return respond_unless_body_cached(request, ModelResponse(content))


def evenly_spaced(steps: Sequence[int], most: int) -> list[int]:
    """At most `most` of the steps, always with the last one."""
    stride = -(-len(steps) // most) or 1
    return list(steps[::-1][::stride][::-1])


def _content(
    steps: Sequence[int], rows: Sequence[tuple[int, dict[str, Any]]], number_format: str
) -> Ranges:
    # They load NumPy, which the other routes do not need.
    from ampcore.telemetry.number_formats import NUMBER_FORMATS
    from ampcore.telemetry.range_report import range_report
    from ampcore.telemetry.range_samples import RangeSample

    samples = []
    for step, data in rows:
        try:
            samples.append(RangeSample.from_untrusted(step, data))
        except ValueError as error:
            log.warning("skipping the range sample of step %d: %s", step, error)
    report = range_report(samples, NUMBER_FORMATS[number_format])
    return Ranges.model_validate(
        {
            "steps": list(steps),
            "samples": [{"step": one.step, **one.to_json()} for one in samples],
            "report": report
            and {
                **report.to_json(),
                "overrides": float32_overrides(report.float32_layers),
            },
        }
    )
